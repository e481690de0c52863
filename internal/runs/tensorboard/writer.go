package tensorboard

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// maxRanks is the maximum number of ranks that get a folder.
const maxRanks = 256

// The folders of a training. TensorBoard takes every scalar below the folder of the
// hyperparameters as a metric to compare, so only metrics of the model are there.
const (
	folderModel    = "model"
	folderProgress = "progress"
	folderDays     = "days"
)

// Writer writes the event files of one training: hyperparameters into DIR/model; metrics into
// DIR/model/train, DIR/model/valid and DIR/model/test; how far the training is into DIR/progress,
// and the times of ranks into DIR/rank-N. A file is created by its first event.
//
// A Writer of New writes each event at once, as a whole. A reader of the growing file sees
// at most one cut event at its end, which the length or the checksum shows.
type Writer struct {
	dir     string
	began   time.Time
	first   int64 // first step of the files
	replace bool
	graph   []byte // of the first event of DIR/model/train; nil: none
	files   map[string]*file
	order   []*file
	older   int64 // bytes of the files that earlier jobs left
	replays bool  // events of earlier steps are written, many at once
}

// New returns a Writer for a training that begins now with step first. The files have new
// names. TensorBoard discards events of the older files of a folder from step first on, as
// a resumed training repeats them.
func New(dir string, now time.Time, first int64) *Writer {
	w := &Writer{dir: dir, began: now, first: first, files: map[string]*file{}}
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				w.older += info.Size()
			}
		}
		return nil // what cannot be read is not counted
	})
	return w
}

// Size returns the bytes of the files of this job and of the jobs before.
func (w *Writer) Size() int64 {
	sum := w.older
	for _, f := range w.order {
		sum += f.size
	}
	return sum
}

// Again writes into new files what the run directory still has, and removes all older files of their
// folders. TensorBoard discards what it has read of these. The Writer then follows the training in the
// new files.
func (w *Writer) Again(r *runs.Run, now time.Time) error {
	if err := w.Close(); err != nil {
		return err
	}
	w.began, w.first, w.older = now, 1, 0
	w.replays = true
	err := w.follow(r, Keys([]*runs.Summary{&r.Summary}))
	w.replays = false
	for _, f := range w.order {
		f.hold = 0
		if err == nil {
			err = f.flush()
		}
		if err == nil { // until here, the older files have what the new ones have
			err = f.removeOlder()
		}
	}
	return err
}

// Write writes the event files of a run into DIR/NAME, and the settings of keys as
// hyperparameters. It returns their paths. Files of the same run are replaced.
func Write(dir string, r *runs.Run, keys []string) (paths []string, err error) {
	w := &Writer{dir: filepath.Join(dir, r.Name), began: r.Began, replace: true, files: map[string]*file{}}
	if b, err := regular.ReadFile(filepath.Join(r.Dir, rundir.FileConfig), config.MaxBytes); err == nil {
		w.Model(b)
	}
	err = w.follow(r, keys)
	for _, f := range w.order {
		paths = append(paths, f.path)
	}
	return paths, errors.Join(err, w.Close())
}

func (w *Writer) follow(r *runs.Run, keys []string) error {
	for _, s := range []struct {
		name   string
		points []runs.Point
	}{{runs.Train, r.Train}, {runs.Valid, r.Valid}, {runs.Test, r.Test}} {
		for i := range s.points {
			if err := w.Point(s.name, &s.points[i]); err != nil {
				return err
			}
		}
	}
	all := r.Distributions()
	for i := range all {
		if err := w.Distributions(&all[i]); err != nil {
			return err
		}
	}
	times := r.RankTimes()
	for i := range times {
		if err := w.Ranks(&times[i]); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Begin(&r.Config, keys, r.Began), w.Days(&r.Days, r.Began)); err != nil {
		return err
	}
	if r.State != runs.Finished && r.State != runs.Stopped {
		return nil
	}
	return w.End(r.Ended())
}

// Model sets the configuration of the training, whose model TensorBoard draws as a graph. A
// configuration that cannot be parsed gives none.
func (w *Writer) Model(yaml []byte) {
	if c, err := config.ParseSaved(rundir.FileConfig, yaml); err == nil {
		c.Fill()
		w.graph = graphOf(c)
	}
}

