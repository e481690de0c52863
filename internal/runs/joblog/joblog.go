// Package joblog writes the log of a job as JSON records of log/slog: time, level, msg,
// and for ranks also rank, host and step.
//
// A rank writes its records to a stream and to a separate file, FILE. At a size limit FILE
// is renamed to FILE.1, replacing the previous one. Records written before the folder of
// the file exists are kept in memory, up to a limit. If the file cannot be written it is
// abandoned, and the stream continues.
package joblog

import (
	"bytes"
	"context"
	"encoding/json"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// Limits.
const (
	fileLimit    = 4 << 20  // bytes of a file
	pendingLimit = 1 << 20  // bytes kept until there is a folder
	lineLimit    = 64 << 10 // maximum length of a line in Lines
)

// File is a log file. The zero value buffers until Open.
type File struct {
	mu      sync.Mutex
	path    string
	limit   int64 // default fileLimit
	file    *os.File
	size    int64
	pending []byte
	err     error // why it was abandoned
}

// Open opens the file, appends what was written before, and later writes go to the file.
// Only the first call has an effect.
func (f *File) Open(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path != "" {
		return f.err
	}
	f.path = path
	if f.limit == 0 {
		f.limit = fileLimit
	}
	f.open()
	f.write(f.pending)
	f.pending = nil
	return f.err
}

func (f *File) open() {
	if f.file, f.err = regular.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); f.err != nil {
		return
	}
	info, err := f.file.Stat()
	if f.err = err; err == nil {
		f.size = info.Size()
	}
}

// Write writes a record. It never fails: see Close.
func (f *File) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path != "" {
		f.write(b)
	} else if len(f.pending)+len(b) <= pendingLimit {
		f.pending = append(f.pending, b...)
	}
	return len(b), nil
}

func (f *File) write(b []byte) {
	if f.err != nil || len(b) == 0 {
		return
	}
	if f.size > 0 && f.size+int64(len(b)) > f.limit {
		f.file.Close()
		if f.err = os.Rename(f.path, f.path+".1"); f.err == nil {
			f.open()
		}
		if f.err != nil {
			return
		}
	}
	n, err := f.file.Write(b)
	f.size, f.err = f.size+int64(n), err
}

// Close closes the file and returns the error for which it was abandoned, if it was.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		f.file.Close()
	}
	return f.err
}

// New returns a logger of a rank that writes records from a level on to both. step is
// called for each record.
func New(stream io.Writer, file *File, level slog.Leveler, rank int, host string, step func() int64) *slog.Logger {
	h := slog.NewJSONHandler(io.MultiWriter(stream, file), &slog.HandlerOptions{Level: level})
	return slog.New(stepped{h.WithAttrs([]slog.Attr{slog.Int("rank", rank), slog.String("host", host)}), step})
}

// stepped adds the step to each record.
type stepped struct {
	slog.Handler
	step func() int64
}

func (h stepped) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.Int64("step", h.step()))
	return h.Handler.Handle(ctx, r)
}

// Lines is a writer of text that turns each line into a record. A JSON object is written
// unchanged, a line that begins with "wdlrun: " is a warning, and any other is
// information.
type Lines struct {
	mu  sync.Mutex
	to  io.Writer
	log *slog.Logger
	end []byte // incomplete line
}

// NewLines returns a Lines that writes records from a level on.
func NewLines(to io.Writer, level slog.Leveler) *Lines {
	return &Lines{to: to, log: slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level}))}
}

// Write writes text.
func (l *Lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = append(l.end, b...)
	for {
		line, rest, whole := bytes.Cut(l.end, []byte("\n"))
		if !whole && len(l.end) < lineLimit {
			return len(b), nil
		}
		l.line(line)
		l.end = append(l.end[:0], rest...)
		if !whole {
			return len(b), nil
		}
	}
}

func (l *Lines) line(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	if line[0] == '{' && json.Valid(line) {
		l.to.Write(append(line, '\n'))
		return
	}
	text, warning := strings.CutPrefix(string(line), "wdlrun: ")
	if warning {
		l.log.Warn(text)
	} else {
		l.log.Info(text)
	}
}
