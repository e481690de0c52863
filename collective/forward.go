package collective

import (
	"fmt"
	"math/bits"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Forwarding sends the small parts of an all-to-all over other ranks (Bruck et al., 1997,
// the index algorithm). A part whose destination is d ranks away moves by each digit of d,
// lowest first, in one message with all other parts that have the same digit. With radix R
// that takes at most (R−1)·⌈log_R P⌉ rounds instead of P−1, and a part is sent once for
// each digit of d that is not 0. The messages for one digit position are independent, and
// are posted at once if they are small. The cost model chooses R.
//
// A rank that forwards parts must know their lengths. In AllToAll all parts have the same
// length. In the other calls lengths are exchanged first, by the same algorithm with radix
// 2. After each bit a rank records the lengths of the parts that it holds. They are the
// same for every radix that is a power of two. Each message also carries the length of the
// largest buffer that the sender knows. In the end this is the maximum of all ranks, so
// that all ranks choose the same algorithm.

// hopsBruck appends the rounds of an all-to-all to dst.
func hopsBruck(dst []hop, size, radix int) []hop {
	for weight := 1; weight < size; weight *= radix {
		for digit := 1; digit < radix && digit*weight < size; digit++ {
			dst = append(dst, hop{weight, digit})
		}
	}
	return dst
}

// distances appends the distances of the parts that move in the round.
func (h hop) distances(dst []int, size, radix int) []int {
	for first := h.digit * h.weight; first < size; first += radix * h.weight {
		for d := first; d < min(first+h.weight, size); d++ {
			dst = append(dst, d)
		}
	}
	return dst
}

// relaying returns c.relay, which it allocates on the first call.
func (c *Comm) relaying() *relay {
	if c.relay == nil {
		c.relay = &relay{parts: make([][]byte, c.size)}
	}
	return c.relay
}

// relayingUneven is relaying for parts of different lengths.
func (c *Comm) relayingUneven() *relay {
	f := c.relaying()
	f.one = -1
	if f.lengths == nil {
		f.lengths = make([][]uint64, bits.Len(uint(c.size-1))+1)
		for i := range f.lengths {
			f.lengths[i] = make([]uint64, c.size)
		}
	}
	return f
}

// length returns the length of the part of a distance, done bits of which are covered.
func (f *relay) length(done, distance int) int {
	if f.one >= 0 {
		return f.one
	}
	return int(f.lengths[min(done, len(f.lengths)-1)][distance])
}

// hop exchanges one message with the ranks at the ends of a round.
func (c *Comm) hop(tag *Tag, h hop, out, in []byte) error {
	by := h.weight * h.digit
	err := c.t.Exchange(*tag, (c.rank+by)%c.size, out, (c.rank-by+c.size)%c.size, in)
	if err != nil {
		return c.fail(*tag, err)
	}
	tag.Step++
	return nil
}

// exchangeLengths makes the lengths of parts, in bytes, known to the ranks that will hold
// them. It returns the maximum of all ranks' most.
func (c *Comm) exchangeLengths(tag *Tag, sendAt []int, size, most int) (int, error) {
	f := c.relayingUneven()
	for d := range c.size {
		to := (c.rank + d) % c.size
		f.lengths[0][d] = uint64((sendAt[to+1] - sendAt[to]) * size)
	}
	greatest := uint64(most)
	for k := range f.lengths[1:] {
		h := hop{1 << k, 1}
		f.moving = h.distances(f.moving[:0], c.size, 2)
		n := len(f.moving)
		words := grow[uint64](&f.words, 2*(n+1))
		out, in := words[:n+1], words[n+1:]
		for i, d := range f.moving {
			out[i] = f.lengths[k][d]
		}
		out[n] = greatest
		if err := c.hop(tag, h, raw.Bytes(out), raw.Bytes(in)); err != nil {
			return 0, err
		}
		copy(f.lengths[k+1], f.lengths[k])
		for i, d := range f.moving {
			if in[n] > maxWindow || in[i] > in[n] {
				from := c.numbered((c.rank - h.weight + c.size) % c.size)
				err := fmt.Errorf("rank %d announced a part of %d bytes for a buffer of at most %d", from, in[i], in[n])
				return 0, c.endGroup(*tag, &AbortError{By: c.numbered(c.rank), Cause: err})
			}
			f.lengths[k+1][d] = in[i]
		}
		greatest = max(greatest, in[n])
	}
	return int(greatest), nil
}

// deriveLengths sets the lengths of exchangeLengths without messages, if the bounds of
// parts are the same on all ranks. A part with some bits of its distance covered still has
// the others to go.
func (c *Comm) deriveLengths(at []int, size int) {
	f := c.relayingUneven()
	for done, lengths := range f.lengths {
		for d := range lengths {
			to := (c.rank + d>>done<<done) % c.size
			lengths[d] = uint64((at[to+1] - at[to]) * size)
		}
	}
}

// compareLengths ends the group if a rank announced a length for this rank's part that
// differs from the expected one.
func (c *Comm) compareLengths(tag Tag, recvAt []int, size int) error {
	f := c.relay
	for d := range c.size {
		from := (c.rank - d + c.size) % c.size
		theirs, own := f.length(len(f.lengths)-1, d), (recvAt[from+1]-recvAt[from])*size
		if theirs != own {
			return c.endGroup(tag, &MismatchError{
				Peer: Side{Rank: c.numbered(from), Tag: tag, Bytes: int64(theirs)},
				Own:  Side{Rank: c.numbered(c.rank), Tag: tag, Bytes: int64(own)},
			})
		}
	}
	return nil
}

// forward sends each rank its part of send and receives the parts for this rank, over other
// ranks. The lengths of the parts are known.
func (c *Comm) forward(tag *Tag, radix int, send []byte, sendAt []int, recv []byte, recvAt []int, size int) error {
	f := c.relay
	f.hops = hopsBruck(f.hops[:0], c.size, radix)
	for d := range f.parts {
		to := (c.rank + d) % c.size
		f.parts[d] = send[sendAt[to]*size : sendAt[to+1]*size]
	}
	in := raw.Bytes(grow[uint64](&f.in, (c.arriving(radix)+7)/8))
	for hops := f.hops; len(hops) > 0; {
		n := 1
		for n < len(hops) && hops[n].weight == hops[0].weight {
			n++
		}
		var err error
		if in, err = c.pass(tag, radix, hops[:n], in); err != nil {
			return err
		}
		hops = hops[n:]
	}
	for d, part := range f.parts {
		from := (c.rank - d + c.size) % c.size
		copy(recv[recvAt[from]*size:], part)
		f.parts[d] = nil // release the caller's slice
	}
	return nil
}

// pass makes the rounds of one weight. None waits for another, because a part has one digit
// at that weight. pass receives into in and returns the unused rest of it.
func (c *Comm) pass(tag *Tag, radix int, hops []hop, in []byte) (rest []byte, err error) {
	f, leaving := c.relay, 0
	for _, h := range hops {
		f.moving = h.distances(f.moving[:0], c.size, radix)
		for _, d := range f.moving {
			leaving += len(f.parts[d])
		}
	}
	out := raw.Bytes(grow[uint64](&f.out, (leaving+7)/8))
	c.posts = c.posts[:0]
	for _, h := range hops {
		f.moving = h.distances(f.moving[:0], c.size, radix)
		leaving, coming := 0, 0
		for _, d := range f.moving {
			leaving += copy(out[leaving:], f.parts[d])
			n := f.length(h.behind(radix), d)
			f.parts[d] = in[coming : coming+n]
			coming += n
		}
		by := h.weight * h.digit
		c.posts = append(c.posts, Post{
			To: (c.rank + by) % c.size, Send: out[:leaving],
			From: (c.rank - by + c.size) % c.size, Recv: in[:coming],
		})
		out, in = out[leaving:], in[coming:]
	}
	return in, c.post(tag)
}

// behind returns the number of bits of its distance that a part has covered after the
// round.
func (h hop) behind(radix int) int { return bits.Len(uint(h.weight)*uint(radix)) - 1 }

// arriving returns the bytes that arrive in all rounds together.
func (c *Comm) arriving(radix int) (n int) {
	f := c.relay
	for _, h := range f.hops {
		f.moving = h.distances(f.moving[:0], c.size, radix)
		for _, d := range f.moving {
			n += f.length(h.behind(radix), d)
		}
	}
	return n
}

// exchangeParts is an all-to-all by messages, direct or forwarded.
func exchangeParts[T Number](c *Comm, tag Tag, send []T, sendAt []int, recv []T, recvAt []int) error {
	size := raw.Size[T]()
	bytes := len(send) * size
	k := c.group.costs
	switch {
	case tag.Call == CallAllToAll:
		c.relaying().one = bytes / c.size
	case k.exchangesLengths(c.shape):
		tag.Algorithm = Bruck
		var err error
		if bytes, err = c.exchangeLengths(&tag, sendAt, size, max(bytes, len(recv)*size)); err != nil {
			return err
		}
		if err := c.compareLengths(tag, recvAt, size); err != nil {
			return err
		}
	}
	if tag.Algorithm = c.way(tag.Call, tag, bytes); tag.Algorithm == Bruck {
		radix, _ := k.level(c.shape).radix(c.size, float64(bytes))
		return c.forward(&tag, radix, raw.Bytes(send), sendAt, raw.Bytes(recv), recvAt, size)
	}
	c.steps = allToAllPairwise(c.steps, c.rank, c.size, sendAt, recvAt)
	return runPairwise(c, &tag, send, recv)
}

// toOwners sends every rank its chunk of x. It receives this rank's chunk of every x into
// all, where c.to bounds the places.
func toOwners[T Number](c *Comm, tag *Tag, x, all []T) error {
	size, at := raw.Size[T](), c.chunks(len(x))
	l := c.group.costs.level(c.shape)
	if radix, _ := l.toOwners(c.size, float64(len(x)*size)); radix > 0 {
		c.deriveLengths(at, size)
		return c.forward(tag, radix, raw.Bytes(x), at, raw.Bytes(all), c.to, size)
	}
	c.steps = allToAllPairwise(c.steps, c.rank, c.size, at, c.to)
	err := runPairwise(c, tag, x, all)
	c.steps = c.steps[:0]
	return err
}
