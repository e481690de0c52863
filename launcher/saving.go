package launcher

import "time"

// saveTime bounds how long interrupted ranks may take to save what they have done.
const saveTime = 15 * time.Minute

// spares reports whether ranks that were interrupted, and have not ended within the
// grace, are left to save what they have done: a step or a checkpoint may take longer.
// Those that have done no step yet lose nothing, and one that stands still is judged.
func (r *run) spares() bool {
	if r.job.Saves == nil || r.interrupt == nil || r.server.Verdict() != nil || time.Since(r.asked) > saveTime {
		return false
	}
	status, gained := r.relay.gained()
	if gained && !r.spared {
		r.spared = true
		r.say(func() { r.job.Saves(status, lineWriter{r.console}) })
	}
	return gained
}

// say prints a line about the job. It gives up after a while, because the reader may be gone.
func (r *run) say(tell func()) {
	told := make(chan struct{})
	go func() {
		defer close(told)
		tell()
	}()
	select {
	case <-told:
	case <-time.After(ownEnd):
	}
}
