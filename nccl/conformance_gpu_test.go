//go:build gpu

package nccl

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/colltest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestConformance runs the suite of transports over sends, receives, groups and aborts.
func TestConformance(t *testing.T) {
	sizes := []int{1, 2, 3}
	if !testing.Short() {
		sizes = append(sizes, 5)
	}
	colltest.Run(t, func(t *testing.T, size int) []collective.Transport { return newHub(t, size, 2).transports() }, sizes...)
}

// hub is what the ranks of one process know of each other, in place of a coordinator: how
// the group ended, who has left, and which messages have passed.
type hub struct {
	mu    sync.Mutex
	cause error
	ranks []*staged
}

// staged is a transport whose messages are a header and bytes in memory that the device
// reads. Each channel has a communicator and a stream.
type staged struct {
	*hub
	rank     int
	lib      *Library
	left     bool
	channels []*lane
}

// lane is one channel of a rank.
type lane struct {
	comm           *Comm
	stream         Stream
	to, from       int      // of the pending exchange, −1 for none
	begun          [2][]int // messages to, and from, each rank
	ended          [2][]int
	out, in        []byte // headers
	sending, taken []byte
}

func newHub(t *testing.T, size, channels int) *hub {
	h := &hub{ranks: make([]*staged, size)}
	for r := range h.ranks {
		h.ranks[r] = &staged{hub: h, rank: r, lib: library(t), channels: make([]*lane, channels)}
	}
	for i := range channels {
		id, err := h.ranks[0].lib.NewID()
		fatal.If(t, err)
		errs := make([]error, size)
		onAll(size, func(r int) {
			x := &lane{to: -1, from: -1, out: memory[byte](collective.TagSize + 8), in: memory[byte](collective.TagSize + 8)}
			for k := range 2 {
				x.begun[k], x.ended[k] = make([]int, size), make([]int, size)
			}
			x.stream = stream(t)
			x.comm, errs[r] = h.ranks[r].lib.Connect(soon(t), id, r, size, device(r))
			h.ranks[r].channels[i] = x
		})
		fatal.If(t, errors.Join(errs...))
	}
	return h
}

func (h *hub) transports() (all []collective.Transport) {
	for _, s := range h.ranks {
		all = append(all, s)
	}
	return all
}

// end ends the group, with mu held: every rank aborts its communicators.
func (h *hub) end(cause error) error {
	if h.cause == nil {
		h.cause = cause
		for _, s := range h.ranks {
			go s.lib.Abort(cause)
		}
	}
	return h.cause
}

// missed ends the group, with mu held, if an exchange is pending with a rank that has left
// without its part of it.
func (h *hub) missed() {
	for r, s := range h.ranks {
		for i, x := range s.channels {
			for k, peer := range []int{x.to, x.from} { // the peer's end of the message is the other one
				if peer >= 0 && h.ranks[peer].left && h.ranks[peer].channels[i].ended[1-k][r] < x.begun[k][peer] {
					h.end(&collective.LostError{Rank: peer, By: r, Cause: collective.ErrLeft})
				}
			}
		}
	}
}

func (s *staged) World() (rank, size, channels int) {
	return s.rank, len(s.ranks), len(s.channels)
}

// state returns why there is no exchange any more, with mu held.
func (s *staged) state() error {
	if s.left {
		return collective.ErrClosed
	}
	return s.cause
}

func (s *staged) Exchange(tag collective.Tag, to int, send []byte, from int, recv []byte) error {
	x := s.channels[tag.Channel]
	s.mu.Lock()
	if err := s.state(); err != nil {
		s.mu.Unlock()
		return err
	}
	x.to, x.from = to, from
	for k, peer := range []int{to, from} {
		if peer >= 0 {
			x.begun[k][peer]++
		}
	}
	s.missed()
	s.mu.Unlock()
	err := s.pass(x, tag, to, send, from, recv)
	s.mu.Lock()
	defer s.mu.Unlock()
	x.to, x.from = -1, -1
	if err != nil {
		if is := s.state(); is != nil {
			return is
		}
		return s.end(collective.Cause(s.rank, err))
	}
	for k, peer := range []int{to, from} {
		if peer >= 0 {
			x.ended[k][peer]++
		}
	}
	return nil
}

// pass exchanges headers, compares them, and exchanges bytes.
func (s *staged) pass(x *lane, tag collective.Tag, to int, send []byte, from int, recv []byte) error {
	x.out = binary.LittleEndian.AppendUint64(tag.Append(x.out[:0]), uint64(len(send)))
	if err := x.group(to, x.out, from, x.in); err != nil {
		return err
	}
	if from >= 0 {
		theirs, err := collective.ParseTag(x.in[:collective.TagSize])
		if err != nil {
			return err
		}
		if n := int64(binary.LittleEndian.Uint64(x.in[collective.TagSize:])); theirs != tag || n != int64(len(recv)) {
			return &collective.MismatchError{
				Peer: collective.Side{Rank: from, Tag: theirs, Bytes: n},
				Own:  collective.Side{Rank: s.rank, Tag: tag, Bytes: int64(len(recv))},
			}
		}
	}
	x.sending, x.taken = append(x.sending[:0], send...), append(x.taken[:0], recv...) // recv may lie in send
	err := x.group(to, x.sending, from, x.taken)
	if err == nil {
		copy(recv, x.taken)
	}
	return err
}

// group sends and receives at once, and waits.
func (x *lane) group(to int, send []byte, from int, recv []byte) error {
	var calls []Call
	if to >= 0 && len(send) > 0 {
		calls = append(calls, Call{Kind: Send, Type: Uint8, Peer: to, Send: pointer(send), Count: len(send)})
	}
	if from >= 0 && len(recv) > 0 {
		calls = append(calls, Call{Kind: Recv, Type: Uint8, Peer: from, Recv: pointer(recv), Count: len(recv)})
	}
	return errors.Join(x.comm.Launch(x.stream, calls...), x.comm.Wait(context.Background(), x.stream))
}

func (s *staged) Abort(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left {
		s.end(collective.Cause(s.rank, cause))
	}
}

func (s *staged) Close() error {
	s.mu.Lock()
	if s.left {
		s.mu.Unlock()
		return nil
	}
	s.left = true
	s.missed()
	pending := false
	for _, x := range s.channels {
		pending = pending || x.to >= 0 || x.from >= 0
	}
	ended := s.cause != nil
	s.mu.Unlock()
	if pending || ended {
		return s.lib.Abort(collective.ErrClosed)
	}
	var all error
	for _, x := range s.channels {
		if err := x.comm.Close(context.Background()); s.state() == nil {
			all = errors.Join(all, err)
		}
	}
	return all
}
