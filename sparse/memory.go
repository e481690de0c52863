package sparse

import (
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// resize returns n elements, in the memory of x if it suffices; their values are
// unspecified. It allocates a quarter more, so that batches of nearly equal size do not
// each allocate.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n, n+n/4)
	}
	return x[:n]
}

func bytesOf(x []uint64) []byte { return raw.Bytes(x) }

func wordsOf(b []byte) []uint64 { return raw.Of[uint64](b) }

func floatsOf(b []byte) []float32 { return raw.Of[float32](b) }
