package runs

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// The index of a folder of runs.
const (
	// FileIndex has the summaries of the runs of a folder. It may be deleted at any time.
	FileIndex = ".wdlrun-index.json"

	indexFormat = 4 // other formats are ignored
	maxIndex    = 1 << 30
	minIndexed  = 50              // fewer runs are read without an index
	settled     = 2 * time.Second // older files get another time when they change
)

// index is the content of FileIndex.
type index struct {
	Format int           `json:"format"`
	Shapes []indexShape  `json:"shapes"`
	Runs   []*indexedRun `json:"runs"` // by name
}

// indexShape is a configuration that others are compared with.
type indexShape struct {
	Keys   []string `json:"keys"`
	Values []string `json:"values"`
}

// indexedRun is a run in an index. Its configuration equals a shape, except for the
// values To of the keys At.
type indexedRun struct {
	Name        string             `json:"name"`
	Stamp       uint64             `json:"stamp"` // of the files that were read
	State       State              `json:"state"`
	Began       time.Time          `json:"began"`
	Seconds     *float64           `json:"seconds"`
	Step        int64              `json:"step"`
	Epoch       int64              `json:"epoch"`
	EvaluatedOn string             `json:"on"`
	Data        string             `json:"data,omitempty"`
	Numbers     map[string]float64 `json:"numbers"`
	Shape       int                `json:"shape"` // -1: the configuration could not be read
	At          []int              `json:"at,omitempty"`
	To          []string           `json:"to,omitempty"`
	About       rundir.About       `json:"about"`
	Failure     string             `json:"failure,omitempty"`
	Rejected    string             `json:"rejected,omitempty"`
	Faults      []string           `json:"faults,omitempty"`
}

// stamped are the files that determine a summary. "" is the directory, in which a failure
// report is a new entry.
var stamped = []string{"", rundir.FileConfig, rundir.FileMetrics, rundir.FileResult, rundir.FileRun, rundir.FileDays}

// stampOf returns a hash of the sizes and times of the files of a run directory, 0 if dir
// is not one, and the latest time.
func stampOf(dir string) (stamp uint64, latest time.Time) {
	sum, found := fnv.New64a(), 0
	var b [24]byte
	for i, name := range stamped {
		look := os.Lstat
		if i == 0 {
			look = os.Stat
		}
		info, err := look(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if i > 0 && info.Mode().IsRegular() && name != rundir.FileRun && name != rundir.FileDays {
			found++
		}
		at := info.ModTime()
		binary.LittleEndian.PutUint64(b[:], uint64(i))
		binary.LittleEndian.PutUint64(b[8:], uint64(info.Size()))
		binary.LittleEndian.PutUint64(b[16:], uint64(at.UnixNano()))
		sum.Write(b[:])
		if at.After(latest) {
			latest = at
		}
	}
	if found == 0 {
		return 0, latest
	}
	return max(sum.Sum64(), 1), latest
}

// List returns the summaries of the run directories directly in a folder, by name. dir may
// be a run itself. A folder of many runs gets an index with the runs whose files have not
// changed. If it cannot be written, all runs are read each time. progress is called every
// two seconds with the number of entries that have been looked at, and of all.
func List(dir string, progress func(done, of int)) ([]*Summary, error) {
	if IsRun(dir) {
		r, err := Read(dir)
		if err != nil {
			return nil, err
		}
		return []*Summary{&r.Summary}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !rundir.IsLatest(e) {
			names = append(names, e.Name())
		}
	}
	l := &listing{dir: dir, names: names, known: map[string]*indexedRun{}, found: make([]listed, len(names))}
	if len(names) >= minIndexed {
		l.open()
	}
	l.readAll(progress)
	all := slices.DeleteFunc(l.found, func(r listed) bool { return r.summary == nil })
	if l.fresh.Load() > 0 && len(all) >= minIndexed {
		l.save(all) // after an error the next List reads them again
	}
	summaries := make([]*Summary, len(all))
	for i, r := range all {
		summaries[i] = r.summary
	}
	return summaries, nil
}

// listed is an entry of a listing.
type listed struct {
	summary *Summary // nil if the entry is not a run
	stamp   uint64   // 0 if it is not to be indexed
}

// listing is the state of a call of List.
type listing struct {
	dir    string
	names  []string
	known  map[string]*indexedRun
	bases  []Settings // of the shapes of the index
	found  []listed   // by name
	fresh  atomic.Int64
	shapes sync.Map // joined keys to *shape
}

// open reads the index. A damaged index is ignored.
func (l *listing) open() {
	b, err := regular.ReadFile(filepath.Join(l.dir, FileIndex), maxIndex)
	if err != nil {
		return
	}
	x, err := parseIndex(b)
	if err != nil {
		return
	}
	for _, s := range x.Shapes {
		base := Settings{shape: newShape(s.Keys), values: s.Values}
		l.shared(&base)
		l.bases = append(l.bases, base)
	}
	for _, r := range x.Runs {
		l.known[r.Name] = r
	}
}

// parseIndex parses an index, and checks it.
func parseIndex(b []byte) (*index, error) {
	var x index
	if err := json.Unmarshal(b, &x); err != nil {
		return nil, err
	}
	bad := x.Format != indexFormat
	for _, s := range x.Shapes {
		bad = bad || len(s.Keys) != len(s.Values) || len(newShape(s.Keys).at) != len(s.Keys)
	}
	for _, r := range x.Runs {
		bad = bad || r == nil || r.Shape < -1 || r.Shape >= len(x.Shapes) || len(r.At) != len(r.To) || r.Shape < 0 && len(r.At) > 0
		if bad {
			break
		}
		for _, i := range r.At {
			bad = bad || i < 0 || i >= len(x.Shapes[r.Shape].Keys)
		}
	}
	if bad {
		return nil, errors.New("runs: the index is damaged or of another version")
	}
	return &x, nil
}

// readAll reads all runs, several concurrently.
func (l *listing) readAll(progress func(done, of int)) {
	var next atomic.Int64
	var working sync.WaitGroup
	shown := time.Now()
	for worker := range runtime.GOMAXPROCS(0) {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(l.names); i = int(next.Add(1)) - 1 {
				l.found[i] = l.one(l.names[i])
				if worker == 0 && time.Since(shown) > 2*time.Second {
					shown = time.Now()
					progress(i, len(l.names))
				}
			}
		})
	}
	working.Wait()
}

