package wdl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/rank/commit"
)

// commitLog keeps which microbatches counted in which step, a few bytes a step, in
// the run directory. Training never fails for it.
type commitLog struct {
	file   *os.File
	before commit.Record
	buf    []byte
	warn   func(string)
}

// openCommits opens the log of a training that goes on from a record, without the
// steps after it.
func openCommits(dir string, from commit.Record, warn func(string)) *commitLog {
	l := &commitLog{before: from, warn: warn}
	path := filepath.Join(dir, fileCommits)
	b, err := commitsUntil(path, from)
	if err == nil {
		err = writeFile(dir, fileCommits, b)
	}
	if err == nil {
		l.file, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	}
	if err != nil {
		warn(fmt.Sprintf("commit sets are not kept, the training cannot be replayed: %v", err))
	}
	return l
}

// commitsUntil is the log at path up to a record, or a new one where the log does
// not reach it.
func commitsUntil(path string, from commit.Record) ([]byte, error) {
	fresh := commit.AppendLogHeader(nil, from)
	old, err := os.ReadFile(path)
	if err != nil {
		return fresh, nil // there is none
	}
	r, err := commit.NewLogReader(bytes.NewReader(old))
	if err != nil {
		return fresh, nil
	}
	at := r.Record()
	b := commit.AppendLogHeader(nil, at)
	for at.Step < from.Step {
		next, err := r.Next()
		if err != nil {
			return fresh, nil
		}
		b = commit.AppendLog(b, at, next)
		at = next
	}
	if at.Step != from.Step {
		return fresh, nil
	}
	return b, nil
}

func (l *commitLog) append(r commit.Record) {
	if l == nil || l.file == nil {
		return
	}
	l.buf = commit.AppendLog(l.buf[:0], l.before, r)
	l.before = r
	if _, err := l.file.Write(l.buf); err != nil {
		l.warn(fmt.Sprintf("commit sets are no longer kept, the training cannot be replayed: %v", err))
		l.close()
		l.file = nil
	}
}

func (l *commitLog) close() {
	if l != nil && l.file != nil {
		l.file.Close()
	}
}

// runMode is what a log needs besides to be replayed, as JSON.
type runMode struct {
	WorldSize int    `json:"world_size"`
	Mode      string `json:"mode"`
	Backup    int    `json:"backup"` // at the start
	Auto      bool   `json:"auto,omitempty"`
}

func (l *commitLog) describe(dir string, m runMode) {
	b, err := json.Marshal(m)
	if err == nil {
		err = writeFile(dir, fileMode, append(b, '\n'))
	}
	if err != nil {
		l.warn(fmt.Sprintf("the mode is not kept, the training cannot be replayed: %v", err))
	}
}

// readCommits reads the log of a run from its beginning.
func readCommits(dir string) (records []commit.Record, err error) {
	f, err := os.Open(filepath.Join(dir, fileCommits))
	if err != nil {
		return nil, fmt.Errorf("wdl: replay: %w", err)
	}
	defer f.Close()
	r, err := commit.NewLogReader(f)
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
