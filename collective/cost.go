package collective

import (
	"fmt"
	"math"
	"math/bits"
)

func (l Level) String() string {
	text := fmt.Sprintf("round %.2f µs, exchange %.2f GB/s, reduction %.2f GB/s", l.Alpha*1e6, rate(l.Beta), rate(l.Gamma))
	if l.Post > 0 {
		text += fmt.Sprintf(", post %.2f µs", l.Post*1e6)
	}
	return text
}

// rate returns 1e9 bytes per second, or 0 if nothing was measured.
func rate(secondsPerByte float64) float64 {
	if secondsPerByte <= 0 {
		return 0
	}
	return 1e-9 / secondsPerByte
}

// DefaultCosts returns the costs of a common cluster: 10 Gbit/s and 50 µs between
// hosts. They are the same on every rank, so all ranks choose the same algorithms
// without communication.
func DefaultCosts() Costs {
	return Costs{
		Local: Level{Alpha: 2e-6, Beta: 0.1e-9, Gamma: 0.1e-9},
		Links: Level{Alpha: 50e-6, Beta: 0.8e-9, Gamma: 0.1e-9},
	}
}

// candidates returns the algorithms of a call, the preferred one first.
func candidates(call Call) []Algorithm {
	switch call {
	case CallAllReduce:
		return []Algorithm{Rails, Ring, Direct, Bruck, Doubling}
	case CallReduceScatter:
		return []Algorithm{Ring, Direct, Bruck}
	case CallAllGather, callAllGatherV:
		return []Algorithm{Ring, Bruck}
	case CallBroadcast:
		return []Algorithm{Rails, Tree, Scatter}
	case CallBarrier, callAlloc:
		return []Algorithm{Rails, Doubling}
	case CallAllToAll, CallAllToAllV, callAllToAllVisit:
		return []Algorithm{Pairwise, Bruck}
	}
	return []Algorithm{Pairwise}
}

// Choose returns the algorithm with the least predicted time, and that time in seconds.
// bytes is the buffer of one rank. The result depends only on the arguments, so equal
// arguments give equal choices on all ranks.
func (k Costs) Choose(s Shape, call Call, op Op, typ Type, bytes int) (Algorithm, float64) {
	if s.Windows && s.Hosts == 0 {
		return Windows, k.windows(s.Size, call, float64(bytes))
	}
	best, least := algorithms, 0.0
	for _, a := range candidates(call) {
		if reduces(call) && !a.passes(op, typ) || a == Rails && s.Hosts == 0 || a == Ring && s.Hosts > 0 && reduces(call) {
			continue
		}
		if a == Bruck && uneven(call) && !k.exchangesLengths(s) {
			continue
		}
		t := k.Predict(s, a, call, op, typ, bytes)
		if a == k.Take && a != Windows {
			return a, t
		}
		margin := minGain
		if best == Pairwise {
			margin = minForwardGain
		}
		if best == algorithms || t < least*(1-margin) {
			best, least = a, t
		}
	}
	return best, least
}

// minGain is the share of time that a less preferred algorithm must save. The model is
// rough, and the preferred ones need less memory.
const minGain = .02

// minForwardGain is the share of time that forwarding parts must save, compared with
// sending each part directly. Forwarding needs fewer rounds but moves more bytes. While a
// round waits, calls on other channels can use the link; extra bytes take link time from
// them.
const minForwardGain = .25

func reduces(call Call) bool { return call == CallAllReduce || call == CallReduceScatter }

// uneven reports whether the parts of an all-to-all may have different lengths.
func uneven(call Call) bool { return call == CallAllToAllV || call == callAllToAllVisit }

