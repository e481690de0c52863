package remote

import (
	"context"
	"fmt"
	"io"
	"sync"
)

const (
	minPart  = 256 << 10
	maxPart  = 8 << 20
	maxWhole = 2 << 20 // of a range that is fetched as one part
)

// Fetch returns the bytes from lo up to, not including, hi of a file.
type Fetch func(ctx context.Context, lo, hi int64) ([]byte, error)

// Reader reads a file in parts, and fetches the next part ahead if reads are sequential. A part
// ends where the range ends that Expect has announced.
type Reader struct {
	size    int64
	fetch   Fetch
	ctx     context.Context
	cancel  context.CancelFunc
	fetches sync.WaitGroup

	mu     sync.Mutex
	part   *part // being read; nil for none
	next   *part // the following part, being fetched; nil for none
	lo, hi int64 // range announced by Expect; hi = 0: none
}

// part is a range of bytes of an object.
type part struct {
	lo, hi int64
	ready  chan struct{} // closed when the fields below are set
	bytes  []byte
	err    error
}

// NewReader returns a Reader of a file of the given size. It fetches nothing yet.
func NewReader(size int64, fetch Fetch) *Reader {
	r := &Reader{size: size, fetch: fetch}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends reading ahead.
func (r *Reader) Close() error {
	r.cancel()
	r.fetches.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.part, r.next = nil, nil
	return nil
}

// Expect announces that the bytes from lo up to, not including, hi are read next, in order.
// Nothing behind them is fetched ahead, unless they continue the range before.
func (r *Reader) Expect(lo, hi int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lo < lo && lo <= r.hi && r.hi < hi {
		hi = r.size
	}
	r.lo, r.hi = lo, hi
}

// ReadAt implements io.ReaderAt.
func (r *Reader) ReadAt(b []byte, off int64) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if off < 0 {
		return 0, fmt.Errorf("remote: offset %d", off)
	}
	for n < len(b) {
		at := off + int64(n)
		if at >= r.size {
			return n, io.EOF
		}
		p, err := r.at(at)
		if err != nil {
			return n, err
		}
		n += copy(b[n:], p.bytes[at-p.lo:])
	}
	return n, nil
}

// at returns the part that contains an offset.
func (r *Reader) at(off int64) (*part, error) {
	switch p, next := r.part, r.next; {
	case p != nil && p.lo <= off && off < p.hi:
	case next != nil && next.lo <= off && off < next.hi:
		r.part, r.next = next, r.ahead(next)
	case p != nil && off == p.hi: // the second sequential read
		r.part = r.begin(off, 2*(p.hi-p.lo))
		r.next = r.ahead(r.part)
	case r.expects(off) && r.hi-off <= maxWhole:
		r.part, r.next = r.begin(off, r.hi-off), nil
	default:
		r.part, r.next = r.begin(off, minPart), nil
	}
	p := r.part
	<-p.ready
	if p.err != nil {
		r.part, r.next = nil, nil
		return nil, p.err
	}
	return p, nil
}

// expects reports whether an offset is in the announced range.
func (r *Reader) expects(off int64) bool { return r.lo <= off && off < r.hi }

// ahead starts to fetch the part after p; nil at the end of the file or of the announced range.
func (r *Reader) ahead(p *part) *part {
	if p.hi == r.hi {
		return nil
	}
	return r.begin(p.hi, 2*(p.hi-p.lo))
}

// begin starts to fetch the part from an offset on; nil at the end.
func (r *Reader) begin(lo, bytes int64) *part {
	hi := min(lo+min(bytes, maxPart), r.size)
	if r.expects(lo) {
		hi = min(hi, r.hi)
	}
	if lo >= hi {
		return nil
	}
	p := &part{lo: lo, hi: hi, ready: make(chan struct{})}
	r.fetches.Go(func() {
		defer close(p.ready)
		p.bytes, p.err = r.fetch(r.ctx, lo, hi)
	})
	return p
}

var _ io.ReaderAt = (*Reader)(nil)