// one returns a run from the index or reads it. A running training is always read.
func (l *listing) one(name string) listed {
	dir := filepath.Join(l.dir, name)
	stamp, latest := stampOf(dir)
	if stamp == 0 {
		return listed{}
	}
	if k := l.known[name]; k != nil && k.Stamp == stamp && !rundir.Locked(dir) {
		return listed{k.summary(dir, l.bases), stamp}
	}
	r, err := Read(dir)
	if err != nil { // removed meanwhile
		return listed{}
	}
	if l.shared(&r.Config); r.State == Running || time.Since(latest) < settled {
		return listed{&r.Summary, 0}
	}
	l.fresh.Add(1)
	return listed{&r.Summary, stamp}
}

// shared replaces the shape of settings by an equal one of another run.
func (l *listing) shared(s *Settings) {
	if s.shape != nil {
		same, _ := l.shapes.LoadOrStore(strings.Join(s.keys, "\n"), s.shape)
		s.shape = same.(*shape)
	}
}

func (k *indexedRun) summary(dir string, bases []Settings) *Summary {
	s := &Summary{
		Dir: dir, Name: k.Name, State: k.State, Began: k.Began, Seconds: Value(k.Seconds), Step: k.Step, Epoch: k.Epoch,
		EvaluatedOn: k.EvaluatedOn, Data: k.Data, Numbers: k.Numbers, About: k.About, Failure: k.Failure, Rejected: k.Rejected, Faults: k.Faults,
	}
	if k.Shape >= 0 {
		base := bases[k.Shape]
		s.Config = Settings{base.shape, base.values, k.At, k.To}
	}
	return s
}

// save writes the index atomically.
func (l *listing) save(all []listed) {
	x, number := index{Format: indexFormat}, map[*shape]int{}
	for _, r := range all {
		if r.stamp != 0 {
			x.add(r, number)
		}
	}
	b, err := json.Marshal(x)
	if err != nil {
		return
	}
	f, err := os.CreateTemp(l.dir, FileIndex+"-")
	if err != nil {
		return
	}
	_, err = bytes.NewReader(b).WriteTo(f)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(l.dir, FileIndex))
	}
	if err != nil {
		os.Remove(f.Name())
	}
}

func (x *index) add(r listed, number map[*shape]int) {
	s := r.summary
	k := &indexedRun{
		Name: s.Name, Stamp: r.stamp, State: s.State, Began: s.Began, Step: s.Step, Epoch: s.Epoch,
		EvaluatedOn: s.EvaluatedOn, Data: s.Data, Numbers: s.Numbers, Shape: -1, About: s.About, Failure: s.Failure, Rejected: s.Rejected, Faults: s.Faults,
	}
	if !math.IsNaN(s.Seconds) {
		k.Seconds = &s.Seconds
	}
	if s.Config.shape != nil {
		i, has := number[s.Config.shape]
		if !has {
			i = len(x.Shapes)
			number[s.Config.shape] = i
			x.Shapes = append(x.Shapes, indexShape{s.Config.keys, s.Config.all()})
		}
		k.Shape = i
		for at, v := range s.Config.all() {
			if v != x.Shapes[i].Values[at] {
				k.At, k.To = append(k.At, at), append(k.To, v)
			}
		}
	}
	x.Runs = append(x.Runs, k)
}
