package serve

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

// The guard compares the logits of a new version with those of the current one, on the warm-up records
// and on recent requests. A version whose logits differ too much does not replace the current one.

const (
	liveRows  = 1000                  // of recent requests
	liveBytes = 256 << 10             // of a request; longer ones are not recorded
	liveTotal = 8 << 20               // bytes of the recorded requests of a model
	liveEvery = 20 * time.Millisecond // between two recorded requests
)

// guard compares a new version with the current one. limit is Options.Guard.
func guard(limit float64, current, next *servable, recorded []liveRequest, pause func()) error {
	if limit == 0 {
		return nil
	}
	warmup := next.warmup
	for what, requests := range map[string][]liveRequest{"warm-up records": {{encode: examples(&tfs.Input{Examples: warmup, Given: true})}}, "recent requests": recorded} {
		was, is, err := current.both(next, requests, pause)
		if err != nil {
			return fmt.Errorf("serve: guard: %s: %w", what, err)
		}
		for i := range min(len(was), len(is)) {
			if why := metrics.CompareLogits(was[i], is[i], limit); why != "" {
				return &Unlike{fmt.Sprintf("serve: refused: on %d rows of %s, %s; the limit is -guard %v", len(is[i]), what, why, limit)}
			}
		}
	}
	return nil
}

// both returns the logits, by output, of both versions for the rows of requests. A request that one
// of them cannot encode is left out.
func (m *servable) both(next *servable, requests []liveRequest, pause func()) (was, is [][]float32, err error) {
	was, is = make([][]float32, len(m.outputs)), make([][]float32, len(next.outputs))
	for _, r := range requests {
		before, err := m.logits(r.encode)
		pause()
		if err != nil {
			return nil, nil, err
		}
		after, err := next.logits(r.encode)
		pause()
		if err != nil {
			return nil, nil, err
		}
		if before == nil || after == nil {
			continue
		}
		for i := range was {
			was[i] = append(was[i], before[i]...)
		}
		for i := range is {
			is[i] = append(is[i], after[i]...)
		}
	}
	return was, is, nil
}

// logits returns the logits of a batch by output, nil if it cannot be encoded.
func (m *servable) logits(encode batching) (all [][]float32, err error) {
	w, err := m.worker()
	if err != nil {
		return nil, err
	}
	defer func() { m.workers <- w }()
	if w.counts, err = encode(w); err != nil {
		return nil, nil // of another schema
	}
	if err := m.score(w); err != nil {
		return nil, err
	}
	for i := range m.outputs {
		all = append(all, slices.Clone(w.logit(i)))
	}
	return all, nil
}

// live holds recent requests of each model.
type live struct {
	mu     sync.Mutex
	models map[string]*recent
}

type recent struct {
	requests []liveRequest // the newest last
	rows     int
	bytes    int
	at       time.Time
}

// liveRequest is a request that can be encoded again.
type liveRequest struct {
	rows, bytes int
	encode      batching
}

// note records a request of some rows, at most one in liveEvery. again makes its batching from a copy
// of its bytes.
func (l *live) note(model string, request []byte, rows int, again func(copied []byte) (batching, error)) {
	now := time.Now()
	if len(request) > liveBytes || rows == 0 || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	r := l.models[model]
	if r == nil {
		r = &recent{}
		if l.models == nil {
			l.models = map[string]*recent{}
		}
		l.models[model] = r
	}
	if now.Sub(r.at) < liveEvery {
		return
	}
	encode, err := again(slices.Clone(request))
	if err != nil {
		return
	}
	r.at = now
	r.requests = append(r.requests, liveRequest{rows, len(request), encode})
	r.rows, r.bytes = r.rows+rows, r.bytes+len(request)
	for r.rows-r.requests[0].rows >= liveRows || r.bytes > liveTotal {
		r.rows, r.bytes = r.rows-r.requests[0].rows, r.bytes-r.requests[0].bytes
		r.requests[0] = liveRequest{}
		r.requests = r.requests[1:]
	}
}

// requests returns the recent requests of a model.
func (l *live) requests(model string) []liveRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.models[model]; r != nil {
		return slices.Clone(r.requests)
	}
	return nil
}
