package serve

import (
	"io"
	"net/http"
	"sync"
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

// reserve reserves n bytes.
func (b *budget) reserve(n int) error {
	if b.held.Add(int64(n)) > b.most {
		b.release(n)
		return status.Errorf(codes.ResourceExhausted, "serve: the bodies of requests need more than %d bytes; send fewer at once, or raise -max-body-bytes", b.most)
	}
	return nil
}

func (b *budget) release(n int) { b.held.Add(-int64(n)) }

const (
	gzipBytes  = 64 << 10 // about the memory of a decompressor
	firstChunk = 4 << 10
	chunkBytes = 64 << 10
)

// chunks are buffers of chunkBytes that no body uses. Without them, what clients leave behind would be garbage, of which
// there may be as much as the budget before it is collected.
var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// read reads at most limit bytes; more are an *http.MaxBytesError. The caller gives back the capacity of the result.
func (b *budget) read(from io.Reader, limit int) (text []byte, err error) {
	var first [firstChunk]byte
	var more []*[chunkBytes]byte
	held, size := 0, 0
	defer func() {
		for _, c := range more {
			chunks.Put(c)
		}
		b.release(held)
	}()
	for {
		if size == held {
			if size > limit {
				return nil, &http.MaxBytesError{Limit: int64(limit)}
			}
			n := chunkBytes
			if held == 0 {
				n = firstChunk
			}
			if err := b.reserve(n); err != nil {
				return nil, err
			}
			if held += n; n == chunkBytes {
				more = append(more, chunks.Get().(*[chunkBytes]byte))
			}
		}
		to := first[min(size, firstChunk):]
		if len(more) > 0 {
			to = more[len(more)-1][chunkBytes-(held-size):]
		}
		n, err := from.Read(to)
		if size += n; err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if size > limit {
		return nil, &http.MaxBytesError{Limit: int64(limit)}
	}
	if err := b.reserve(size); err != nil {
		return nil, err
	}
	text = append(make([]byte, 0, size), first[:min(size, firstChunk)]...)
	for _, c := range more {
		text = append(text, c[:min(size-len(text), chunkBytes)]...)
	}
	return text, nil
}
