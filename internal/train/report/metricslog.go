package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Line is one line of metrics.jsonl; Write sets its time. See also runs.RankTimes.
type Line struct {
	Event   string           `json:"event"` // train, valid, test or day
	Time    string           `json:"time"`
	Step    int64            `json:"step"`
	Epoch   int64            `json:"epoch"`
	Samples int64            `json:"samples"`
	Rate    float64          `json:"rate,omitempty"` // factor of the learning rates
	Speed   float64          `json:"samples_per_second,omitempty"`
	LogLoss float64          `json:"logloss"`
	Metrics *metrics.Metrics `json:"metrics,omitempty"`
	Data    string           `json:"data,omitempty"` // identity of the evaluated rows
	Day     *rundir.Day      `json:"day,omitempty"`  // of an event day
}

// metricsLog appends lines to metrics.jsonl. An error does not fail the training. Lines that
// cannot be written, for example on a full disk, are missing. metricsLog also notices that the run directory was
// deleted or moved during the training; see restore.
type metricsLog struct {
	dir    string
	config []byte
	is     fs.FileInfo // info of dir when the file was opened
	file   *os.File
	size   int64  // of the file
	limit  int64  // size at which it is thinned
	least  int64  // and at least this size
	unlock func() // unlocks the directory made by restore
	lost   int    // lines that could not be written since the last one that could
	warn   func(string)
}

// openMetrics opens the file and removes the lines of steps that a resumed training repeats.
// config is the content of rundir.FileConfig in the run directory.
func openMetrics(dir string, config []byte, step int64, warn func(string)) *metricsLog {
	path := filepath.Join(dir, rundir.FileMetrics)
	if err := dropLater(path, step); err != nil {
		warn(fmt.Sprintf("%s keeps lines of steps after %d: %v", path, step, err))
	}
	m := &metricsLog{dir: dir, config: config, limit: maxMetrics, unlock: func() {}, warn: warn}
	if err := m.open(os.O_CREATE); err != nil {
		warn(fmt.Sprintf("metrics are not kept: %v", err))
		return &metricsLog{}
	}
	m.is, _ = os.Stat(dir) // nil: the directory is not watched
	return m
}

// open opens the file. After an error, the file that was open before remains.
func (m *metricsLog) open(flag int) error {
	f, err := regular.OpenFile(filepath.Join(m.dir, rundir.FileMetrics), flag|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	if m.file != nil {
		m.file.Close()
	}
	m.file, m.size = f, info.Size()
	return nil
}

// thin makes the file smaller, if it has reached its limit. After an error the file grows, and
// metrics are kept.
func (m *metricsLog) thin() {
	if m.size <= max(m.limit, m.least) {
		return
	}
	size, err := thin(m.file.Name(), m.limit, true)
	if err == nil {
		err = m.open(0)
	}
	if err != nil {
		m.warn(fmt.Sprintf("%s has %d bytes and cannot be made smaller: %v", m.file.Name(), m.size, err))
		size = m.size
	}
	m.least = size + size/4 // above the limit if all that is left is needed
}

// restore makes the run directory again if it was deleted or moved, with the configuration
// and the metrics so far. Further checkpoints are written there.
func (m *metricsLog) restore() {
	if m == nil || m.file == nil || m.is == nil {
		return
	}
	now, err := os.Stat(m.dir)
	if err == nil && os.SameFile(now, m.is) {
		return
	}
	m.warn(fmt.Sprintf("the run directory %s was deleted or moved while the training ran: it is made again, with the configuration and the metrics so far", m.dir))
	if err = m.rewriteEvents(); err != nil {
		m.fail(err)
	}
}

func (m *metricsLog) rewriteEvents() error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	if err := rundir.WriteFile(m.dir, rundir.FileConfig, m.config); err != nil {
		return err
	}
	before, err := io.ReadAll(io.NewSectionReader(m.file, 0, rundir.MaxFile))
	if err != nil {
		return err
	}
	if err := rundir.WriteFile(m.dir, rundir.FileMetrics, before); err != nil {
		return err
	}
	if err := m.open(0); err != nil {
		return err
	}
	m.unlock()
	if m.unlock, err = rundir.Lock(m.dir); err != nil {
		m.unlock = func() {}
		return err
	}
	m.is, err = os.Stat(m.dir)
	return err
}

// longestLine limits the lines that a resumed training keeps. A longer line and all lines
// after it are dropped.
const longestLine = 1 << 20

// dropLater removes the lines of steps after the given one, and an incomplete last line.
func dropLater(path string, step int64) error {
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := regular.Create(path+".new", 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	w := bufio.NewWriter(out)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var l Line
		if json.Unmarshal(lines.Bytes(), &l) == nil && (l.Step <= step || l.Event == runs.ThinEvent) {
			w.Write(append(lines.Bytes(), '\n'))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return regular.Rename(out.Name(), path)
}

// write appends a line without its line feed.
func (m *metricsLog) write(line []byte) {
	m.restore()
	if m == nil || m.file == nil {
		return
	}
	n, err := m.file.Write(append(line, '\n'))
	switch {
	case err != nil:
		m.lose(n, err)
	case m.lost > 0:
		m.warn(fmt.Sprintf("metrics are kept again; %s lacks %s", m.file.Name(), plural.Of(m.lost, "line")))
		m.lost = 0
	}
	if err == nil {
		m.size += int64(n)
		m.thin()
	}
}

// lose removes the n bytes of a line that could not be written.
func (m *metricsLog) lose(n int, err error) {
	if m.lost++; m.lost == 1 {
		m.warn(fmt.Sprintf("metrics are not kept: %v", err))
	}
	info, err := m.file.Stat()
	if err == nil && n > 0 {
		err = m.file.Truncate(info.Size() - int64(n))
	}
	if err != nil {
		m.fail(err)
	}
}

// fail ends the writing.
func (m *metricsLog) fail(err error) {
	m.warn(fmt.Sprintf("metrics are no longer kept: %v", err))
	m.close()
	m.file = nil
}

func (m *metricsLog) close() {
	if m != nil && m.file != nil {
		m.file.Close()
		m.unlock()
	}
}
