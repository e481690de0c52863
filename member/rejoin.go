package member

import (
	"context"
	"errors"
	"time"

	"github.com/wdlrun/wdlrun/internal/control/restart"
	"github.com/wdlrun/wdlrun/rank"
)

// rejoinPause is the pause between attempts to reach the coordinator of the next
// generation, which starts after the end of the current one.
const rejoinPause = 20 * time.Millisecond

// Rejoin moves this rank from a failed group to the next generation of the job, with
// new links and a new communicator. cause is the error that this rank saw. The memory
// of the process is kept. The launcher must be one that restarts lost ranks and keeps
// the others (launcher.Job.Heals). No goroutine may use the old Comm or its memory
// afterwards.
//
// Rejoin returns the verdict if there is no next generation for this rank: if this rank
// failed, or if the failure would repeat. It returns another error if the next
// generation was not reached within the timeout.
func (m *Member) Rejoin(ctx context.Context, cause error) error {
	err := m.Fail(cause)
	// The launcher may pause before it begins the next generation.
	timeout := m.Session.Timeout() + restart.MaxPause
	m.Close()
	for tried, late := false, time.Now().Add(timeout); ; tried = true {
		var v *rank.Verdict
		switch {
		case tried && errors.As(err, &v) && v.Kind == rank.Gone && time.Now().Before(late): // the previous coordinator was about to end
		case errors.Is(err, rank.ErrOldGeneration): // its group failed before this rank came
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
