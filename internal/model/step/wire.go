package step

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// The format of a batch in a message to another rank; all numbers are little-endian:
//
//	rows (4) │ per feature: values (4), 1 if they have weights (4)
//	row ids (8 each) │ labels (4 each) │ dense inputs (4 each)
//	weights of samples, if any (4 each) │ per further label: labels (4 each)
//	per feature: offsets (4 each, one more than rows) │ values (8 each) │ weights (4 each)

// appendBatch appends b.
func appendBatch(to []byte, b *encode.Batch) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(b.Rows))
	for i := range b.Sparse {
		weighted := uint32(0)
		if b.Sparse[i].Weights != nil {
			weighted = 1
		}
		to = binary.LittleEndian.AppendUint32(to, uint32(len(b.Sparse[i].Values)))
		to = binary.LittleEndian.AppendUint32(to, weighted)
	}
	to = append(to, raw.Bytes(b.RowID)...)
	to = append(to, raw.Bytes(b.Label)...)
	to = append(to, raw.Bytes(b.Dense)...)
	to = append(to, raw.Bytes(b.Weight)...)
	for _, l := range b.Labels {
		to = append(to, raw.Bytes(l)...)
	}
	for i := range b.Sparse {
		j := &b.Sparse[i]
		to = append(to, raw.Bytes(j.Offsets)...)
		to = append(to, raw.Bytes(j.Values)...)
		to = append(to, raw.Bytes(j.Weights)...)
	}
	return to
}

// columns describes the columns of the batches of a model.
type columns struct {
	features, dense int
	weighted        bool
	labels          int // number of labels after the first
}

// targets returns how many further labels and weights a row has.
func (c columns) targets() int {
	if c.weighted {
		return c.labels + 1
	}
	return c.labels
}

// decodeBatch decodes a batch into b. It reuses the memory of b.
func decodeBatch(b *encode.Batch, from []byte, of columns) error {
	features, dense := of.features, of.dense
	head := 4 + 8*features
	if len(from) < head {
		return fmt.Errorf("%d bytes are not a batch of %d features", len(from), features)
	}
	rows := int64(binary.LittleEndian.Uint32(from))
	want := int64(head) + rows*int64(8+4+4*dense+4*of.targets()+4*features) + int64(4*features)
	if rows > math.MaxInt32 || want > int64(len(from)) {
		return fmt.Errorf("%d rows do not fit in %d bytes", rows, len(from))
	}
	b.Sparse = slices.Grow(b.Sparse[:0], features)[:features]
	for i := range b.Sparse {
		n, weighted := binary.LittleEndian.Uint32(from[4+8*i:]), binary.LittleEndian.Uint32(from[8+8*i:])
		if weighted > 1 {
			return fmt.Errorf("feature %d: the flag for weights is %d, not 0 or 1", i, weighted)
		}
		want += 8 * int64(n)
		if weighted != 0 {
			want += 4 * int64(n)
		}
	}
	if want != int64(len(from)) {
		return fmt.Errorf("it has %d bytes, its header states %d", len(from), want)
	}
	rest := from[head:]
	b.Rows = int(rows)
	b.RowID, rest = copyOut(b.RowID, rest, b.Rows)
	b.Label, rest = copyOut(b.Label, rest, b.Rows)
	b.Dense, rest = copyOut(b.Dense, rest, b.Rows*dense)
	if of.weighted {
		b.Weight, rest = copyOut(b.Weight, rest, b.Rows)
	}
	b.Labels = slices.Grow(b.Labels[:0], of.labels)[:of.labels]
	for i := range b.Labels {
		b.Labels[i], rest = copyOut(b.Labels[i], rest, b.Rows)
	}
	for i := range b.Sparse {
		j := &b.Sparse[i]
		n, weighted := int(binary.LittleEndian.Uint32(from[4+8*i:])), binary.LittleEndian.Uint32(from[8+8*i:]) != 0
		j.Offsets, rest = copyOut(j.Offsets, rest, b.Rows+1)
		j.Values, rest = copyOut(j.Values, rest, n)
		if !weighted {
			j.Weights = nil
			continue
		}
		if j.Weights, rest = copyOut(j.Weights, rest, n); j.Weights == nil {
			j.Weights = []float32{} // nil means that there are none
		}
	}
	return nil
}

// copyOut copies n numbers from the front of from into the memory of to. It returns them
// and the rest of from.
func copyOut[T uint64 | int32 | float32](to []T, from []byte, n int) ([]T, []byte) {
	to = slices.Grow(to[:0], n)[:n]
	k := copy(raw.Bytes(to), from)
	return to, from[k:]
}
