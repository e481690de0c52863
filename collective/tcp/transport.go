package tcp

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// A broken data connection waits half a second for the control connection to report the
// cause. It checks often, so that a process that was stopped meanwhile still reads the
// messages that have arrived.
const (
	judgePause = 50 * time.Millisecond
	judgeLooks = 10
)

// Transport is this process's end of a connected group. It implements
// collective.Transport.
type Transport struct {
	rank, size int
	streams    int         // per channel
	stripe     int         // bytes per stream
	peers      []*peer     // by rank; nil for this rank
	slots      []slot      // by channel
	direct     bool        // all data links are sockets; otherwise none is
	together   atomic.Bool // another rank is in this process
	near       int         // number of peers on this host
	roomy      atomic.Bool // each rank of this host can have a core

	mu    sync.Mutex
	mates []int         // process IDs of peers on this host, as received so far
	cause error         // the first cause, or nil
	ended chan struct{} // closed when cause is set and sent to every peer

	linksMu sync.Mutex // held while links are roused or closed
	gone    bool       // links are closed

	over    atomic.Bool // ended, or closed
	closed  atomic.Bool
	closing sync.Once
	quit    chan struct{}
	wg      sync.WaitGroup
}

// peer is another rank.
type peer struct {
	rank        int
	near        bool // on this host
	control     *control
	lastControl atomic.Int64  // arrival of its last control frame, Unix time in ns
	left        chan struct{} // closed by its goodbye
	data        []*link       // by channel, then by stream
	begun       []begun       // by channel; mu of the slot guards it
}

func (p *peer) hasLeft() bool {
	select {
	case <-p.left:
		return true
	default:
		return false
	}
}

// begun counts the messages that this rank has begun to send to a peer and to receive from
// it.
type begun struct{ sends, awaits uint64 }

func newTransport(cfg Config, links map[linkID]net.Conn) (*Transport, error) {
	t := &Transport{
		rank: cfg.Rank, size: len(cfg.Peers), streams: cfg.Streams, stripe: cfg.stripe,
		peers: make([]*peer, len(cfg.Peers)), slots: make([]slot, cfg.Channels),
		ended: make(chan struct{}), quit: make(chan struct{}),
	}
	for r := range t.peers {
		if r == t.rank {
			continue
		}
		p := &peer{rank: r, control: &control{conn: links[linkID{r, linkControl}]}, near: sameHost(links[linkID{r, linkControl}]), left: make(chan struct{}), begun: make([]begun, cfg.Channels)}
		t.peers[r] = p
		if p.near {
			t.near++
		}
		for i := range cfg.Channels * cfg.Streams {
			l, err := newLink(p, links[linkID{r, uint16(i)}])
			if err != nil {
				t.closeLinks()
				return nil, err
			}
			t.direct = l.sock != nil
			p.data = append(p.data, l)
		}
	}
	for i := range t.slots {
		t.slots[i].init(cfg.Streams)
	}
	t.start()
	return t, nil
}

// start starts the goroutines that serve the links.
func (t *Transport) start() {
	for _, p := range t.peers {
		if p == nil {
			continue
		}
		t.wg.Go(func() { t.readPeer(p) })
		for _, l := range p.data {
			if !t.direct {
				t.wg.Go(func() { t.writer(l) })
			}
		}
		if p.near {
			p.control.write(controlOf(kindProcess, binary.LittleEndian.AppendUint32(nil, uint32(os.Getpid()))))
		}
	}
	if t.size > 1 {
		t.wg.Go(t.watch)
		for i := range t.slots {
			s := &t.slots[i]
			for k := 1; k < t.streams; k++ {
				t.wg.Go(func() { t.serve(s, k) })
			}
		}
	}
}

// World returns this rank, the number of ranks and the number of channels.
func (t *Transport) World() (rank, size, channels int) { return t.rank, t.size, len(t.slots) }

// OneHost implements [collective.Neighbour].
func (t *Transport) OneHost() bool { return t.near == t.size-1 }

// Exchange implements [collective.Transport].
func (t *Transport) Exchange(tag collective.Tag, to int, send []byte, from int, recv []byte) error {
	return t.exchange(tag, []collective.Post{{To: to, Send: send, From: from, Recv: recv}}, false)
}

// ExchangeJoin implements [collective.Joiner].
func (t *Transport) ExchangeJoin(tag collective.Tag, to int, send []byte, from int, own []byte) error {
	return t.exchange(tag, []collective.Post{{To: to, Send: send, From: from, Recv: own}}, true)
}

// ExchangeEach implements [collective.Poster].
func (t *Transport) ExchangeEach(tag collective.Tag, posts []collective.Post) error {
	for _, p := range posts {
		if t.stripes(max(len(p.Send), len(p.Recv))) > 1 { // lanes are needed for the streams
			return t.exchangeInTurns(tag, posts)
		}
	}
	return t.exchange(tag, posts, false)
}

