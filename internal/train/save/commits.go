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

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// CommitLog records in the run directory which microbatches counted in each step, with a
// few bytes per step. An error of the log does not end the training.
type CommitLog struct {
	file   *os.File
	before slots.Record
	buf    []byte
	warn   func(string)
}

// OpenCommits opens the log of a training that resumes after a record. It removes the steps
// after that record.
func OpenCommits(dir string, from slots.Record, warn func(string)) *CommitLog {
	l := &CommitLog{warn: warn}
	path := filepath.Join(dir, rundir.FileCommits)
	var b []byte
	b, l.before = commitsUntil(path, from)
	err := rundir.WriteFile(dir, rundir.FileCommits, b)
	if err == nil {
		l.file, err = regular.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	}
	if err != nil {
		warn(fmt.Sprintf("commit sets are not kept, the training cannot be replayed: %v", err))
	}
	return l
}

// commitsUntil returns the log at path up to a record, and its last record. If the log does
// not reach the record, it returns a new log. At the end of an epoch the last record of the
// log has the queue of the old epoch, from the queue of the new one.
func commitsUntil(path string, from slots.Record) (b []byte, last slots.Record) {
	fresh := slots.AppendLogHeader(nil, from)
	old, err := regular.ReadFile(path, rundir.MaxFile)
	if err != nil {
		return fresh, from // there is no log
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

// Mode is an entry of the JSON list that a log needs for a replay. The list has an entry
// for each step after which the mode changed.
type Mode struct {
	From      int64  `json:"from_step"` // the mode applies after this step
	WorldSize int    `json:"world_size"`
	Mode      string `json:"mode"`
	Backup    int    `json:"backup"` // at the start
	Auto      bool   `json:"auto,omitempty"`

	Settings []string `json:"settings,omitempty"` // changed settings that affect steps: "train.batch: 128 → 64"
}

// as reports whether m and was differ in the first step only.
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

// Describe records the mode after a step. It removes entries for later steps.
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
		err = rundir.WriteFile(dir, rundir.FileMode, append(b, '\n'))
	}
	if err != nil {
		l.warn(fmt.Sprintf("the mode is not kept, the training cannot be replayed: %v", err))
	}
}

// ReadModes returns the modes of a run, at least one.
func ReadModes(dir string) (all []Mode, err error) {
	path := filepath.Join(dir, rundir.FileMode)
	b, err := regular.ReadFile(path, rundir.MaxFile)
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

// ReadCommits returns the log of a run.
func ReadCommits(dir string) (records []slots.Record, err error) {
	f, err := regular.Open(filepath.Join(dir, rundir.FileCommits))
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
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
