package shm

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/cores"
)

// maxWindow bounds the length of a window that a peer announces, in bytes.
const maxWindow = 1 << 40

// Transport is this process's end of a connected group. It implements
// collective.Sharer.
type Transport struct {
	rank, size, channels int
	together             bool // ranks are goroutines of one process
	crowded              bool // ranks outnumber cores, or share the threads of a process
	cores                int  // number that the ranks may use
	yields               int  // of a rank that waits, before it sleeps
	maxBytes             int64
	bytes                atomic.Int64 // bytes shared by this rank
	huge                 atomic.Int64 // bytes of these in huge pages
	page                 page
	peers                []*peer // by rank; nil for this rank
	slots                []slot  // by channel

	mu    sync.Mutex
	cause error // the first cause, or nil
	own   []memory
	far   []memory
	ended chan struct{} // closed when cause is set and sent to every peer
	over  atomic.Bool   // set with cause, or when this rank closes

	closed  atomic.Bool
	closing sync.Once
	quit    chan struct{}
	wg      sync.WaitGroup
}

// slot is this rank's state on one channel.
type slot struct {
	mine     *desk
	desks    []*desk     // by rank
	rings    []bool      // by receiver: the pages of its ring are allocated
	serial   uint64      // number of the last meeting
	shares   uint32      // windows requested
	spins    int         // polls before the next yield
	mover    cores.Mover // moves the thread to another core
	in       atomic.Bool
	sleeping atomic.Pointer[atomic.Uint32] // the word that this rank sleeps on
	_        [64]byte
}

// newTransport sends this rank's page to the peers and maps theirs.
func newTransport(ctx context.Context, cfg Config, conns []*net.UnixConn) (*Transport, error) {
	t := &Transport{
		rank: cfg.Rank, size: cfg.Size, channels: cfg.Channels,
		maxBytes: cfg.MaxBytes, peers: make([]*peer, cfg.Size), slots: make([]slot, cfg.Channels),
		ended: make(chan struct{}), quit: make(chan struct{}),
	}
	var pids []int
	for r, c := range conns {
		if c != nil {
			t.peers[r] = &peer{rank: r, conn: c, left: make(chan struct{}), windows: map[windowID]offer{}, came: make(chan struct{})}
			if cred, err := credentials(c); err == nil {
				pids = append(pids, int(cred.Pid))
				t.together = t.together || int(cred.Pid) == os.Getpid()
			}
		}
	}
	t.cores = cores.Count(pids)
	for _, p := range t.peers {
		if p != nil {
			t.wg.Go(func() { t.readPeer(p) })
		}
	}
	if err := t.exchangePages(ctx); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Transport) exchangePages(ctx context.Context) error {
	n := pageBytes(t.size, t.channels)
	id := windowID{channel: pageChannel}
	own, err := t.offer(id, n, t.channels*deskSize)
	if err != nil {
		return err
	}
	t.page = page{own, t.size, t.channels}
	t.crowded = t.together || t.size > t.cores
	if t.yields = yields; t.crowded && !t.together {
		t.yields = crowdedYields
	}
	for i := range t.slots {
		if t.slots[i].spins = spins; t.crowded {
			t.slots[i].spins = 1 // the rank waited for may need this core
		}
		t.slots[i].mine, t.slots[i].desks = t.page.desk(i), make([]*desk, t.size)
		t.slots[i].desks[t.rank] = t.slots[i].mine
		t.slots[i].rings = make([]bool, t.size)
	}
	for r, p := range t.peers {
		if p == nil {
			continue
		}
		o, err := t.window(p, id, ctx.Done())
		if err != nil {
			return err
		}
		t.recordMemory(o.memory)
		if o.why == nil && o.n < n {
			o.why = fmt.Errorf("a page of %d bytes, want %d", o.n, n)
		}
		if o.why != nil {
			return fmt.Errorf("rank %d: %w", r, o.why)
		}
		p.page = page{o.memory, t.size, t.channels}
		for i := range t.slots {
			t.slots[i].desks[r] = p.page.desk(i)
		}
	}
	return nil
}

// recordMemory records a peer's memory until Close.
func (t *Transport) recordMemory(m memory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.far = append(t.far, m)
}

