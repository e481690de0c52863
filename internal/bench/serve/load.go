package serve

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// tally counts the requests to one server.
type tally struct {
	mu       sync.Mutex
	latency  *hdrhistogram.Histogram // of answered requests, since they were due
	swaps    *swapper                // nil: the server does not switch
	lateness *hdrhistogram.Histogram // delay of the sender
	failed   map[string]int64        // by status code
	first    error                   // first error
	answer   int                     // bytes of the last answer
}

func newTally() *tally {
	return &tally{latency: newHistogram(), lateness: newHistogram(), failed: map[string]int64{}}
}

// answered records the result of a request.
func (t *tally) answered(due time.Time, answer int, err error) {
	latency := time.Since(due)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		count(t.latency, latency)
		t.swaps.answered(due, latency)
		t.answer = answer
		return
	}
	t.failed[status.Code(err).String()]++
	if t.first == nil {
		t.first = err
	}
}

var errPending = errors.New("too many requests have no answer yet")

// sender sends requests to one server.
type sender struct {
	load        Load
	connections []*grpc.ClientConn
	requests    [][]byte
	sent        int
}

// await sleeps until a request is due.
func await(ctx context.Context, due time.Time) error {
	const look = 100 * time.Millisecond // interval of checks for the end of ctx
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("bench serve: %w", context.Cause(ctx))
		}
		if time.Until(due) <= look {
			sleepUntil(due)
			return nil
		}
		sleepUntil(time.Now().Add(look))
	}
}

// run sends requests for a time and waits for their answers. With a nil into it counts
// nothing.
func (s *sender) run(ctx context.Context, d time.Duration, seed uint64, into *tally) error {
	a, err := newArrivals(s.load.Arrivals, s.load.Rate, seed)
	if err != nil {
		return err
	}
	if into == nil {
		into = newTally()
	}
	runtime.LockOSThread() // sleepUntil blocks the thread
	defer runtime.UnlockOSThread()
	pending := make(chan struct{}, s.load.MaxPending)
	var group sync.WaitGroup
	defer group.Wait()
	start := time.Now()
	for at := a.due(); at < d; at = a.due() {
		due := start.Add(at)
		if err := await(ctx, due); err != nil {
			return err
		}
		count(into.lateness, time.Since(due)) // only this goroutine writes it
		select {
		case pending <- struct{}{}:
		default:
			into.answered(due, 0, errPending)
			continue
		}
		c, request := s.connections[s.sent%len(s.connections)], s.requests[s.sent%len(s.requests)]
		s.sent++
		group.Go(func() {
			defer func() { <-pending }()
			ctx, cancel := context.WithDeadline(ctx, due.Add(s.load.Timeout))
			defer cancel()
			var answer []byte
			err := c.Invoke(ctx, predictMethod, &request, &answer)
			into.answered(due, len(answer), err)
		})
	}
	return nil
}
