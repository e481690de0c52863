package member

import (
	"context"
	"errors"
	"time"

	"github.com/wdlrun/wdlrun/internal/restart"
	"github.com/wdlrun/wdlrun/rank"
)

// rejoinPause is between two attempts to reach the coordinator of the next
// generation, which is there once the one of this has ended.
const rejoinPause = 20 * time.Millisecond

// Rejoin takes this rank from a group that has failed, with cause as it showed here,
// into the next generation of the job, with links and a communicator of its own;
// what the process has in memory it keeps. The launcher must be one that starts the
// lost ranks again and leaves the others alone (launcher.Job.Heals). No goroutine may
// use the old Comm or its memory any more.
//
// The error is the verdict where there is no next generation for this rank: where
// it is the one that failed, or the group failed by something that would happen
// again; or why the next was not reached within the timeout.
func (m *Member) Rejoin(ctx context.Context, cause error) error {
	err := m.Fail(cause)
	// The launcher may pause before it begins the next generation.
	timeout := m.Session.Timeout() + restart.Config{}.Default().MaxPause
	m.Close()
	for tried, late := false, time.Now().Add(timeout); ; tried = true {
		var v *rank.Verdict
		switch {
		case tried && errors.As(err, &v) && v.Kind == rank.Gone && time.Now().Before(late): // it had met the last coordinator at its end
		case errors.Is(err, rank.ErrPassed): // a group that failed before this rank came
			m.World.Generation++
		case errors.As(err, &v) && !(m.World.Launched && v.Survived(m.World.Rank)):
			return err
		case v != nil:
			m.World.Generation++
			late = time.Now().Add(timeout)
		case time.Now().After(late):
			return err
		}
		if err = m.enter(ctx); err == nil {
			return nil
		}
		select {
		case <-time.After(rejoinPause):
		case <-ctx.Done():
			return err
		}
	}
}
