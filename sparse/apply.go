package sparse

// check returns the error that a table's Apply would return, before any table changes. It
// does not check gradients again that were found to be finite.
func (s *Store) check(at Step) error {
	s.at = at
	return s.workers.all(false, s.onCheck)
}

func (s *Store) checkTables(worker int) error {
	for i, t := range s.tables {
		if !s.workers.has(worker, i) {
			continue
		}
		if err := t.Check(s.at, s.staged[i].gradients()); err != nil {
			return err
		}
		s.staged[i].finite = true
	}
	return nil
}

// applyTables makes the part of Apply on the tables of a worker.
func (s *Store) applyTables(worker int) (err error) {
	for i, t := range s.tables {
		if !s.workers.has(worker, i) {
			continue
		}
		s.observeGradients(i, s.at)
		if s.applied[i], err = t.Apply(s.at, s.staged[i].gradients()); err != nil {
			return err
		}
		s.staged[i].reset()
	}
	return nil
}

// GradNormSq returns this rank's share of ‖scale·g + L2·w‖², over the staged keys and every
// row of DenseL2 parts. The sum over all ranks is the square of the norm that clipping
// needs. It does not depend on the order of rows.
func (s *Store) GradNormSq(scale float32) float64 {
	s.pipeline.wait()
	s.norm.Reset()
	for i, t := range s.tables {
		t.NormSq(scale, s.staged[i].gradients(), &s.norm)
	}
	return s.norm.Total()
}

// observeGradients reports the staged gradients of a table before a step applies them.
func (s *Store) observeGradients(table int, at Step) {
	if s.norms.every == 0 || at.N%s.norms.every != 0 {
		return
	}
	t, g, scale := s.tables[table], s.staged[table].gradients(), float64(at.Default().Scale)
	lo, hi := t.Part(0)
	for i := range g.Keys {
		s.norms.observe(table, scale*norm(g.Values[i*t.Width():][lo:hi]))
	}
}
