package sparse

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
)

// group connects ranks that are goroutines.
type group struct {
	comms []*collective.Comm
	mu    sync.Mutex
	files map[string][]byte
}

func newGroup(size int) *group {
	g := &group{files: map[string][]byte{}}
	for _, t := range mem.New(size, 1) {
		g.comms = append(g.comms, collective.New(t))
	}
	return g
}

// fail ends every pending and later exchange.
func (g *group) fail(err error) { g.comms[0].Abort(err) }

// member is the Exchanger of one rank, without the optional methods of a Comm.
type member struct {
	*group
	rank int
}

func (m member) Rank() int                         { return m.rank }
func (m member) Size() int                         { return len(m.comms) }
func (m member) AllToAll(send, recv []int64) error { return m.comms[m.rank].AllToAll(send, recv) }
func (m member) AllToAllV(send []byte, sendCounts []int, recv []byte, recvCounts []int) error {
	return m.comms[m.rank].AllToAllV(send, sendCounts, recv, recvCounts)
}

// together runs f on every rank with an empty store and returns the error of each rank. The
// first error ends the group.
func together(size int, cfg Config, f func(s *Store) error) []error {
	g, errs := newGroup(size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			s, err := Open(member{g, r}, cfg)
			if err == nil {
				err = f(s)
			}
			if errs[r] = err; err != nil {
				g.fail(fmt.Errorf("aborted: %w", err))
			}
		})
	}
	wg.Wait()
	return errs
}

// onRanks is like together and fails the test on an error.
func onRanks(t testing.TB, size int, cfg Config, f func(s *Store) error) {
	t.Helper()
	for r, err := range together(size, cfg, f) {
		if err != nil {
			t.Fatalf("rank %d of %d: %v", r, size, err)
		}
	}
}

// disk waits for all ranks, joins their files, and returns a function that reads a file by name.
func (m member) disk(files map[string][]byte) func(name string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(m.files, files)
	return func(name string) ([]byte, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		b, ok := m.files[name]
		return b, ok
	}
}
