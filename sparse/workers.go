package sparse

// workers divides the tables among goroutines: worker i of n has the tables i, i+n, i+2n, …
type workers struct {
	n    int
	each func(f func(i int)) // runs f for every worker concurrently
	task func(i int) error
	errs []error // by worker
	run  func(i int)
}

// all runs a task for every worker. If background is set, the caller runs concurrently with
// the workers and makes the task for all of them by itself.
func (w *workers) all(background bool, task func(i int) error) error {
	if background || w.n == 1 {
		for i := range w.n {
			if err := task(i); err != nil {
				return err
			}
		}
		return nil
	}
	w.task = task
	w.each(w.run)
	for _, err := range w.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// has reports whether worker i has table t.
func (w *workers) has(i, t int) bool { return t%w.n == i }
