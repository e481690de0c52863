package step

import (
	"reflect"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/encode"
)

// FuzzDecodeBatch: the message of a rank is rejected, or is a batch that encodes to the same
// bytes.
func FuzzDecodeBatch(f *testing.F) {
	of := columns{features: 2, dense: 1, weighted: true, labels: 1}
	b := encode.Batch{
		Rows: 2, RowID: []uint64{7, 8}, Label: []float32{0, 1}, Dense: []float32{0.5, -1},
		Weight: []float32{2, 0.5}, Labels: [][]float32{{3, 4}},
		Sparse: []encode.Jagged{
			{Values: []uint64{1, 2, 3}, Offsets: []int32{0, 1, 3}, Weights: []float32{1, 2, 3}},
			{Values: []uint64{4}, Offsets: []int32{0, 0, 1}},
		},
	}
	f.Add(appendBatch(nil, &b))
	empty := emptyBatch(of.features)
	f.Add(appendBatch(nil, &empty))
	bare := encode.Batch{Sparse: []encode.Jagged{{Offsets: []int32{0}, Weights: []float32{}}, {Offsets: []int32{0}}}}
	f.Add(appendBatch(nil, &bare)) // weights, but no values
	f.Add([]byte{})
	var kept encode.Batch // memory that is reused
	f.Fuzz(func(t *testing.T, in []byte) {
		if decodeBatch(&kept, in, of) != nil {
			return
		}
		if !reflect.DeepEqual(appendBatch(nil, &kept), in) {
			t.Fatal("a batch in memory that is used again differs from its bytes")
		}
		var fresh encode.Batch
		if err := decodeBatch(&fresh, appendBatch(nil, &kept), of); err != nil {
			t.Fatalf("what was read is refused when it is written: %v", err)
		}
		if got, want := appendBatch(nil, &fresh), appendBatch(nil, &kept); !reflect.DeepEqual(got, want) {
			t.Fatal("another batch comes back")
		}
	})
}
