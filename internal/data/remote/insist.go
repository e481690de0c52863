package remote

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	patience     = 20 * time.Second // below the limit after which a rank counts as stuck
	tryTimeout   = 15 * time.Second // of one request and its body
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// ErrFinal marks permanent failures.
var ErrFinal = errors.New("refused")

// Insist calls do again after failures that are not ErrFinal, with growing pauses, for 20
// seconds.
func Insist(ctx context.Context, do func(context.Context) error) error {
	end, pause := time.Now().Add(patience), firstPause
	for {
		limit, cancel := context.WithTimeout(ctx, tryTimeout)
		err := do(limit)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrFinal):
			return err
		case time.Now().Add(pause).After(end):
			return fmt.Errorf("given up after %v: %w", patience, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}
