package sparse

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/optim"
)

// follower maintains a copy of a rank's tables from the changes that Changes reports.
type follower struct {
	s    *Store
	c    *Changes
	rows []map[uint64][]float32
	want []map[uint64][]float32 // the rank's rows at the last Take
}

func newFollower(s *Store) (*follower, error) {
	c, err := WatchChanges(s)
	f := &follower{s: s, c: c}
	for range s.tables {
		f.rows = append(f.rows, map[uint64][]float32{})
	}
	return f, err
}

func (f *follower) take() error {
	f.want = records(f.s)
	return f.c.Take()
}

// end copies the remaining changes and compares the copy with the rank's rows.
func (f *follower) end() error {
	for f.c.Copy(5) {
	}
	for t, held := range f.rows {
		x, err := f.c.Taken(t)
		if err != nil {
			return err
		}
		for _, key := range x.Removed {
			delete(held, key)
		}
		width := f.s.tables[t].Width()
		for i, key := range x.Keys {
			held[key] = slices.Clone(x.Values[i*width : (i+1)*width])
		}
		if len(held) != len(f.want[t]) {
			return fmt.Errorf("table %d: %d rows, want %d", t, len(held), len(f.want[t]))
		}
		for key, record := range f.want[t] {
			if !slices.Equal(held[key], record[:width]) {
				return fmt.Errorf("table %d: key %d: %v, want %v", t, key, held[key], record[:width])
			}
		}
	}
	return nil
}

// TestChangesFollowTheTables maintains a copy from the changes taken at every third step.
// Meanwhile, steps and a checkpoint run and rows are removed or moved to disk. The
// copy must equal the rank's share of the tables at that step.
func TestChangesFollowTheTables(t *testing.T) {
	for name, change := range map[string]func(j *job){
		"plain": func(*job) {},
		"evict": func(j *job) { j.cfg.Tables[0].Evict.Age, j.cfg.Tables[0].Admit.After = 2, 2 },
		"tier":  func(j *job) { j.tier = t.TempDir() },
	} {
		for size := 1; size <= 3; size++ {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				j := fixedJob(optim.Rule{Kind: "adam"}, false, size, 13)
				change(j)
				onRanks(t, size, j.cfg, j.followed)
			})
		}
	}
}

// followed runs the job on a rank and maintains a copy of its tables.
func (j *job) followed(s *Store) error {
	defer s.Close()
	if j.tier != "" {
		if err := s.Files().OpenTier(1, j.tier, 1); err != nil {
			return err
		}
	}
	f, err := newFollower(s)
	if err != nil {
		return err
	}
	l := s.NewLookup()
	for i := range j.steps {
		if i%3 == 0 {
			s.Files().Snapshot(Everything)
			if err := f.take(); err != nil {
				return err
			}
		}
		if err := s.Pull(l, j.steps[i].bags[s.rank], true); err != nil {
			return err
		}
		if _, _, err := j.steps[i].train(s, l); err != nil {
			return err
		}
		if i%3 == 0 {
			if err := f.end(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
	}
	return nil
}
