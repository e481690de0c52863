package sparse

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Step is [optim.Step]: the number of the step and the factors of its gradients.
type Step = optim.Step

// update is the optimizer step in progress.
type update struct {
	at      Step
	applied []table.Applied // by table
	past    table.Past      // previous steps, for tables with DenseL2 parts
	norm    table.Sum

	onCheck, onApply func(worker int) error // method values, kept so that a step allocates nothing
}

// Apply takes one optimizer step for each distinct key with a staged gradient, and for
// every other row of DenseL2 parts. It inserts keys that have no row. It does not
// communicate. On an error, such as [*table.NonFiniteError], no row has changed and the
// gradients are still staged.
func (s *Store) Apply(at Step) error {
	fault := func(err error) error {
		return fmt.Errorf("sparse: apply: step %d: rank %d of %d: %w", at.N, s.rank, s.size, err)
	}
	if err := s.pipeline.endPush(); err != nil {
		return err
	}
	if err := s.check(at); err != nil {
		return fault(err)
	}
	if s.decays {
		s.past.Add(at)
	}
	if err := s.workers.all(false, s.onApply); err != nil {
		return fault(err)
	}
	for _, done := range s.applied {
		s.counters.RowsInserted += int64(done.Inserted)
		s.counters.StepsOfRows += int64(done.Steps)
	}
	s.inFlight = slices.DeleteFunc(s.inFlight, func(l *Lookup) bool { return l.state == pushed })
	if err := s.replica.apply(at); err != nil {
		return fault(err)
	}
	s.stepped = at.N
	return nil
}

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
