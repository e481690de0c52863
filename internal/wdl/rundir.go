package wdl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/regular"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
)

// The files of a run directory.
const (
	FileConfig  = "config.yaml"   // the configuration in effect
	fileMetrics = "metrics.jsonl" // one JSON object a line, see metricLine
	fileResult  = "result.json"   // the Result of the finished job
	fileCommits = "commits.log"   // which microbatches counted, see slots.AppendLog
	fileMode    = "mode.json"     // how slow ranks were treated, see runMode
	fileTraces  = "trace-*.json"  // of each rank, see writeTrace
	fileChaos   = "chaos.log"     // faults on purpose that have been, see struck
)

// NewRunDir makes a directory for one run below parent, named by the time.
func NewRunDir(parent string, now time.Time) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("wdl: run directory: %w", err)
	}
	name := now.Format("20060102-150405")
	for i := 1; i < 1000; i++ {
		dir := filepath.Join(parent, name)
		if i > 1 {
			dir += fmt.Sprintf("-%d", i)
		}
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		if !os.IsExist(err) {
			return "", fmt.Errorf("wdl: run directory: %w", err)
		}
	}
	return "", fmt.Errorf("wdl: run directory: %s and its successors exist", filepath.Join(parent, name))
}

// CheckPlace finds, before any rank is started and on the host of rank 0, why a training
// can have no run directory: no new one can be made and written to where the options
// want it, or another training is at work in the one that it is to go on in.
func CheckPlace(o Options) error {
	if o.Resume == "" || checkpoint.IsCheckpoint(o.Resume) {
		return writable(o.Out)
	}
	if _, err := os.Stat(filepath.Join(o.Resume, fileLock)); err != nil {
		return nil // no training has begun in it
	}
	unlock, err := lock(o.Resume)
	if err == nil {
		unlock()
	}
	switch {
	case errors.Is(err, errInUse):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("wdl: run directory: nothing can be written in %s: %w: to train on in a new one, resume one of its checkpoints, %s", o.Resume, cause(err), filepath.Join(o.Resume, checkpoint.Folder, "step-…"))
	}
	return nil // others have to read it only
}

// writable tries to make a directory with a file below parent, or below what there is
// of its path, and leaves nothing behind.
func writable(parent string) error {
	above := filepath.Clean(parent)
	for {
		info, err := os.Stat(above)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("wdl: run directory: %s is no folder: choose another place with -out", above)
		}
		if up := filepath.Dir(above); (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && up != above {
			above = up
			continue
		}
		break
	}
	try, err := os.MkdirTemp(above, ".wdlrun-")
	if err == nil {
		defer os.RemoveAll(try)
		err = os.WriteFile(filepath.Join(try, FileConfig), make([]byte, 1<<12), 0o644)
	}
	if err != nil {
		next := "choose"
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			next = "free some space, or choose"
		}
		return fmt.Errorf("wdl: run directory: nothing can be made in %s: %w: %s another place with -out", above, cause(err), next)
	}
	return nil
}

// CheckTiers finds, before any rank is started and on a host of theirs, folders of tiers
// that are not there or that cannot be written to.
func CheckTiers(o Options) error {
	var from *checkpoint.Checkpoint
	if o.Resume != "" {
		var err error
		if from, _, err = checkpoint.Resolve(o.Resume); err != nil {
			return resumeHint(err, o.Resume)
		}
	}
	c, _, err := o.config(from)
	if err != nil {
		return err
	}
	var faults []error
	for i, t := range c.Tables {
		if t.Tier.Dir == "" {
			continue
		}
		try, err := os.MkdirTemp(t.Tier.Dir, ".wdlrun-")
		if err != nil {
			faults = append(faults, fmt.Errorf("wdl: tables[%d].tier.dir: nothing can be made in %s: %w: it must be a folder that is there, on a fast disk of each host of ranks", i, t.Tier.Dir, cause(err)))
			continue
		}
		os.Remove(try)
	}
	return errors.Join(faults...)
}

// cause is what the system says, without the path.
func cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// fileLock is locked by the training at work in a run directory.
const fileLock = ".lock"

// errInUse is why there is no lock to be had.
var errInUse = errors.New("is in use by another training")

// metricLine is one line of metrics.jsonl.
type metricLine struct {
	Event   string           `json:"event"` // train, valid or test
	Time    string           `json:"time"`
	Step    int64            `json:"step"`
	Epoch   int64            `json:"epoch"`
	Samples int64            `json:"samples"`
	Rate    float64          `json:"rate,omitempty"` // factor of the learning rates
	Speed   float64          `json:"samples_per_second,omitempty"`
	LogLoss float64          `json:"logloss"`
	Metrics *metrics.Metrics `json:"metrics,omitempty"`
}

// metricsLog appends lines to metrics.jsonl. Training never fails for it: after
// the first error it reports that once and writes no more. It notices a run directory
// that is deleted or moved while the training runs, see restore.
type metricsLog struct {
	dir    string
	config []byte
	is     fs.FileInfo // of dir
	file   *os.File
	unlock func() // of the directory that restore made
	warn   func(string)
}