// Predict returns the seconds of a call by one algorithm.
func (k Costs) Predict(s Shape, a Algorithm, call Call, op Op, typ Type, bytes int) float64 {
	b, p := float64(bytes), float64(s.Size)
	if s.Size == 1 {
		return 0
	}
	if a == Windows {
		return k.windows(s.Size, call, b)
	}
	if a == Rails {
		return k.rails(s, call, op, typ, bytes)
	}
	l := k.Links
	depth, others, part := log2(s.Size), p-1, b*(p-1)/p
	if a != Ring {
		l = k.level(s)
	}
	switch {
	case call == CallAllToAll || uneven(call):
		t := l.directTime(s.Size, b)
		if a == Bruck {
			_, t = l.radix(s.Size, b)
		}
		if uneven(call) && k.exchangesLengths(s) {
			t += l.lengthsTime(s.Size)
		}
		return t
	case a == Doubling && call == CallAllReduce:
		rounds := float64(bits.Len(uint(s.Size)) - 1)
		if s.Size&(s.Size-1) != 0 {
			rounds += 2
		}
		return rounds * (l.Alpha + float64(b*(l.Beta+l.Gamma)))
	case a == Doubling: // a barrier
		return depth * l.Alpha
	case a == Tree:
		return depth * (l.Alpha + float64(b*l.Beta))
	case a == Scatter:
		return float64((depth+others)*l.Alpha) + float64(2*part*l.Beta)
	case a == Bruck && call == CallAllReduce:
		return float64(depth*l.Alpha) + float64(others*b*(l.Beta+l.Gamma))
	case a == Bruck && call == CallReduceScatter:
		return float64(depth*l.Alpha) + float64(others*b*l.Beta) + float64(b*l.Gamma)
	case a == Bruck:
		return float64(depth*l.Alpha) + float64(part*l.Beta) + float64(2*b*l.Gamma)
	case a == Direct:
		_, t := l.toOwners(s.Size, b)
		if t += float64(part * l.Gamma); call == CallAllReduce {
			t += float64(depth*l.Alpha) + float64(part*l.Beta) + float64(2*b*l.Gamma)
		}
		return t
	case a == Ring && call == CallAllReduce:
		return float64(2*others*l.Alpha) + float64(2*part*l.Beta) + float64(part*l.Gamma)
	case call == CallReduceScatter: // Ring
		return float64(others*l.Alpha) + float64(part*(l.Beta+l.Gamma))
	}
	return float64(others*l.Alpha) + float64(part*l.Beta) // Ring, Pairwise
}

// level returns the cost of an exchange between any ranks.
func (k Costs) level(s Shape) Level {
	l := k.Links
	if s.Hosts > 0 { // the ranks of a host send at once, over one link
		l.Beta *= float64(s.Most)
	}
	return l
}

// radix returns the radix that forwards parts of b bytes together in the least time, and
// that time in seconds. Each part is copied before it is sent, and once at the end. Small
// messages that do not wait for each other are posted.
func (l Level) radix(size int, b float64) (best int, least float64) {
	for radix := 2; radix == 2 || radix < size; radix *= 2 {
		rounds, moved := 0.0, 0
		for weight := 1; weight < size; weight *= radix {
			period := weight * radix
			have := func(digit int) int { // number of distances with this digit
				return size/period*weight + min(max(size%period-digit*weight, 0), weight)
			}
			each := l.following(b * float64(have(1)) / float64(size))
			rounds += l.Alpha + float64(float64(min(radix-1, (size-1)/weight)-1)*each)
			moved += size - have(0)
		}
		sent := b * float64(moved) / float64(size)
		t := rounds + float64(sent*l.Beta) + float64((sent+b)*l.Gamma)
		if best == 0 || t < least {
			best, least = radix, t
		}
	}
	return best, least
}

// directTime returns the seconds of sending each rank its part of b bytes directly.
func (l Level) directTime(size int, b float64) float64 {
	part := b / float64(size)
	return l.Alpha + float64(float64(size-2)*l.following(part)) + float64(float64(size-1)*part*l.Beta)
}

// following returns the seconds of a message of b bytes that need not wait for the previous
// one, without the transfer time of its bytes.
func (l Level) following(b float64) float64 {
	if l.Post > 0 && b <= postBytes {
		return l.Post
	}
	return l.Alpha
}

// toOwners returns the fastest way to send each rank its chunk of b bytes, and its seconds.
// Radix 0 sends chunks directly; any other radix forwards them.
func (l Level) toOwners(size int, b float64) (radix int, seconds float64) {
	direct := l.directTime(size, b)
	if radix, t := l.radix(size, b); t < direct*(1-minForwardGain) {
		return radix, t
	}
	return 0, direct
}

