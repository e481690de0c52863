package collective

import (
	"encoding/binary"
	"hash/fnv"
)

// groupID returns the ID of a subset, which separates its calls from others on the channel.
func groupID(tag Tag, color int) uint32 {
	h := fnv.New32a()
	h.Write(binary.LittleEndian.AppendUint64(tag.Append(nil), uint64(color)))
	return max(h.Sum32(), 1)
}

// subset is a group of some ranks of a Transport, on one of its channels.
type subset struct {
	t       Transport
	channel uint16
	id      uint32
	ranks   []int // numbers in t, by rank of the subset
	rank    int
}

func (s *subset) World() (rank, size, channels int) { return s.rank, len(s.ranks), 1 }

func (s *subset) Exchange(tag Tag, to int, send []byte, from int, recv []byte) error {
	return s.t.Exchange(s.tag(tag), s.peer(to), send, s.peer(from), recv)
}

// ExchangeJoin requires that the transport is a Joiner.
func (s *subset) ExchangeJoin(tag Tag, to int, send []byte, from int, own []byte) error {
	return s.t.(Joiner).ExchangeJoin(s.tag(tag), s.peer(to), send, s.peer(from), own)
}

// ExchangeEach requires that the transport is a Poster.
func (s *subset) ExchangeEach(tag Tag, posts []Post) error {
	for i := range posts {
		p := &posts[i]
		p.To, p.From = s.peer(p.To), s.peer(p.From)
	}
	return s.t.(Poster).ExchangeEach(s.tag(tag), posts)
}

// tag returns the tag that the transport sends for tag.
func (s *subset) tag(tag Tag) Tag {
	tag.Channel = s.channel
	if tag.Group == 0 { // not a subset of this subset
		tag.Group = s.id
	}
	return tag
}

// peer returns the number that the transport has for a rank.
func (s *subset) peer(rank int) int {
	if rank < 0 {
		return rank
	}
	return s.ranks[rank]
}

// numbered returns the number that the transport has for a rank of c.
func (c *endpoint) numbered(rank int) int {
	s, ok := c.t.(*subset)
	for ok {
		rank = s.peer(rank)
		s, ok = s.t.(*subset)
	}
	return rank
}

func (s *subset) Abort(cause error) { s.t.Abort(cause) }

// Close does nothing: the transport belongs to the whole group.
func (s *subset) Close() error { return nil }
