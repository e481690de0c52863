package serve

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gate limits the requests that compute at once to cap(slots). Up to most others wait;
// the rest are rejected.
type gate struct {
	slots   chan struct{}
	waiting atomic.Int64
	most    int64
}

func newGate(slots, waiting int) *gate {
	return &gate{slots: make(chan struct{}, slots), most: int64(waiting)}
}

// enter waits for a slot. It fails if too many requests wait, or if ctx has ended: a
// request whose client has gone is not started.
func (g *gate) enter(ctx context.Context) error {
	select {
	case g.slots <- struct{}{}:
	default:
		if err := g.wait(ctx); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		g.release()
		return status.FromContextError(err).Err()
	}
	return nil
}

func (g *gate) wait(ctx context.Context) error {
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > g.most {
		return status.Errorf(codes.ResourceExhausted, "serve: %d requests are waiting; send fewer, or raise -max-queue", g.most)
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (g *gate) release() { <-g.slots }
