package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// take saves up to n sections of a snapshot and reports whether more remain.
func (x *Snapshot) take(n int, files map[string]string) (more bool, err error) {
	more = true
	for ; n > 0 && more && err == nil; n-- {
		more, err = x.Next(func(name string, write func(io.Writer) error) error {
			var b bytes.Buffer
			err := write(&b)
			if _, twice := files[name]; twice {
				return fmt.Errorf("section %s occurs twice", name)
			}
			files[name] = b.String()
			return err
		})
	}
	return more, err
}

// watch compares a snapshot that is saved in turns between steps with one that is saved at once.
type watch struct {
	x         *Snapshot
	want, got map[string]string
}

func watchNow(s *Store, since int64) (*watch, error) {
	w := &watch{want: map[string]string{}, got: map[string]string{}}
	_, err := s.Files().Snapshot(since).take(1<<30, w.want)
	w.x = s.Files().Snapshot(since)
	return w, err
}

// end saves the remaining sections and returns how many there were.
func (w *watch) end() (late int, err error) {
	n := len(w.got)
	if _, err := w.x.take(1<<30, w.got); err != nil {
		return 0, err
	}
	if !maps.Equal(w.got, w.want) {
		for name, b := range w.want {
			if w.got[name] != b {
				return 0, fmt.Errorf("section %s and perhaps others differ, of %d and %d", name, len(w.got), len(w.want))
			}
		}
		return 0, fmt.Errorf("%d sections, want %d", len(w.got), len(w.want))
	}
	return len(w.got) - n, w.x.Close()
}

// TestSnapshotDuringSteps saves a snapshot in turns between steps that send rows ahead, remove
// them, move them to disk or change all of them. The snapshot equals the tables at its step. So
// does an incremental snapshot.
func TestSnapshotDuringSteps(t *testing.T) {
	for name, change := range map[string]func(j *job){
		"plain": func(*job) {},
		"dense": func(j *job) { j.cfg.Tables[0].Parts[0].DenseL2 = true },
		"evict": func(j *job) { j.cfg.Tables[0].Evict.Age, j.cfg.Tables[0].Admit.After = 2, 2 },
		"tier":  func(j *job) { j.tier = t.TempDir() },
	} {
		for size := 1; size <= 3; size++ {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				j := fixedJob(optim.Rule{Kind: "adam"}, false, size, 12)
				change(j)
				deltas, lates := make([]int, size), make([]int, size)
				background := newGroup(size)
				onRanks(t, size, j.cfg, func(s *Store) (err error) {
					defer s.Close()
					deltas[s.rank], lates[s.rank], err = j.watched(s, member{background, s.rank})
					return err
				})
				sum := func(x []int) (n int) {
					for _, v := range x {
						n += v
					}
					return n
				}
				if all := name == "dense"; (sum(deltas) == 0) != all || sum(lates) == 0 { // if all rows change, full shards are saved
					t.Errorf("%v sections of changes, %v sections after the steps: the test is void", deltas, lates)
				}
			})
		}
	}
}

// watched runs the job on a rank. It starts a snapshot of all rows at step 3 and one of the
// changes since then at step 7.
func (j *job) watched(s *Store, background Exchanger) (deltas, late int, err error) {
	if err := s.Pipeline().Start(background); err != nil {
		return 0, 0, err
	}
	if j.tier != "" {
		if err := s.Files().OpenTier(1, j.tier, 1); err != nil {
			return 0, 0, err
		}
	}
	now, next := s.NewLookup(), s.NewLookup()
	if err := s.Pipeline().Prepare(now, j.steps[0].bags[s.rank], true); err != nil {
		return 0, 0, err
	}
	var w *watch
	for i := range j.steps {
		if err := s.Pipeline().Complete(now); err != nil {
			return 0, 0, err
		}
		if i+1 < len(j.steps) {
			if err := s.Pipeline().Prepare(next, j.steps[i+1].bags[s.rank], true); err != nil {
				return 0, 0, err
			}
		}
		if _, _, err := j.steps[i].train(s, now); err != nil {
			return 0, 0, err
		}
		now, next = next, now
		switch i + 1 {
		case 3:
			w, err = watchNow(s, Everything)
		case 7:
			if late, err = w.end(); err == nil {
				w, err = watchNow(s, 3)
			}
		default:
			if w != nil {
				_, err = w.x.take(2, w.got)
			}
		}
		if err != nil {
			return 0, 0, fmt.Errorf("rank %d: step %d: %w", s.rank, i+1, err)
		}
	}
	n, err := w.end()
	for name := range w.got {
		if strings.HasPrefix(name, "delta/") {
			deltas++
		}
	}
	return deltas, late + n, err
}

// TestATurnLooksThroughSomeShards: a turn of a snapshot is short, even if no shard has anything
// to save.
func TestATurnLooksThroughSomeShards(t *testing.T) {
	s, err := Open(Local{}, Config{Shards: 1024, Tables: []Table{{Name: "x", Parts: []Part{{Name: "p", Dim: 1}}}, {Name: "y", Parts: []Part{{Name: "p", Dim: 1}}}}})
	fatal.If(t, err)
	defer s.Close()
	x, turns := s.Files().Snapshot(Everything), 0
	for more := true; more; turns++ {
		if more, err = x.Next(func(name string, _ func(io.Writer) error) error { return errors.New("section " + name) }); err != nil {
			t.Fatal(err)
		}
	}
	if turns < 8 {
		t.Errorf("%d turns for 2048 shards without rows, so a turn is too long", turns)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
