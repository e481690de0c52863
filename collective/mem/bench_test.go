package mem

import (
	"errors"
	"fmt"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// BenchmarkAllReduce reduces in place.
func BenchmarkAllReduce(b *testing.B) {
	for _, size := range []int{2, 4} {
		for _, n := range []int{1, 1 << 12, 1 << 18, 1 << 22} {
			b.Run(fmt.Sprintf("P=%d/bytes=%d", size, 4*n), func(b *testing.B) {
				b.SetBytes(int64(4 * n))
				errs := make(chan error)
				for _, tr := range New(size, 1) {
					go func() {
						c, x := collective.New(tr), make([]float32, n)
						var err error
						for range b.N {
							err = errors.Join(err, collective.AllReduce(c, x, collective.Sum))
						}
						errs <- err
					}()
				}
				for range size {
					if err := <-errs; err != nil {
						b.Error(err)
					}
				}
			})
		}
	}
}
