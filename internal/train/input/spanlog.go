package input

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// FileSpans is the file of a run directory with the spans of a stream that were read, one
// stream.Position per line.
const FileSpans = "spans.jsonl"

// spanLog records the spans of a stream. A checkpoint holds the current span. A job that is
// killed later and resumes takes the following spans from this log, so that it reads the same
// spans again. An error of the log does not fail the training: without the file, spans are
// decided again. The log keeps the latest spans only, since a stream may last for ever: beyond
// maxSpans, the older half is removed.
type spanLog struct {
	path string
	file *os.File
	size int64             // of the file
	most int64             // size at which it is cut
	past []stream.Position // spans of the previous run up to the checkpoint
	done []stream.Position // spans of the previous run after the checkpoint
	last int64             // number of the span in the last line
	warn func(string)
}

// maxSpans is the size of the file, in bytes, above which older spans are removed: some 20,000 of
// one file each.
const maxSpans = 4 << 20

// maxSpanLine is the largest size of a line of the file, in bytes.
const maxSpanLine = 1 << 28

// openSpans opens the log of a run that resumes after its first n spans.
func openSpans(dir string, n int64, warn func(string)) (*spanLog, error) {
	path := filepath.Join(dir, FileSpans)
	all, err := ReadSpans(path)
	if err != nil {
		return nil, fmt.Errorf("stream: %s: %w; remove the file to divide the stream again", path, err)
	}
	l := &spanLog{path: path, most: maxSpans, warn: warn}
	behind := slices.IndexFunc(all, func(at stream.Position) bool { return at.Spans > n })
	if behind < 0 {
		behind = len(all)
	}
	if behind == 0 && len(all) > 0 && all[0].Spans > n+1 { // what follows n was removed
		warn(fmt.Sprintf("%s begins with span %d: the stream is divided again after span %d, where the checkpoint ends", path, all[0].Spans, n))
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("stream: %w", err)
		}
		all = nil
	}
	if l.past, l.done = all[:behind:behind], all[behind:]; len(all) > 0 {
		l.last = all[len(all)-1].Spans
	}
	if err := l.open(); err != nil {
		warn(fmt.Sprintf("the spans of the stream are not kept: %v", err))
	}
	return l, nil
}

// open opens the file to append to it.
func (l *spanLog) open() error {
	f, err := regular.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.file, l.size = f, info.Size()
	return nil
}

// cut removes the oldest spans of the file, so that half of the permitted size is left.
func (l *spanLog) cut() error {
	b, err := regular.ReadFile(l.path, math.MaxInt64)
	if err != nil {
		return err
	}
	from := len(b) - int(l.most/2)
	from += bytes.IndexByte(b[from:], '\n') + 1
	if from == len(b) { // the last span alone is larger
		from = bytes.LastIndexByte(b[:from-1], '\n') + 1
	}
	b = b[from:]
	if err := regular.WriteFile(l.path+".new", b, 0o644); err != nil {
		return err
	}
	if err := regular.Rename(l.path+".new", l.path); err != nil {
		return err
	}
	l.close()
	if err := l.open(); err != nil {
		return err
	}
	l.most = max(l.most, 2*l.size)
	return nil
}

// ReadSpans returns the positions in a file. It ignores an incomplete last line, written by a
// process that was killed.
func ReadSpans(path string) (all []stream.Position, err error) {
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, whole := bufio.NewReader(f), int64(0)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return all, truncate(path, whole)
		}
		var at stream.Position
		if err := json.Unmarshal(line, &at); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(all)+1, err)
		}
		if err := at.Validate(); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(all)+1, err)
		}
		if len(all) > 0 && at.Spans != all[len(all)-1].Spans+1 || len(at.Span) == 0 || len(line) > maxSpanLine {
			return nil, fmt.Errorf("line %d: it is of span %d with %d names", len(all)+1, at.Spans, len(at.Span))
		}
		all, whole = append(all, at), whole+int64(len(line))
	}
}

// truncate removes an incomplete last line.
func truncate(path string, whole int64) error {
	f, err := regular.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(whole), f.Close())
}

// next returns the position after the span that follows that of a position, if it was decided
// before; otherwise nil. Records that were lost since then are counted in it.
func (l *spanLog) next(at stream.Position) *stream.Position {
	if len(l.done) == 0 || l.done[0].Spans != at.Spans+1 {
		return nil
	}
	next := l.done[0].Clone()
	if n := len(l.past); n > 0 {
		next.Lost += max(at.Lost-l.past[n-1].Lost, 0)
	}
	return &next
}

// shiftPosition moves the position of the next span to the past.
func (l *spanLog) shiftPosition() { l.past, l.done = append(l.past, l.done[0]), l.done[1:] }

// append writes the position of a span that all ranks have scanned, unless the file has it. l
// is nil except on rank 0.
func (l *spanLog) append(at stream.Position) {
	if l == nil || l.file == nil || at.Spans <= l.last {
		return
	}
	l.last = at.Spans
	b, err := json.Marshal(at)
	if err == nil {
		var n int
		n, err = l.file.Write(append(b, '\n'))
		l.size += int64(n)
	}
	if err == nil && l.size > l.most {
		err = l.cut()
	}
	if err != nil {
		l.warn(fmt.Sprintf("the spans of the stream are no longer kept: %v", err))
		l.close()
	}
}

func (l *spanLog) close() {
	if l != nil && l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
