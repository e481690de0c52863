package tcp

import (
	"fmt"

	"github.com/wdlrun/wdlrun/collective"
)

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
	defer s.end()
	for _, p := range posts {
		if p.To >= 0 && t.peers[p.To].hasLeft() {
			return t.end(&collective.LostError{Rank: p.To, By: t.rank, Cause: collective.ErrLeft})
		}
	}
	if len(posts) == 1 {
		return t.moveLanes(s, tag, t.open(s, tag, &posts[0], join))
	}
	return t.moveEach(s, tag, posts)
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
