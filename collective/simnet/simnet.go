// Package simnet is a collective transport over modelled links. It runs the real
// schedules and executor on a network whose speed, slow ranks and losses are parameters.
// In a testing/synctest bubble its time is virtual: rounds, bytes and modelled seconds are
// exact, however busy the machine is. Outside a bubble it waits in real time.
//
// # The model
//
// Every rank has one NIC, shared by its channels, that sends and receives at
// BytesPerSecond each way at once. A message of b bytes (payload and Overhead)
//
//	waits for the sender's NIC, leaves it during b/BytesPerSecond, travels for
//	Latency, waits for the receiver's NIC, enters it during b/BytesPerSecond
//
// The first byte enters as soon as it has travelled, so between idle NICs a message takes
// Latency + b/BytesPerSecond: the α–β model (Hockney, "The communication challenge for
// MPP", 1994). A NIC serves messages in the order of sending. The order of messages sent
// to one NIC at the same instant is unspecified. A message is buffered until the receiver
// takes it. Exchange returns when its own bytes have left and the expected ones have
// arrived. Reductions take no time. Messages are copied, which allocates.
//
// With Hosts, the ranks of a host share one NIC for messages to other hosts. Inside a
// host, each rank has a NIC of its own with the speed Inside.
package simnet

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/internal/local"
)

// Model describes the network. The zero value is an ideal one, in which no time passes.
type Model struct {
	Latency        time.Duration
	BytesPerSecond float64         // of a NIC, in each direction; 0: unlimited
	Overhead       int             // bytes added to each message
	Hosts          []int           // host of every rank, from 0; nil: one rank per host
	Inside         Link            // between the ranks of a host
	Slow           map[int]float64 // by rank: factor by which its NIC is slower
	Lose           map[int]int     // by rank: the exchange at which it is lost, from 1
}

// Link describes the speed of a link.
type Link struct {
	Latency        time.Duration
	BytesPerSecond float64 // 0: unlimited
}

// traffic counts the messages and bytes that a rank has sent.
type traffic struct {
	messages int
	bytes    int64 // payload bytes
}

// Transport is one rank's end. It implements collective.Transport.
type Transport struct {
	rank  int
	group *local.Group
	net   *network
}

// network is the state shared by all ranks.
type network struct {
	model Model
	mu    sync.Mutex
	nics  []nic // by rank
	hosts []nic // by host, if hosts are given
	boxes map[address]*box
}

// nic is the state of one rank's NIC and its counters.
type nic struct {
	outFree, inFree time.Time // time until which it is busy
	exchanges       int
	sent            traffic
}

type address struct {
	channel  uint16
	from, to int
}

// box holds the messages of one address that have not been received yet.
type box struct {
	queue []message
	some  chan struct{} // holds a token if queue may have a message
}

type message struct {
	tag     collective.Tag
	data    []byte
	arrives time.Time
}

// New returns the transports of a group, by rank. It panics if size or channels
// is less than one or if the model has negative numbers.
func New(size, channels int, m Model) []*Transport {
	if m.Latency < 0 || m.BytesPerSecond < 0 || m.Overhead < 0 || m.Inside.Latency < 0 || m.Inside.BytesPerSecond < 0 {
		panic(fmt.Sprintf("simnet: New: negative numbers in %+v", m))
	}
	for rank, k := range m.Slow {
		if k <= 0 {
			panic(fmt.Sprintf("simnet: New: rank %d slowed %v times", rank, k))
		}
	}
	g := local.New(size, channels)
	net := &network{model: m, nics: make([]nic, size), boxes: make(map[address]*box)}
	if m.Hosts != nil && len(m.Hosts) != size {
		panic(fmt.Sprintf("simnet: New: hosts of %d ranks, there are %d", len(m.Hosts), size))
	}
	for _, h := range m.Hosts {
		for h >= len(net.hosts) {
			net.hosts = append(net.hosts, nic{})
		}
	}
	ts := make([]*Transport, size)
	for i := range ts {
		ts[i] = &Transport{rank: i, group: g, net: net}
	}
	return ts
}

// World returns this rank, the number of ranks and the number of channels.
func (t *Transport) World() (rank, size, channels int) {
	size, channels = t.group.World()
	return t.rank, size, channels
}

