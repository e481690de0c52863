// Package mem is the collective transport between goroutines of one process. Each rank
// is a goroutine with its own Transport.
//
// An exchange is a rendezvous: the receiver copies once, directly from the sender's
// slice, and the sender continues when the copy is made. A schedule that relies on
// buffering therefore always blocks here, not only under load. An exchange takes two
// channel operations per side and allocates nothing. A group has size² · channels links
// of about 300 bytes. All waiting is on channels made by New, so a group made in a
// testing/synctest bubble works there.
package mem

import (
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/local"
)

// Transport is one rank's end. It implements collective.Transport.
type Transport struct {
	rank, size int
	group      *local.Group
	links      []link // [channel][from][to], shared by all ranks
}

// link carries messages of one channel from one rank to another. offered holds at most one:
// the sender waits until it is taken before it offers the next.
type link struct {
	offered chan message
	taken   chan struct{}
}

type message struct {
	tag  collective.Tag
	data []byte
}

// New returns the transports of a group, by rank. It panics if size or channels
// is less than one.
func New(size, channels int) []*Transport {
	g := local.New(size, channels)
	links := make([]link, channels*size*size)
	for i := range links {
		links[i] = link{make(chan message, 1), make(chan struct{}, 1)}
	}
	ts := make([]*Transport, size)
	for i := range ts {
		ts[i] = &Transport{rank: i, size: size, group: g, links: links}
	}
	return ts
}

// World returns this rank, the number of ranks and the number of channels.
func (t *Transport) World() (rank, size, channels int) {
	_, channels = t.group.World()
	return t.rank, t.size, channels
}

// Exchange implements [collective.Transport].
func (t *Transport) Exchange(tag collective.Tag, to int, send []byte, from int, recv []byte) error {
	if err := t.group.Enter(t.rank, tag, to, from); err != nil {
		return err
	}
	if to >= 0 {
		t.link(tag.Channel, t.rank, to).offered <- message{tag, send}
	}
	var err error
	if from >= 0 {
		err = t.receive(tag, from, recv)
	}
	if to >= 0 {
		if sent := t.waitTaken(tag.Channel, to); err == nil {
			err = sent
		}
	}
	return err
}

func (t *Transport) link(channel uint16, from, to int) *link {
	return &t.links[(int(channel)*t.size+from)*t.size+to]
}

func (t *Transport) receive(tag collective.Tag, from int, recv []byte) error {
	l := t.link(tag.Channel, from, t.rank)
	select {
	case m := <-l.offered:
		err := t.group.Match(from, m.tag, len(m.data), t.rank, tag, len(recv))
		if err == nil {
			copy(recv, m.data)
		}
		l.taken <- struct{}{}
		return err
	case <-t.group.Ended():
		return t.group.Cause()
	case <-t.group.Gone(t.rank):
		return collective.ErrClosed
	case <-t.group.Gone(from):
		return t.group.Lost(from, t.rank)
	}
}

// waitTaken waits until the message offered to rank to is taken or withdrawn. After that no
// goroutine reads the caller's slice.
func (t *Transport) waitTaken(channel uint16, to int) error {
	l := t.link(channel, t.rank, to)
	var err error
	select {
	case <-l.taken:
		return nil
	case <-t.group.Ended():
		err = t.group.Cause()
	case <-t.group.Gone(t.rank):
		err = collective.ErrClosed
	case <-t.group.Gone(to):
	}
	select {
	case <-l.offered:
		if err == nil {
			err = t.group.Lost(to, t.rank)
		}
	default: // the receiver is copying it
		<-l.taken
	}
	return err
}

// Abort ends the group for every rank.
func (t *Transport) Abort(cause error) { t.group.Abort(t.rank, cause) }

// Close leaves the group.
func (t *Transport) Close() error {
	t.group.Leave(t.rank)
	return nil
}