// openMetrics opens the file, without the lines of steps that a resumed training
// will take again. config is what the run directory has as FileConfig.
func openMetrics(dir string, config []byte, step int64, warn func(string)) *metricsLog {
	path := filepath.Join(dir, fileMetrics)
	if err := dropLater(path, step); err != nil {
		warn(fmt.Sprintf("%s keeps lines of steps after %d: %v", path, step, err))
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		warn(fmt.Sprintf("metrics are not kept: %v", err))
		return &metricsLog{}
	}
	m := &metricsLog{dir: dir, config: config, file: f, unlock: func() {}, warn: warn}
	m.is, _ = os.Stat(dir) // nil: it is not watched
	return m
}

// restore makes the run directory again if it is no longer what it was: with the
// configuration, and the metrics so far. Checkpoints are written there from now on.
func (m *metricsLog) restore() {
	if m == nil || m.file == nil || m.is == nil {
		return
	}
	now, err := os.Stat(m.dir)
	if err == nil && os.SameFile(now, m.is) {
		return
	}
	m.warn(fmt.Sprintf("the run directory %s was deleted or moved while the training ran: it is made again, with the configuration and the metrics so far", m.dir))
	err = m.again()
	if err != nil {
		m.warn(fmt.Sprintf("metrics are no longer kept: %v", err))
		m.close()
		m.file = nil
	}
}

func (m *metricsLog) again() error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	if err := writeFile(m.dir, FileConfig, m.config); err != nil {
		return err
	}
	before, err := io.ReadAll(io.NewSectionReader(m.file, 0, maxRunFile))
	if err != nil {
		return err
	}
	if err := writeFile(m.dir, fileMetrics, before); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(m.dir, fileMetrics), os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	m.file.Close()
	m.file = f
	m.unlock()
	if m.unlock, err = lock(m.dir); err != nil {
		m.unlock = func() {}
		return err
	}
	m.is, err = os.Stat(m.dir)
	return err
}

// dropLater removes the lines of metrics after a step, and a torn last one.
func dropLater(path string, step int64) error {
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	w := bufio.NewWriter(out)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l metricLine
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Step <= step {
			w.Write(append(lines.Bytes(), '\n'))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return os.Rename(out.Name(), path)
}

func (m *metricsLog) write(line metricLine) {
	m.restore()
	if m == nil || m.file == nil {
		return
	}
	line.Time = time.Now().UTC().Format(time.RFC3339Nano)
	b, err := json.Marshal(line)
	if err == nil {
		_, err = m.file.Write(append(b, '\n'))
	}
	if err != nil {
		m.warn(fmt.Sprintf("metrics are no longer kept: %v", err))
		m.close()
		m.file = nil
	}
}

func (m *metricsLog) close() {
	if m != nil && m.file != nil {
		m.file.Close()
		m.unlock()
	}
}

// maxRunFile bounds the files of a run directory that are read whole.
const maxRunFile = 1 << 30

// writeFile writes a small file of the run directory in one piece.
func writeFile(dir, name string, b []byte) error { return writeMode(dir, name, 0o644, b) }

// writeMode is writeFile with the permissions of the file. A file that is locked has
// 0600: the right to open it is the right to lock it.
func writeMode(dir, name string, mode fs.FileMode, b []byte) error {
	tmp := filepath.Join(dir, "."+name)
	if err := os.WriteFile(tmp, b, mode); err != nil {
		os.Remove(tmp)
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, name))
}

// RunFile is one entry of a run directory.
type RunFile struct{ Name, What string }

// RunFiles says what a finished job leaves in its run directory.
func (r Result) RunFiles() []RunFile {
	files := []RunFile{
		{FileConfig, "the configuration in effect"},
		{fileMetrics, "loss, speed and evaluations, one JSON object a line"},
		{fileResult, "the result"},
		{fileTraces, "timeline of each rank, for ui.perfetto.dev"},
	}
	switch {
	case r.Checkpoint != "":
		files = append(files, RunFile{checkpoint.Folder + "/", "the model, to resume from or to evaluate"})
	case r.LastCheckpoint != "":
		files = append(files, RunFile{checkpoint.Folder + "/", "up to " + filepath.Base(r.LastCheckpoint) + ", to resume from"})
	}
	return slices.DeleteFunc(files, func(f RunFile) bool { return slices.Contains(r.Lost, f.Name) })
}

// writeTrace leaves this rank's timeline in the run directory. One without a step does
// not take the place of another. It reports whether there is one.
func (j *job) writeTrace() bool {
	name := fmt.Sprintf("trace-%04d.json", j.comm.Rank())
	if _, err := os.Stat(filepath.Join(j.runDir, name)); err == nil && j.cursor.Step == j.resumedAt {
		return true
	}
	var b bytes.Buffer
	err := j.rec.WriteChrome(&b, j.comm.Rank())
	if err == nil {
		err = writeFile(j.runDir, name, b.Bytes())
	}
	if err != nil {
		j.opt.Warn(fmt.Sprintf("the timeline is not kept: %v", err))
	}
	return err == nil
}
