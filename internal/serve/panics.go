package serve

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wdlrun/wdlrun/internal/serve/rescue"
)

// maxPlaces is the maximum number of places whose panics are reported.
const maxPlaces = 1 << 10

// panics are the places whose panics have been reported.
type panics struct {
	mu       sync.Mutex
	reported map[string]bool
}

// isNew reports whether a place has not been reported, and records it.
func (p *panics) isNew(place string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reported[place] || len(p.reported) == maxPlaces {
		return false
	}
	if p.reported == nil {
		p.reported = map[string]bool{}
	}
	p.reported[place] = true
	return true
}

// panicked counts a panic, and reports it if it is the first of its place.
func (s *Server) panicked(in string, p *rescue.Panic) {
	s.metrics.panics.WithLabelValues(in).Inc()
	if s.options.Panicked != nil && s.panics.isNew(p.Place) {
		s.options.Panicked(p)
	}
}

// rescue calls f. A panic of f becomes the error INTERNAL.
func (s *Server) rescue(in string, f func() error) error {
	err := rescue.Call(f)
	p, is := err.(*rescue.Panic)
	if !is {
		return err
	}
	s.panicked(in, p)
	return status.Errorf(codes.Internal, "serve: %s: %v; the server's log has the stack", in, p)
}
