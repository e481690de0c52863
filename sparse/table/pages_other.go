//go:build !linux

package table

// pages is memory of the Go heap. It holds no pointers, so that the collector
// does not scan it.
type pages struct{ mem []byte }

func newPages(n int) pages { return pages{mem: make([]byte, n)} }

func (p *pages) free() error {
	*p = pages{}
	return nil
}

// touchBytes is how much of slabs would be touched at once: more than ever.
const touchBytes = 1 << 30

func touchPages([]byte) {}
