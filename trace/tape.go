package trace

import "encoding/binary"

// tape keeps the latest spans and exchanges of the goroutine that trains, in the order in which
// they ended. They are varints in chunks of bytes; the oldest chunk is reused when all are full.
// A step of six phases and five exchanges has about 75 bytes. Fixed sizes would take 400 bytes:
// the first use of that memory cost more time than recording.
//
// Times, steps and numbers are stored as differences from the previous entry. A span consists of
// its number and phase (nth*32 + phase), its start after the end of the previous span or the
// previous exchange, its duration, the difference of its step, bytes and rows. An exchange
// consists of the number Phases, its time after the same end, and the difference of its number.
// It comes before the span in which it was entered.
type tape struct {
	keep   int // spans
	memory []byte
	chunks []chunk
	at     int // the chunk that is being filled
	now    mark
	spans  int   // in all chunks
	lost   int64 // spans that were in reused chunks
}

// chunk describes chunkBytes of the memory.
type chunk struct {
	begin mark
	bytes int
	spans int
}

// mark is what the numbers of a span or an exchange are relative to.
type mark struct {
	time, step int64
	seq        uint64
}

const (
	chunkBytes = 4096
	spanBytes  = 24 // reserved for each span, with its exchanges
	maxBytes   = 6 * binary.MaxVarintLen64

	_ = uint(31 - Phases) // a phase has five bits, and one number marks an exchange
)

// newTape returns a tape of about keep spans.
func newTape(keep int) tape {
	if keep == 0 {
		return tape{}
	}
	n := keep*spanBytes/chunkBytes + 2
	return tape{keep: keep, memory: make([]byte, n*chunkBytes), chunks: make([]chunk, n)}
}

// chunk returns the used part of a chunk with space for another span.
func (t *tape) chunk() []byte {
	if c := &t.chunks[t.at]; chunkBytes-c.bytes < maxBytes {
		t.at = (t.at + 1) % len(t.chunks)
		c = &t.chunks[t.at]
		t.spans -= c.spans
		t.lost += int64(c.spans)
		*c = chunk{begin: t.now}
	}
	from := t.at * chunkBytes
	return t.memory[from : from+t.chunks[t.at].bytes]
}

func (t *tape) addSpan(s *span) {
	b := binary.AppendUvarint(t.chunk(), uint64(s.nth)<<5|uint64(s.phase))
	b = binary.AppendVarint(b, s.start-t.now.time)
	b = binary.AppendVarint(b, s.end-s.start)
	b = binary.AppendVarint(b, s.step-t.now.step)
	b = binary.AppendVarint(b, s.bytes)
	b = binary.AppendVarint(b, int64(s.rows))
	t.now.time, t.now.step = s.end, s.step
	t.spans++
	c := &t.chunks[t.at]
	c.bytes, c.spans = len(b), c.spans+1
}

func (t *tape) addExchange(x exchange) {
	b := binary.AppendUvarint(t.chunk(), Phases)
	b = binary.AppendVarint(b, x.at-t.now.time)
	b = binary.AppendVarint(b, int64(x.seq-t.now.seq))
	t.now.time, t.now.seq = x.at, x.seq
	t.chunks[t.at].bytes = len(b)
}

// older returns the number of spans before the last ones, of which there are at most keep.
func (t *tape) older(last int) int { return max(0, t.spans-min(last, t.keep)) }

// each calls f with each span except the first skip, and the exchanges that were entered in it.
// Both are valid until f returns.
func (t *tape) each(skip int, f func(s *span, in []exchange) error) error {
	var s span // one for all, since f makes it escape
	var in []exchange
	for i := range t.chunks {
		i = (t.at + 1 + i) % len(t.chunks)
		c := t.chunks[i]
		b, now := t.memory[i*chunkBytes:][:c.bytes], c.begin
		varint := func() int64 {
			x, n := binary.Varint(b)
			b = b[n:]
			return x
		}
		for len(b) > 0 {
			kind, n := binary.Uvarint(b)
			b = b[n:]
			if kind == Phases {
				now.time += varint()
				now.seq += uint64(varint())
				in = append(in, exchange{now.time, now.seq})
				continue
			}
			s.phase, s.nth = Phase(kind&31), int(kind>>5)
			s.start = now.time + varint()
			s.end = s.start + varint()
			s.step = now.step + varint()
			s.bytes, s.rows = varint(), int(varint())
			now.time, now.step = s.end, s.step
			var its []exchange
			if s.nth == 0 {
				its, in = in, in[:0]
			}
			if skip--; skip < 0 {
				if err := f(&s, its); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
