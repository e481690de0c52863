package launcher

import "time"

// saveTime bounds the time for which interrupted ranks may save their work.
const saveTime = 15 * time.Minute

// spares reports whether interrupted ranks that have not ended within the grace may
// continue to save their work: a step or a checkpoint may take longer. Ranks that have
// completed no step lose nothing, and a rank without progress is handled by its verdict.
func (r *run) spares() bool {
	if r.job.Saves == nil || r.interrupt == nil || r.server.Verdict() != nil || time.Since(r.asked) > saveTime {
		return false
	}
	status, gained := r.relay.gained()
	if gained && !r.spared {
		r.spared = true
		r.printLine(func() { r.job.Saves(status, lineWriter{r.console}) })
	}
	return gained
}

// printLine calls write, which prints a line about the job. It returns after a while even if
// write has not, because no process may be reading the output.
func (r *run) printLine(write func()) {
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		write()
	}()
	select {
	case <-printed:
	case <-time.After(ownEnd):
	}
}
