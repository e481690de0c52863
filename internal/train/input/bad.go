package input

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/zeebo/xxh3"
)

// FileBad is the file of a run directory with the unusable records and files of a stream that were
// left out by data.follow.bad, one letter per line.
const FileBad = "bad.jsonl"

// letter describes an unusable record or file.
type letter struct {
	Span   int64  `json:"span"`
	File   string `json:"file"`
	Offset int64  `json:"offset"` // of the record
	Reason string `json:"reason"`
	Record string `json:"record,omitempty"` // its first bytes, if they are text
}

// Limits of letters.
const (
	maxLetters = 1000     // of a span and a rank
	maxRecord  = 4 << 10  // bytes of a record
	maxBadFile = 64 << 20 // bytes of the file
)

// letters collects the unusable records that this rank finds in a dataset.
func letters(d *data.Dataset, span int64) *[]letter {
	all := new([]letter)
	d.OnBad(func(at record.Fault, b []byte) {
		if len(*all) == maxLetters {
			return
		}
		x := letter{Span: span, File: at.File, Offset: at.Offset, Reason: at.Reason()}
		if b = b[:min(len(b), maxRecord)]; utf8.Valid(b) {
			x.Record = string(b)
		}
		*all = append(*all, x)
	})
	return all
}

// keepBad gathers the letters about a span on rank 0, which writes them, unless a previous run has.
func (s *Stream) keepBad(in *Input, at stream.Position) error {
	if n, _ := in.Train.Bad(); n == 0 || !in.Config.Data.Follow.Bad.On() {
		return nil
	}
	b, err := json.Marshal(*s.letters)
	if err != nil {
		return err
	}
	all, err := collective.AllGatherBytes(in.Comm, b, maxShare)
	if err != nil || s.log == nil || at.Spans <= s.log.last {
		return err
	}
	var whole []letter
	for rank, b := range all {
		var some []letter
		if err := json.Unmarshal(b, &some); err != nil {
			return fmt.Errorf("unusable records of rank %d: %w", rank, err)
		}
		whole = append(whole, some...)
	}
	s.write(at.Spans, whole)
	return nil
}

// write keeps letters about a span. A fault is reported once.
func (s *Stream) write(span int64, some []letter) {
	if len(some) == 0 || s.mute {
		return
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	err := error(nil)
	for i := range some {
		err = cmp.Or(err, e.Encode(&some[i]))
	}
	to := s.source.Follow.Bad.To
	switch {
	case err != nil:
	case kafka.IsTopic(to):
		err = s.writeTopic(to, b.Bytes())
	case to != "":
		if err = os.MkdirAll(to, 0o755); err == nil {
			err = rundir.WriteFile(to, fmt.Sprintf("%012d-%016x.jsonl", span, xxh3.Hash(b.Bytes())), b.Bytes())
		}
	default:
		err = s.appendBad(b.Bytes())
	}
	if err != nil {
		s.mute = true
		s.log.warn(fmt.Sprintf("unusable records of the stream are counted, and no longer kept: %v", err))
	}
}

// appendBad appends lines to the file of the run directory.
func (s *Stream) appendBad(lines []byte) error {
	f, err := regular.OpenFile(filepath.Join(s.dir, FileBad), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() > maxBadFile {
		err = fmt.Errorf("%s has %d bytes: remove it or move it away", f.Name(), info.Size())
	}
	if err == nil {
		_, err = f.Write(lines)
	}
	return err
}

// writeTopic writes lines to a topic.
func (s *Stream) writeTopic(to string, lines []byte) error {
	a, err := kafka.ParseAddress(to)
	if err != nil {
		return err
	}
	if s.badTopic == nil {
		if s.badTopic, err = kafka.OpenWriter(context.Background(), a, "wdlrun-bad-"+rand.Text()); err != nil {
			return err
		}
	}
	return s.badTopic.Write(context.Background(), s.badTopic.Last()+1, bytes.NewReader(lines))
}

// examine removes the files from a new span that are unusable as a whole, and returns them.
func (s *Stream) examine(at *stream.Position) (bad []stream.Bad) {
	if !s.source.Follow.Bad.On() || len(at.Parts) == 0 {
		return nil
	}
	var good stream.Position
	for i, name := range at.Span {
		if err := s.opens(good, name, at.Parts[i]); err != nil {
			bad = append(bad, stream.Bad{Name: name, Why: err.Error()})
			continue
		}
		good.Span, good.Parts = append(good.Span, name), append(good.Parts, at.Parts[i])
	}
	if at.Span, at.Parts = good.Span, good.Parts; len(bad) > 0 && len(at.Span) == 0 {
		at.Spans-- // there is nothing to train on
	}
	return bad
}

// opens returns the fault of a local file: first alone, because in a span with others a column that it lacks
// would only be missing, then with the first good one. A file that cannot be read now is not at fault.
func (s *Stream) opens(good stream.Position, name string, part stream.Part) error {
	if !record.IsLocal(name) {
		return nil
	}
	_, err := data.OpenSpan(s.source, s.schema, stream.Position{Span: []string{name}, Parts: []stream.Part{part}})
	if len(good.Span) > 0 && (err == nil || errors.Is(err, record.ErrNoLine)) { // files without a line may be among others
		_, err = data.OpenSpan(s.source, s.schema, stream.Position{Span: []string{good.Span[0], name}, Parts: []stream.Part{good.Parts[0], part}})
	}
	if p := (*fs.PathError)(nil); errors.As(err, &p) || errors.Is(err, record.ErrReplaced) {
		return nil
	}
	return err
}

// TooBad returns the debt of a stream after the span that was scanned, and the error if data.follow.bad
// does not permit so many unusable records.
func (in *Input) TooBad(debt int64) (int64, error) {
	b := in.Config.Data.Follow.Bad
	if !b.On() {
		return 0, nil
	}
	n, first := in.Train.Bad()
	next, over := b.Debt(debt, in.Train.Rows(data.All)+n, n)
	if !over {
		return next, nil
	}
	return next, fmt.Errorf("training data: %d of %d records of the span cannot be used, and data.follow.bad permits %d of %d; the first: %w; %s has those of earlier spans",
		n, n+in.Train.Rows(data.All), b.Most, b.Per, &first[0], keptIn(b))
}

// TooBadFiles is TooBad for unusable files.
func TooBadFiles(b schema.Bad, debt, files int64) (int64, error) {
	next, over := b.Debt(debt, 0, files)
	if !over {
		return next, nil
	}
	return next, fmt.Errorf("training data: too many files cannot be used: data.follow.bad permits %d of %d records, and a file counts as one; %s names them", b.Most, b.Per, keptIn(b))
}

// keptIn names the place of unusable records.
func keptIn(b schema.Bad) string {
	if b.To != "" {
		return b.To
	}
	return FileBad + " in the run directory"
}

// unlimited is the number of unusable records that a scan permits if TooBad decides.
const unlimited = math.MaxInt64
