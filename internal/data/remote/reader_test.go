package remote

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
)

// TestExpect counts the bytes and requests of reads in the order of a scan and of a training: all
// blocks, and one block in three. Lines are read from the byte before a block to the end of its
// last line.
func TestExpect(t *testing.T) {
	const block, blocks, over = 1 << 20, 24, 300
	file := make([]byte, blocks*block)
	for i := range file {
		file[i] = byte(i >> 8)
	}
	for _, x := range []struct {
		name     string
		order    func(i int) int
		blocks   int
		maxMiB   int64
		requests int64
	}{
		{"in order", func(i int) int { return i }, blocks, blocks, 8},
		{"apart", func(i int) int { return (7 * i % 8) * 3 }, 8, 9, 8},
	} {
		t.Run(x.name, func(t *testing.T) {
			var fetched, requests atomic.Int64
			r := NewReader(int64(len(file)), func(_ context.Context, lo, hi int64) ([]byte, error) {
				fetched.Add(hi - lo)
				requests.Add(1)
				return file[lo:hi], nil
			})
			got := make([]byte, 32<<10)
			for i := range x.blocks {
				lo := int64(x.order(i)) * block
				hi := min(lo+block+4<<10, int64(len(file)))
				lo = max(lo-1, 0)
				r.Expect(lo, hi)
				for at := lo; at < hi-4<<10+over && at < hi; at += int64(len(got)) {
					b := got[:min(int64(len(got)), hi-at)]
					if _, err := r.ReadAt(b, at); err != nil || !bytes.Equal(b, file[at:at+int64(len(b))]) {
						t.Fatalf("block %d at %d: %v", i, at, err)
					}
				}
			}
			r.Close()
			if said := fmt.Sprintf("%d bytes in %d requests", fetched.Load(), requests.Load()); fetched.Load() > x.maxMiB<<20 || requests.Load() > x.requests {
				t.Errorf("%s, want at most %d MiB in %d", said, x.maxMiB, x.requests)
			}
		})
	}
	long := NewReader(int64(len(file)), func(_ context.Context, lo, hi int64) ([]byte, error) { return file[lo:hi], nil })
	defer long.Close()
	long.Expect(0, 100) // a record that is longer than announced
	if b := make([]byte, 5<<20); true {
		if n, err := long.ReadAt(b, 50); n != len(b) || err != nil || !bytes.Equal(b, file[50:50+len(b)]) {
			t.Errorf("behind the announced range: %d bytes, %v", n, err)
		}
	}
}
