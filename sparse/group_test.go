package sparse

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
)

// group connects ranks that are goroutines. In an exchange each rank posts its data, all wait
// for each other, each copies its parts, and all wait again.
type group struct {
	mu       sync.Mutex
	moved    *sync.Cond
	size     int
	arrived  int
	round    int
	broken   error
	numbers  [][]int64
	bytes    [][]byte
	counts   [][]int
	operated []string
	files    map[string][]byte
}

func newGroup(size int) *group {
	g := &group{
		size: size, numbers: make([][]int64, size), bytes: make([][]byte, size),
		counts: make([][]int, size), operated: make([]string, size),
	}
	g.moved = sync.NewCond(&g.mu)
	return g
}

// fail ends every pending and later exchange.
func (g *group) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken == nil {
		g.broken = err
	}
	g.moved.Broadcast()
}

// meet returns after all ranks have called it.
func (g *group) meet() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	round := g.round
	if g.arrived++; g.arrived == g.size {
		g.arrived = 0
		g.round++
		g.moved.Broadcast()
	}
	for g.round == round && g.broken == nil {
		g.moved.Wait()
	}
	if g.round == round {
		return g.broken
	}
	return nil
}

// member is the Exchanger of one rank.
type member struct {
	*group
	rank int
}

func (m member) Rank() int { return m.rank }
func (m member) Size() int { return m.size }

func (m member) AllToAll(send, recv []int64) error {
	m.numbers[m.rank], m.operated[m.rank] = send, "all-to-all"
	if err := m.meet(); err != nil {
		return err
	}
	if err := m.same(); err != nil {
		return err
	}
	k := len(recv) / m.size
	for r, x := range m.numbers {
		if len(x) != len(recv) {
			return fmt.Errorf("rank %d sends %d numbers, want %d", r, len(x), len(recv))
		}
		copy(recv[r*k:(r+1)*k], x[m.rank*k:])
	}
	return m.meet()
}

func (m member) AllToAllV(send []byte, sendCounts []int, recv []byte, recvCounts []int) error {
	m.bytes[m.rank], m.counts[m.rank], m.operated[m.rank] = send, sendCounts, "all-to-all-v"
	if err := m.meet(); err != nil {
		return err
	}
	if err := m.same(); err != nil {
		return err
	}
	for r, x := range m.bytes {
		at := 0
		for _, n := range m.counts[r][:m.rank] {
			at += n
		}
		n := m.counts[r][m.rank]
		if n != recvCounts[r] {
			return fmt.Errorf("rank %d sends %d bytes, want %d", r, n, recvCounts[r])
		}
		copy(recv[:n], x[at:at+n])
		recv = recv[n:]
	}
	if len(recv) != 0 {
		return errors.New("the receive buffer is longer than its counts")
	}
	return m.meet()
}

func (m member) same() error {
	for r, op := range m.operated {
		if op != m.operated[m.rank] {
			return fmt.Errorf("rank %d is in %s, rank %d in %s", r, op, m.rank, m.operated[m.rank])
		}
	}
	return nil
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
	if m.files == nil {
		m.files = map[string][]byte{}
	}
	maps.Copy(m.files, files)
	return func(name string) ([]byte, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		b, ok := m.files[name]
		return b, ok
	}
}
