package input

import (
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
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
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
	for rank, b := range all {
		var some []letter
		if err := json.Unmarshal(b, &some); err != nil {
			return fmt.Errorf("unusable records of rank %d: %w", rank, err)
		}
		s.write(some)
	}
	return nil
}

// write appends letters to the file. A fault of the file is reported once.
func (s *Stream) write(some []letter) {
	if len(some) == 0 || s.mute {
		return
	}
	err := func() error {
		f, err := regular.OpenFile(filepath.Join(s.dir, FileBad), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err == nil && info.Size() > maxBadFile {
			err = fmt.Errorf("%s has %d bytes: remove it or move it away", f.Name(), info.Size())
		}
		for i := 0; i < len(some) && err == nil; i++ {
			var b []byte
			if b, err = json.Marshal(some[i]); err == nil {
				_, err = f.Write(append(b, '\n'))
			}
		}
		return err
	}()
	if err != nil {
		s.mute = true
		s.log.warn(fmt.Sprintf("unusable records of the stream are counted, and no longer kept: %v", err))
	}
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

// opens returns the fault of a local file, alone or in a span with the first good one. A file that
// cannot be read now is not at fault.
func (s *Stream) opens(good stream.Position, name string, part stream.Part) error {
	if !record.IsLocal(name) {
		return nil
	}
	n := min(len(good.Span), 1)
	pair := stream.Position{Span: append(good.Span[:n:n], name), Parts: append(good.Parts[:n:n], part)}
	_, err := data.OpenSpan(s.source, s.schema, pair)
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
	return next, fmt.Errorf("training data: %d of %d records of the span cannot be used, and data.follow.bad permits %d of %d; the first: %w; %s in the run directory has the others of earlier spans",
		n, n+in.Train.Rows(data.All), b.Most, b.Per, &first[0], FileBad)
}

// TooBadFiles is TooBad for unusable files.
func TooBadFiles(b schema.Bad, debt, files int64) (int64, error) {
	next, over := b.Debt(debt, 0, files)
	if !over {
		return next, nil
	}
	return next, fmt.Errorf("training data: too many files cannot be used: data.follow.bad permits %d of %d records, and a file counts as one; %s in the run directory names them", b.Most, b.Per, FileBad)
}

// unlimited is the number of unusable records that a scan permits if TooBad decides.
const unlimited = math.MaxInt64