// Exchange implements [collective.Transport].
func (t *Transport) Exchange(tag collective.Tag, to int, send []byte, from int, recv []byte) error {
	if err := t.group.Enter(t.rank, tag, to, from); err != nil {
		return err
	}
	if t.net.loses(t.rank) {
		return t.group.End(&collective.LostError{Rank: t.rank, By: t.rank, Cause: errLost})
	}
	var sent time.Time
	if to >= 0 {
		sent = t.net.post(tag, t.rank, to, send)
	}
	if from >= 0 {
		if err := t.receive(tag, from, recv); err != nil {
			return err
		}
	}
	return t.until(sent)
}

var errLost = errors.New("the model loses it at this exchange")

// loses counts an exchange of rank and reports whether the rank is lost at it.
func (n *network) loses(rank int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nics[rank].exchanges++
	return n.nics[rank].exchanges == n.model.Lose[rank]
}

// post sends a message and returns when its last byte leaves.
func (n *network) post(tag collective.Tag, from, to int, data []byte) (sent time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nics[from].sent.messages++
	n.nics[from].sent.bytes += int64(len(data))

	link, out, in := n.way(from, to)
	leaves := later(time.Now(), out.outFree)
	out.outFree = leaves.Add(n.duration(link, from, len(data)))
	enters := later(leaves.Add(link.Latency), in.inFree)
	in.inFree = later(enters.Add(n.duration(link, to, len(data))), out.outFree.Add(link.Latency))

	b := n.box(address{tag.Channel, from, to})
	b.queue = append(b.queue, message{tag, append([]byte(nil), data...), in.inFree})
	select {
	case b.some <- struct{}{}:
	default:
	}
	return out.outFree
}

// way returns the link from one rank to another and the NICs at its ends.
func (n *network) way(from, to int) (link Link, out, in *nic) {
	m := n.model
	link, out, in = Link{m.Latency, m.BytesPerSecond}, &n.nics[from], &n.nics[to]
	switch {
	case m.Hosts == nil:
	case m.Hosts[from] == m.Hosts[to]:
		link = m.Inside
	default:
		out, in = &n.hosts[m.Hosts[from]], &n.hosts[m.Hosts[to]]
	}
	return link, out, in
}

// duration returns the time for which the NIC of rank is busy with a message of bytes
// bytes.
func (n *network) duration(link Link, rank, bytes int) time.Duration {
	if link.BytesPerSecond == 0 {
		return 0
	}
	s := float64(bytes+n.model.Overhead) / link.BytesPerSecond
	if k, ok := n.model.Slow[rank]; ok {
		s *= k
	}
	return time.Duration(s * float64(time.Second))
}

// box returns the box of an address. The caller holds mu.
func (n *network) box(a address) *box {
	b := n.boxes[a]
	if b == nil {
		b = &box{some: make(chan struct{}, 1)}
		n.boxes[a] = b
	}
	return b
}

func (t *Transport) receive(tag collective.Tag, from int, recv []byte) error {
	m, err := t.next(address{tag.Channel, from, t.rank})
	if err != nil {
		return err
	}
	if err := t.until(m.arrives); err != nil {
		return err
	}
	if err := t.group.Match(from, m.tag, len(m.data), t.rank, tag, len(recv)); err != nil {
		return err
	}
	copy(recv, m.data)
	return nil
}

// next waits for a message in the box of a and takes it out.
func (t *Transport) next(a address) (message, error) {
	gone := t.group.Gone(a.from)
	for {
		t.net.mu.Lock()
		b := t.net.box(a)
		if len(b.queue) > 0 {
			m := b.queue[0]
			b.queue = append(b.queue[:0], b.queue[1:]...)
			t.net.mu.Unlock()
			return m, nil
		}
		t.net.mu.Unlock()
		if gone == nil { // after the loss, look once more for messages sent before it
			return message{}, t.group.Lost(a.from, t.rank)
		}
		select {
		case <-b.some:
		case <-t.group.Ended():
			return message{}, t.group.Cause()
		case <-t.group.Gone(t.rank):
			return message{}, collective.ErrClosed
		case <-gone:
			gone = nil
		}
	}
}

// until waits until a time, or until the group or the rank ends.
func (t *Transport) until(at time.Time) error {
	d := time.Until(at)
	if at.IsZero() || d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.group.Ended():
		return t.group.Cause()
	case <-t.group.Gone(t.rank):
		return collective.ErrClosed
	}
}

// Abort ends the group for every rank, at once.
func (t *Transport) Abort(cause error) { t.group.Abort(t.rank, cause) }

// Close leaves the group.
func (t *Transport) Close() error {
	t.group.Leave(t.rank)
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