// lengthsTime returns the seconds of exchanging the lengths of parts.
func (l Level) lengthsTime(size int) float64 {
	return float64(log2(size) * (l.Alpha + float64(float64(size/2+1)*8*l.Beta)))
}

// maxLengthsShare bounds the time spent on exchanging lengths, as a share of the rounds
// that forwarding may save.
const maxLengthsShare = 1.0 / 10

// exchangesLengths reports whether ranks first exchange the lengths of the parts of an
// all-to-all. Without the lengths they cannot forward parts or agree on an algorithm.
func (k Costs) exchangesLengths(s Shape) bool {
	l := k.level(s)
	return s.Size > 1 && k.Take != Pairwise && (k.Take == Bruck || l.lengthsTime(s.Size) <= maxLengthsShare*l.directTime(s.Size, 0))
}

// windows returns the seconds of a call in shared memory: its meetings, and the bytes that
// each rank reads and writes.
func (k Costs) windows(size int, call Call, b float64) float64 {
	l, part := k.Local, b*float64(size-1)/float64(size)
	switch {
	case size == 1:
		return 0
	case call == CallBarrier || call == callAlloc:
		return l.Alpha
	case reduces(call) && b <= everyoneBytes:
		return l.Alpha + float64(b*float64(size)*l.Gamma)
	case call == CallAllReduce:
		return float64(2*l.Alpha) + float64(part*(l.Beta+l.Gamma))
	case call == CallReduceScatter:
		return float64(2*l.Alpha) + float64(part*l.Gamma)
	case call == CallBroadcast:
		return float64(2*l.Alpha) + float64(b*l.Beta)
	}
	return float64(2*l.Alpha) + float64(part*l.Beta)
}

// rails returns the seconds of a call inside every host, then between hosts, then inside
// again. The ranks of a host share its link.
func (k Costs) rails(s Shape, call Call, op Op, typ Type, bytes int) float64 {
	in := Shape{Size: s.Most, Windows: s.Windows}
	local := Costs{Local: k.Local, Links: k.Local}
	inside := func(call Call) float64 {
		if s.Most == 1 {
			return 0
		}
		_, t := local.Choose(in, call, op, typ, bytes)
		return t
	}
	if call != CallAllReduce {
		t := float64(2 * inside(call))
		_, between := k.Choose(Shape{Size: s.Hosts}, call, op, typ, bytes)
		return t + between
	}
	_, between := k.rail(s.Least).Choose(Shape{Size: s.Hosts}, call, op, typ, bytes/s.Least)
	first := CallReduceScatter
	if s.Least != s.Most {
		first = CallAllReduce
	}
	return inside(first) + between + inside(CallAllGather)
}

// log2 returns ⌈log2 p⌉.
func log2(p int) float64 { return float64(bits.Len(uint(p - 1))) }

// fingerprint returns a 24-bit hash of the costs.
func (k Costs) fingerprint() uint64 {
	h := uint64(k.Take)
	for _, l := range [...]Level{k.Local, k.Links} {
		for _, v := range [...]float64{l.Alpha, l.Beta, l.Gamma, l.Post} {
			h = bits.RotateLeft64(h^math.Float64bits(v), 29) * 0x9e3779b97f4a7c15
		}
	}
	return h >> 40
}

// rail returns the costs of one of the rails that share a link.
func (k Costs) rail(rails int) Costs {
	k.Links.Beta *= float64(rails)
	return k
}

// Costs returns the costs by which algorithms are chosen.
func (c *Comm) Costs() Costs { return c.group.costs }

// Shape returns the shape of the group.
func (c *Comm) Shape() Shape { return c.shape }

// Choose returns the algorithm for a call with a buffer of that many bytes per rank,
// and the seconds that the cost model predicts.
func (c *Comm) Choose(call Call, op Op, typ Type, bytes int) (Algorithm, float64) {
	return c.group.costs.Choose(c.shape, call, op, typ, bytes)
}

// way returns the algorithm of a call by messages, for a stage of the call of tag.
func (c *Comm) way(call Call, tag Tag, bytes int) Algorithm {
	a, _ := c.Choose(call, tag.Op, tag.Type, bytes)
	return a
}
