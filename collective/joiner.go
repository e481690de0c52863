package collective

import (
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Joiner is a Transport that combines arriving elements with local ones while the rest of
// the message is still in transit.
type Joiner interface {
	// ExchangeJoin is Exchange, except that Join combines each element that arrives with
	// the element of own in its place. send and own do not overlap.
	ExchangeJoin(tag Tag, to int, send []byte, from int, own []byte) error
}

// Join combines the elements of a message of a reduction with those of own: own[i] =
// partial[i] op own[i]. Both slices have the same length and are aligned for their
// element type. tag is the tag of the message.
func Join(tag Tag, own, partial []byte) {
	switch tag.Type {
	case Uint8:
		joinAs[uint8](tag, own, partial)
	case Uint16, BFloat16:
		joinAs[uint16](tag, own, partial)
	case Int32:
		joinAs[int32](tag, own, partial)
	case Uint32:
		joinAs[uint32](tag, own, partial)
	case Int64:
		joinAs[int64](tag, own, partial)
	case Uint64:
		joinAs[uint64](tag, own, partial)
	case Float32:
		if tag.Op == Sum {
			dst := raw.Of[float32](own)
			f32.SumRows([][]float32{dst}, [][]float32{raw.Of[float32](partial), dst})
			return
		}
		joinAs[float32](tag, own, partial)
	case Float64:
		joinAs[float64](tag, own, partial)
	}
}

func joinAs[T Number](tag Tag, own, partial []byte) {
	reduce(tag.Op, tag.Type, raw.Of[T](own), raw.Of[T](partial), raw.Of[T](own))
}