// in returns the file of a folder.
func (w *Writer) in(folder string) (*file, error) {
	f := w.files[folder]
	if f != nil {
		return f, nil
	}
	f, err := create(w.dir, folder, w.began, w.replace)
	if err != nil {
		return nil, err
	}
	w.files[folder], w.order = f, append(w.order, f)
	if w.replays {
		f.hold = holds
	}
	if folder == folderModel { // hyperparameters have no step
		return f, f.removeOlder()
	}
	first := w.first
	if folder == folderDays { // all days are written again
		first = min(first, 1)
	}
	if first > 0 {
		start := protowire.AppendVarint(protowire.AppendTag(nil, sessionStatus, protowire.VarintType), sessionStart)
		err = f.event(w.began, first, eventSession, start)
	}
	if folder == seriesFolder(runs.Train) && w.graph != nil && err == nil {
		err = f.append(message(wallTime(nil, w.began), eventGraph, w.graph))
	}
	return f, err
}

// seriesFolder returns the folder of the series runs.Train, Valid or Test.
func seriesFolder(series string) string { return folderModel + "/" + series }

// Point appends a point of the series runs.Train, Valid or Test.
func (w *Writer) Point(series string, p *runs.Point) error {
	f, err := w.in(seriesFolder(series))
	if err != nil {
		return err
	}
	all := []scalar{{"logloss", p.LogLoss}}
	for _, c := range runs.Columns() {
		if c.Name != all[0].tag { // every point has it
			all = append(all, scalar{c.Name, c.Value(p.Metrics)})
		}
	}
	if err := f.add(p.Time, p.Step, all...); err != nil || series != runs.Train {
		return err
	}
	if f, err = w.in(folderProgress); err != nil {
		return err
	}
	return f.add(p.Time, p.Step, scalar{"epoch", float64(p.Epoch)}, scalar{"samples", float64(p.Samples)},
		scalar{"rate", p.Rate}, scalar{"samples_per_second", p.Speed})
}

// Days writes the ledger of train -by: how each model predicted the next partition. The step is the
// number of the partition.
func (w *Writer) Days(l *rundir.Days, at time.Time) error {
	if len(l.Days) == 0 {
		return nil
	}
	f, err := w.in(folderDays)
	for i := range l.Days {
		d := &l.Days[i]
		if err == nil {
			err = f.add(at, int64(i+1), scalar{"auc_before", runs.Value(d.AUC)}, scalar{"logloss_before", runs.Value(d.LogLoss)},
				scalar{"calibration_before", runs.Value(d.Calib)}, scalar{"normalised_entropy_before", runs.Value(d.Entropy)},
				scalar{"rows", float64(d.Rows)}, scalar{"new_keys", float64(d.Keys)}, scalar{"retired_rows", float64(d.Retired)}, scalar{"seconds", d.Seconds})
		}
	}
	return err
}

// Distributions appends the histograms and curves of an evaluation of validation data.
func (w *Writer) Distributions(d *metrics.Distributions) error {
	f, err := w.in(seriesFolder(runs.Valid))
	if err != nil {
		return err
	}
	return f.distribution(d)
}

// Ranks appends the times of the ranks.
func (w *Writer) Ranks(t *runs.RankTimes) error {
	waiting := t.Waiting()
	for rank := range t.Ranks[:min(len(t.Ranks), maxRanks)] {
		f, err := w.in(fmt.Sprintf("rank-%d", rank))
		if err != nil {
			return err
		}
		all := []scalar{{"step_seconds", t.Seconds(rank)}, {"waiting_seconds", waiting[rank]}}
		for i, name := range t.Phases {
			all = append(all, scalar{"phase_seconds/" + name, t.Ranks[rank][i]})
		}
		if err := f.add(t.Time, t.Step, all...); err != nil {
			return err
		}
	}
	return nil
}

// Close writes what is left and closes the files.
func (w *Writer) Close() (err error) {
	for _, f := range w.order {
		err = errors.Join(err, f.close())
	}
	w.files, w.order = map[string]*file{}, nil
	return err
}

// Begin writes the settings of keys as the hyperparameters of the training.
func (w *Writer) Begin(settings *runs.Settings, keys []string, at time.Time) error {
	f, err := w.in(folderModel)
	if err != nil {
		return err
	}
	var start []byte
	for _, key := range keys {
		if v := settings.Of(key); v != "" {
			entry := protowire.AppendString(protowire.AppendTag(nil, mapKey, protowire.BytesType), key)
			start = message(start, startHParams, message(entry, mapValue, structValue(v)))
		}
	}
	return f.plugin(at, startTag, message(nil, pluginStart, double(start, startTime, seconds(at))))
}

// End writes the end of a training that has a result. A training without one has no end, as
// it can be resumed: TensorBoard shows the first end that it reads, whatever follows.
func (w *Writer) End(at time.Time) error {
	f, err := w.in(folderModel)
	if err != nil {
		return err
	}
	end := protowire.AppendVarint(protowire.AppendTag(nil, endStatus, protowire.VarintType), statusSuccess)
	return f.plugin(at, endTag, message(nil, pluginEnd, double(end, endTime, seconds(at))))
}
