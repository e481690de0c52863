package member_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

// runTwo runs f on two ranks and requires that both return an error that contains the given
// text.
func runTwo(t *testing.T, want string, f func(context.Context, *member.Member) error) {
	t.Helper()
	key, dir, errs := rank.NewKey(), t.TempDir(), make([]error, 2)
	var wg sync.WaitGroup
	for r := range errs {
		wg.Go(func() {
			m, err := member.Join(context.Background(), env(r, 2, dir, key), member.Options{})
			if err != nil {
				errs[r] = err
				return
			}
			defer m.Close()
			errs[r] = member.RunJoined(m, context.Background(), f)
		})
	}
	wg.Wait()
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rank %d: %v, want %s", r, err, want)
		}
	}
}

// TestRunReportsIgnoredErrors: rank 1 aborts the group. Both ranks ignore the error of their
// call, but Run returns it on both.
func TestRunReportsIgnoredErrors(t *testing.T) {
	runTwo(t, "out of data", func(_ context.Context, m *member.Member) error {
		if m.World.Rank == 1 {
			m.Comm.Abort(errors.New("out of data"))
		}
		if err := collective.Barrier(m.Comm); err == nil {
			t.Errorf("rank %d: the call of an aborted group succeeds", m.World.Rank)
		}
		return nil
	})
}

// TestRunEndsTheGroup: f fails on rank 1. The context of rank 0 ends, and Run returns the error
// of rank 1 on both ranks.
func TestRunEndsTheGroup(t *testing.T) {
	runTwo(t, "no such table", func(ctx context.Context, m *member.Member) error {
		if m.World.Rank == 1 {
			return errors.New("no such table")
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Error("the context of rank 0 does not end with the group")
		}
		return ctx.Err()
	})
}
