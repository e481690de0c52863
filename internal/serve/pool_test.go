package serve

import "testing"

// TestReceivedBuffers: a buffer has the length that was asked for, and is used again for messages of
// its size, not of larger ones.
func TestReceivedBuffers(t *testing.T) {
	var p received
	for _, n := range []int{0, 1, 2, 3, 4096, 4097, 36_330, 1 << maxPooled, 1<<maxPooled + 1} {
		b := p.Get(n)
		if len(*b) != n || cap(*b) > max(1, 2*n) {
			t.Errorf("%d bytes: a buffer of %d, capacity %d", n, len(*b), cap(*b))
		}
		p.Put(b)
		if b := p.Get(n); len(*b) != n {
			t.Errorf("%d bytes again: a buffer of %d", n, len(*b))
		}
	}
	small := p.Get(33 << 10)
	p.Put(small)
	if b := p.Get(65 << 10); len(*b) != 65<<10 {
		t.Errorf("a buffer of %d bytes for %d", len(*b), 65<<10)
	}
	own := make([]byte, 100)
	p.Put(&own) // of another size than the pool's
	if b := p.Get(128); len(*b) != 128 {
		t.Errorf("a buffer of %d bytes for 128", len(*b))
	}
}