// offer makes a window of n bytes, of which it allocates the first now bytes, and sends it,
// or the reason why there is none, to every peer.
func (t *Transport) offer(id windowID, n, now int) (memory, error) {
	m, fd, err := memory{}, -1, error(nil)
	if total := t.bytes.Add(int64(pages(n))); total > t.maxBytes {
		err = fmt.Errorf("%d bytes of shared memory are more than the limit of %d", total, t.maxBytes)
	} else {
		m, fd, err = create(n, now)
	}
	packet := appendWindow(kindWindow, id, n, "")
	if err != nil {
		t.bytes.Add(-int64(pages(n)))
		packet = appendWindow(kindNone, id, n, err.Error())
	}
	for _, p := range t.peers {
		if p != nil && !p.hasLeft() {
			p.write(packet, fd)
		}
	}
	if err != nil {
		return memory{}, err
	}
	unix.Close(fd)
	if m.huge {
		t.huge.Add(int64(pages(n)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own = append(t.own, m)
	return m, nil
}

// Share implements [collective.Sharer].
func (t *Transport) Share(tag collective.Tag, bytes int) ([][]byte, error) {
	// A peer in a different call would never send a window; the meeting detects it.
	if err := t.Meet(tag, collective.Note{}); err != nil {
		return nil, err
	}
	tag.Step++
	s := &t.slots[tag.Channel]
	id := windowID{tag.Channel, s.shares}
	s.shares++
	windows := make([][]byte, t.size)
	var short *collective.ShareError
	own, err := t.offer(id, bytes, bytes)
	if err != nil {
		short = &collective.ShareError{Rank: t.rank, Bytes: int64(bytes), Cause: err}
	} else {
		windows[t.rank] = own.bytes()[:bytes]
	}
	for r, p := range t.peers {
		if p == nil {
			continue
		}
		o, err := t.window(p, id, nil)
		if err != nil {
			return nil, err
		}
		t.recordMemory(o.memory)
		if o.why != nil {
			short = &collective.ShareError{Rank: r, Bytes: int64(o.length), Cause: o.why}
		} else {
			windows[r] = o.bytes()[:o.length]
		}
	}
	var note collective.Note
	if short != nil {
		note.Bytes = 1
	}
	if err := t.Meet(tag, note); err != nil { // a rank may have failed to map a window
		return nil, err
	}
	for r := range t.size {
		if t.Met(int(tag.Channel), r).Bytes != 0 && short == nil {
			short = &collective.ShareError{Rank: r, Bytes: int64(bytes), Cause: fmt.Errorf("it cannot map the windows of all ranks")}
		}
	}
	if short != nil {
		return nil, short
	}
	return windows, nil
}

// Memory returns the number of bytes that this rank shares and how many of them are in huge
// pages of the system's pool (vm.nr_hugepages). Pages that the kernel combines by itself
// are not counted.
func (t *Transport) Memory() (bytes, huge int64) { return t.bytes.Load(), t.huge.Load() }

// World returns this rank, the number of ranks and the number of channels.
func (t *Transport) World() (rank, size, channels int) { return t.rank, t.size, t.channels }

// standing returns the error that ended the group or this rank, or nil.
func (t *Transport) standing() error {
	if !t.over.Load() {
		return nil
	}
	if t.closed.Load() {
		return collective.ErrClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// end ends the group with cause unless it has ended. It sends the cause to every peer and
// wakes all waits of this process. It returns the first cause.
func (t *Transport) end(cause error) error {
	t.mu.Lock()
	if t.cause != nil {
		defer t.mu.Unlock()
		return t.cause
	}
	t.cause = cause
	t.mu.Unlock()
	packet := collective.AppendCause([]byte{kindAbort}, cause)
	for _, p := range t.peers {
		if p != nil && !p.hasLeft() {
			p.write(packet, -1)
		}
	}
	t.over.Store(true)
	close(t.ended)
	t.wake()
	return cause
}

// Abort ends the group for every rank.
func (t *Transport) Abort(cause error) {
	if !t.closed.Load() {
		t.end(collective.Cause(t.rank, cause))
	}
}

// Leave implements [collective.Sharer].
func (t *Transport) Leave(channel int) { t.slots[channel].in.Store(false) }

// Close leaves the group, ends all goroutines and frees all memory. Slices of
// collective.Alloc then read as zeros.
func (t *Transport) Close() error {
	t.closing.Do(func() {
		t.closed.Store(true)
		t.over.Store(true)
		select {
		case <-t.ended: // the cause has been sent
		default:
			for _, p := range t.peers {
				if p != nil && !p.hasLeft() {
					p.write([]byte{kindGoodbye}, -1)
				}
			}
		}
		close(t.quit)
		t.wake()
		for _, p := range t.peers {
			if p != nil {
				p.conn.Close()
			}
		}
		t.wg.Wait()
		t.waitIdle()
		t.release()
	})
	return nil
}

// release unmaps all memory.
func (t *Transport) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.far {
		m.unmap()
	}
	for _, m := range t.own {
		if m.p == t.page.p {
			m.unmap()
		} else {
			m.forget()
		}
	}
	for _, p := range t.peers {
		if p == nil {
			continue
		}
		for _, o := range p.windows { // never requested
			o.unmap()
		}
	}
}

// Cores returns the number of cores of this host that the ranks together may use. Each rank
// may be bound to a different core.
func (t *Transport) Cores() int { return t.cores }
