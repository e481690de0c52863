package sparse

// hands share the work on tables: hand i of n has every n-th table from the i-th on, so
// no two have one.
type hands struct {
	n    int
	each func(f func(i int)) // calls f of every hand at once
	task func(i int) error
	errs []error // by hand
	run  func(i int)
}

// Share has n goroutines share the work that Pull, Complete and Apply have with tables:
// each calls f(0) to f(n−1) at once and returns when all have returned. What Ahead's
// goroutine does is its own. Results are the same without. Call it before NewLookup.
func (s *Store) Share(n int, each func(f func(i int))) {
	h := &s.hands
	h.n, h.each, h.errs = max(1, n), each, make([]error, max(1, n))
	h.run = func(i int) { h.errs[i] = h.task(i) }
}

// all carries out a task, each hand its tables; background: the caller is not alone
// with them, it does so itself.
func (h *hands) all(background bool, task func(i int) error) error {
	if background || h.n == 1 {
		for i := range h.n {
			if err := task(i); err != nil {
				return err
			}
		}
		return nil
	}
	h.task = task
	h.each(h.run)
	for _, err := range h.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// has reports whether hand i has table t.
func (h *hands) has(i, t int) bool { return t%h.n == i }
