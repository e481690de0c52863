package save

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/regular"
	"github.com/wdlrun/wdlrun/internal/wdl/slots"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// CommitLog keeps which microbatches counted in which step, a few bytes a step, in
// the run directory. Training never fails for it.
type CommitLog struct {
	file   *os.File
	before slots.Record
	buf    []byte
	warn   func(string)
}

// OpenCommits opens the log of a training that resumes from a record, without the
// steps after it.
func OpenCommits(dir string, from slots.Record, warn func(string)) *CommitLog {
	l := &CommitLog{warn: warn}
	path := filepath.Join(dir, FileCommits)
	var b []byte
	b, l.before = commitsUntil(path, from)
	err := WriteFile(dir, FileCommits, b)
	if err == nil {
		l.file, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	}
	if err != nil {
		warn(fmt.Sprintf("commit sets are not kept, the training cannot be replayed: %v", err))
	}
	return l
}

// commitsUntil is the log at path up to a record, with its last, or a new one where
// the log does not reach it. The last is the log's own: at the end of an epoch it has
// the old one's queue, the record from which training resumes the new one's.
func commitsUntil(path string, from slots.Record) (b []byte, last slots.Record) {
	fresh := slots.AppendLogHeader(nil, from)
	old, err := regular.ReadFile(path, MaxFile)
	if err != nil {
		return fresh, from // there is none
	}
	r, err := slots.NewLogReader(bytes.NewReader(old))
	if err != nil {
		return fresh, from
	}
	last = r.Record()
	b = slots.AppendLogHeader(nil, last)
	for last.Step < from.Step {
		next, err := r.Next()
		if err != nil {
			return fresh, from
		}
		b = slots.AppendLog(b, last, next)
		last = next
	}
	if last.Step != from.Step {
		return fresh, from
	}
	return b, last
}

func (l *CommitLog) Append(r slots.Record) {
	if l == nil || l.file == nil {
		return
	}
	l.buf = slots.AppendLog(l.buf[:0], l.before, r)
	l.before = r
	if _, err := l.file.Write(l.buf); err != nil {
		l.warn(fmt.Sprintf("commit sets are no longer kept, the training cannot be replayed: %v", err))
		l.Close()
		l.file = nil
	}
}

func (l *CommitLog) Close() {
	if l != nil && l.file != nil {
		l.file.Close()
	}
}

// Mode is what a log needs besides to be replayed, as JSON: a list, of one for
// each step from which on it was another.
type Mode struct {
	From      int64  `json:"from_step"` // after it
	WorldSize int    `json:"world_size"`
	Mode      string `json:"mode"`
	Backup    int    `json:"backup"` // at the start
	Auto      bool   `json:"auto,omitempty"`

	Settings []string `json:"settings,omitempty"` // that steps depend on and that changed here: "train.batch: 128 → 64"
}

// as reports whether m is the mode of was, from another step on.
func (m Mode) as(was Mode) bool {
	return len(m.Settings) == 0 && m.WorldSize == was.WorldSize && m.Mode == was.Mode && m.Backup == was.Backup && m.Auto == was.Auto
}

func (m Mode) String() string {
	how := step.Tolerance{Backup: m.Backup, Auto: m.Auto}
	var err error
	if how.Mode, err = slots.ParseMode(m.Mode); err != nil {
		return err.Error()
	}
	s := fmt.Sprintf("on %d ranks in %v", m.WorldSize, how)
	if len(m.Settings) > 0 {
		s += " with " + strings.Join(m.Settings, ", ")
	}
	return s
}

// Describe notes the mode from a step on, in place of what was planned for later ones.
func (l *CommitLog) Describe(dir string, m Mode) {
	all, err := ReadModes(dir)
	if err != nil {
		all = nil
	}
	all = slices.DeleteFunc(all, func(was Mode) bool { return was.From >= m.From })
	if n := len(all); n == 0 || !m.as(all[n-1]) {
		all = append(all, m)
	}
	b, err := json.Marshal(all)
	if err == nil {
		err = WriteFile(dir, FileMode, append(b, '\n'))
	}
	if err != nil {
		l.warn(fmt.Sprintf("the mode is not kept, the training cannot be replayed: %v", err))
	}
}

// ReadModes reads the modes of a run; there is one at least.
func ReadModes(dir string) (all []Mode, err error) {
	path := filepath.Join(dir, FileMode)
	b, err := regular.ReadFile(path, MaxFile)
	if err != nil {
		return nil, err
	}
	if err = json.Unmarshal(b, &all); err == nil && len(all) == 0 {
		err = errors.New("it names no mode")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// ReadCommits reads the log of a run from its beginning.
func ReadCommits(dir string) (records []slots.Record, err error) {
	f, err := regular.Open(filepath.Join(dir, FileCommits))
	if err != nil {
		return nil, fmt.Errorf("wdl: replay: %w", err)
	}
	defer f.Close()
	r, err := slots.NewLogReader(f)
	if err != nil {
		return nil, err
	}
	records = append(records, r.Record())
	for {
		next, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return records, nil // the writer may have been killed within a step
		}
		if err != nil {
			return nil, err
		}
		records = append(records, next)
	}
}
