package report

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/runs/tensorboard"
)

// events writes what metrics.jsonl and distributions.jsonl get as event files of
// TensorBoard, too. After the first error it warns and writes no more. nil: none.
type events struct {
	to    *tensorboard.Writer
	warn  func(string)
	dir   string // the run directory
	limit int64  // bytes at which the files are written again
	least int64  // and at least these bytes
}

// maxEvents is the limit of the event files, in bytes. They have what the thinned files of lines have, in up
// to four times as many bytes.
const maxEvents = 20 << 20

// openEvents starts event files in the run directory dir after a step. yaml is the
// configuration.
func openEvents(dir string, yaml []byte, step int64, warn func(string)) *events {
	now := time.Now()
	e := &events{to: tensorboard.New(filepath.Join(dir, rundir.FolderEvents), now, step+1), warn: warn, dir: dir, limit: maxEvents}
	e.to.Model(yaml)
	settings, err := runs.ParseSettings(yaml)
	if err == nil {
		err = e.to.Begin(&settings, tensorboard.Keys([]*runs.Summary{{Config: settings}}), now)
	}
	e.check(err)
	return e
}

// check stops the writing after an error.
func (e *events) check(err error) {
	if err == nil {
		return
	}
	e.warn(fmt.Sprintf("event files of TensorBoard are no longer written: %v; wdlrun report -tensorboard writes them after the training", err))
	e.to.Close()
	e.to = nil
}

func (e *events) writes() bool { return e != nil && e.to != nil }

// line writes a line of metrics.jsonl.
func (e *events) line(line []byte) {
	if !e.writes() {
		return
	}
	p, series, err := runs.ParsePoint(line)
	if err == nil {
		err = e.to.Point(series, &p)
	}
	if err == nil && e.to.Size() > max(e.limit, e.least) {
		err = e.rewrite()
	}
	e.check(err)
}

// rewrite writes the event files again, from metrics.jsonl and distributions.jsonl, which are thinned.
func (e *events) rewrite() error {
	r, err := runs.Read(e.dir)
	if err == nil {
		err = e.to.Again(r, time.Now())
	}
	size := e.to.Size()
	e.least = size + size/4 // above the limit if all that is left is needed
	return err
}

func (e *events) days(l *rundir.Days) {
	if e.writes() {
		e.check(e.to.Days(l, time.Now()))
	}
}

func (e *events) ranks(t *runs.RankTimes) {
	if e.writes() {
		e.check(e.to.Ranks(t))
	}
}

func (e *events) distributions(d *metrics.Distributions) {
	if e.writes() {
		e.check(e.to.Distributions(d))
	}
}

// end writes that the training has ended with a result.
func (e *events) end() {
	if e.writes() {
		e.check(e.to.End(time.Now()))
	}
}

func (e *events) close() {
	if e.writes() {
		e.to.Close()
	}
}