func (t *Transport) exchangeInTurns(tag collective.Tag, posts []collective.Post) error {
	for k := range posts {
		if err := t.exchange(tag, posts[k:k+1], false); err != nil {
			return err
		}
		tag.Step++
	}
	return nil
}

// exchange carries out one post over as many streams as it needs, or several posts over one
// stream each.
func (t *Transport) exchange(tag collective.Tag, posts []collective.Post, join bool) error {
	if int(tag.Channel) >= len(t.slots) {
		panic(fmt.Sprintf("tcp: exchange on channel %d of %d", tag.Channel, len(t.slots)))
	}
	for _, p := range posts {
		if p.To >= t.size || p.From >= t.size || p.To == t.rank || p.From == t.rank {
			panic(fmt.Sprintf("tcp: exchange of rank %d with ranks %d and %d, of %d", t.rank, p.To, p.From, t.size))
		}
	}
	if err := t.standing(); err != nil {
		return err
	}
	s := &t.slots[tag.Channel]
	if !s.enter(t, tag, posts) {
		return collective.ErrClosed
	}
	defer s.leave()
	for _, p := range posts {
		if p.To >= 0 && t.peers[p.To].hasLeft() {
			return t.end(&collective.LostError{Rank: p.To, By: t.rank, Cause: collective.ErrLeft})
		}
	}
	if len(posts) == 1 {
		return t.carry(s, tag, t.open(s, tag, &posts[0], join))
	}
	return t.carryEach(s, tag, posts)
}

// transfer moves the parts of the given lanes.
func (t *Transport) transfer(s *slot, lanes []lane, tag collective.Tag) error {
	if t.direct {
		return t.flow(s, lanes, tag)
	}
	return t.relay(s, lanes, tag)
}

// standing returns the error that ended the group or this rank, or nil.
func (t *Transport) standing() error {
	if t.closed.Load() {
		return collective.ErrClosed
	}
	select {
	case <-t.ended:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.cause
	default:
		return nil
	}
}

// end ends the group with cause unless it has ended. It sends the cause to every peer and
// wakes every exchange of this rank. It returns the first cause after all peers have been
// informed, so that the caller may exit at once.
func (t *Transport) end(cause error) error {
	t.mu.Lock()
	if t.cause != nil {
		defer t.mu.Unlock()
		return t.cause
	}
	t.cause = cause
	t.sendAll(kindAbort, collective.AppendCause(nil, cause))
	close(t.ended)
	t.mu.Unlock()
	t.interrupt()
	return cause
}

// interrupt ends the wait of every exchange so that it returns the end of the group or of this rank.
func (t *Transport) interrupt() {
	t.over.Store(true)
	t.linksMu.Lock()
	defer t.linksMu.Unlock()
	if t.gone {
		return
	}
	for _, p := range t.peers {
		if p == nil {
			continue
		}
		for _, l := range p.data {
			l.interrupt()
		}
	}
}

// closeLinks closes the data links. No exchange may be using them.
func (t *Transport) closeLinks() {
	t.linksMu.Lock()
	defer t.linksMu.Unlock()
	t.gone = true
	for _, p := range t.peers {
		if p == nil {
			continue
		}
		for _, l := range p.data {
			l.close()
		}
	}
}

// judge determines why the data connection with p broke with err, and ends the group for
// that reason.
func (t *Transport) judge(p *peer, err error) error {
	if t.closed.Load() {
		return collective.ErrClosed
	}
	for range judgeLooks {
		select {
		case <-t.quit:
			return collective.ErrClosed
		case <-t.ended:
			return t.standing()
		case <-p.left:
			return t.end(&collective.LostError{Rank: p.rank, By: t.rank, Cause: collective.ErrLeft})
		case <-time.After(judgePause):
		}
	}
	return t.end(&collective.LostError{Rank: p.rank, By: t.rank, Cause: err})
}

// Abort ends the group for every rank.
func (t *Transport) Abort(cause error) {
	if !t.closed.Load() {
		t.end(collective.Cause(t.rank, cause))
	}
}

// Close leaves the group, ends all goroutines and closes all connections. Bytes already
// sent still arrive. Pending calls return collective.ErrClosed.
func (t *Transport) Close() error {
	t.closing.Do(func() {
		t.closed.Store(true)
		select {
		case <-t.ended: // the cause has been sent
		default:
			t.sendAll(kindGoodbye, nil)
		}
		close(t.quit)
		t.interrupt()
		for i := range t.slots {
			t.slots[i].shut()
			for k := 1; k < len(t.slots[i].lanes); k++ {
				close(t.slots[i].lanes[k].jobs)
			}
		}
		for _, p := range t.peers {
			if p != nil {
				p.control.conn.Close()
			}
		}
		t.closeLinks()
		t.wg.Wait()
	})
	return nil
}
