package serve

import (
	"io"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// budget limits the memory of the bodies of requests, before they wait at the gate. Clients
// that stall hold only memory for what they have sent.
type budget struct {
	held atomic.Int64
	most int64
}

// take reserves n bytes.
func (b *budget) take(n int) error {
	if b.held.Add(int64(n)) > b.most {
		b.give(n)
		return status.Errorf(codes.ResourceExhausted, "serve: the bodies of requests need more than %d bytes; send fewer at once, or raise -max-body-bytes", b.most)
	}
	return nil
}

func (b *budget) give(n int) { b.held.Add(-int64(n)) }

const (
	firstRead = 4 << 10
	gzipBytes = 64 << 10 // about the memory of a decompressor
)

// read reads at most limit bytes; one more byte shows that there are more. The caller gives back
// the capacity of the result, also after an error.
func (b *budget) read(from io.Reader, limit int) (text []byte, err error) {
	for {
		if len(text) == cap(text) {
			if len(text) > limit {
				return text, nil
			}
			n := min(max(firstRead, 2*cap(text)), limit+1)
			if err := b.take(n); err != nil {
				return text, err
			}
			more := make([]byte, len(text), n)
			copy(more, text)
			b.give(cap(text))
			text = more
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err == io.EOF {
			return text, nil
		}
		if err != nil {
			return text, err
		}
	}
}
