package serve

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wdlrun/wdlrun/internal/serve/rescue"
)

// maxPlaces is the maximum number of places whose panics are reported.
const maxPlaces = 1 << 10

// panics counts panics, and reports the first of each place.
type panics struct {
	counts *prometheus.CounterVec // in
	report func(*rescue.Panic)    // may be nil

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

// count counts a panic, and reports it if it is the first of its place.
func (p *panics) count(in string, x *rescue.Panic) {
	p.counts.WithLabelValues(in).Inc()
	if p.report != nil && p.isNew(x.Place) {
		p.report(x)
	}
}

// rescue calls f. A panic of f becomes the error INTERNAL.
func (p *panics) rescue(in string, f func() error) error {
	err := rescue.Call(f)
	x, is := err.(*rescue.Panic)
	if !is {
		return err
	}
	p.count(in, x)
	return status.Errorf(codes.Internal, "serve: %s: %v; the server's log has the stack", in, x)
}
