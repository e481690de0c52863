package sparse

import (
	"fmt"
)

// Pipeline returns the calls that overlap the exchange of one batch with the compute of
// another.
func (s *Store) Pipeline() *Pipeline { return &s.pipeline }

// Start runs Prepare and Push in a goroutine that exchanges over ex: the same ranks as
// the store's exchanges, on another channel. Without Start, both run before they return.
// Every rank makes the same choice. Store.Close ends the goroutine.
func (p *Pipeline) Start(ex Exchanger) error {
	s := p.store
	switch {
	case p.running():
		return fmt.Errorf("sparse: pipeline: rank %d of %d: it was started before", s.rank, s.size)
	case ex == nil || ex.Rank() != s.rank || ex.Size() != s.size:
		return fmt.Errorf("sparse: pipeline: rank %d of %d: give an Exchanger of the same ranks, have %v", s.rank, s.size, ex)
	}
	const kinds = 2 // two kinds of task: a batch to prepare, one to push
	p.link, p.work, p.done = newLink(ex), make(chan func(), kinds), make(chan struct{}, kinds)
	go func(work <-chan func(), done chan<- struct{}) {
		for f := range work {
			f()
			done <- struct{}{}
		}
		close(done)
	}(p.work, p.done)
	return nil
}

func (p *Pipeline) running() bool { return p.work != nil }

// begin starts a task. One of either kind can be in progress.
func (p *Pipeline) begin(work func()) {
	p.busy++
	p.work <- work
}

// Prepare starts a Pull that Complete finishes; every rank calls both. While the
// previous batch is computed, pushed and applied, the keys of this batch are made
// unique and sent to their owners, which return the rows that no batch in flight will
// change. After Complete the rows are those that a Pull at that moment would return, to
// the bit. Without Start, Prepare sends the keys before it returns, and the owners
// answer during Complete. In both cases a table with a tier starts to read the
// requested rows from disk.
//
// bags must not change until Complete returns. Only one batch can be prepared at a
// time. Until it is completed, no other batch can be pulled with insert.
func (p *Pipeline) Prepare(l *Lookup, bags []Bags, insert bool) error {
	s := p.store
	if p.waiting != nil {
		return fmt.Errorf("sparse: prepare: rank %d of %d: the batch of pull %d is prepared: Complete it first", s.rank, s.size, p.waiting.number)
	}
	if err := s.begin("prepare", l, insert); err != nil {
		return err
	}
	p.waiting, l.state, l.pending = l, prepared, bags
	if !p.running() {
		l.early = false
		if l.err = l.sendKeys(&s.link, bags); l.err == nil {
			l.readAhead()
		}
		return nil
	}
	l.early = s.early
	p.begin(l.onPrepare)
	return nil
}

// Complete finishes what Prepare started. The Lookup is then as after Pull.
func (p *Pipeline) Complete(l *Lookup) error {
	s := p.store
	if p.waiting != l {
		return fmt.Errorf("sparse: complete: rank %d of %d: the batch was not prepared", s.rank, s.size)
	}
	p.wait()
	p.waiting, l.pending = nil, nil
	err := l.err
	if err == nil && l.generation == s.generation {
		err = l.completeRows()
	}
	return s.end("complete", l, err)
}

// Push is Store.Push in the background. It overlaps with other work of the caller, such
// as the allreduce of dense gradients, until GradNormSq or Apply, which wait for it. It
// runs after a Prepare that was called before. The Lookup must not be used before
// Apply, which returns an error of the push. Without Start it is Store.Push.
func (p *Pipeline) Push(l *Lookup) error {
	if !p.running() {
		return p.store.Push(l)
	}
	if err := p.store.mayPush(l); err != nil {
		return err
	}
	p.pushing = true
	l.state = pushed
	p.begin(l.onPush)
	return nil
}

// endPush waits for a push in the background and returns its error.
func (p *Pipeline) endPush() error {
	p.wait()
	err := p.err
	p.pushing, p.err = false, nil
	return err
}

// stop ends the goroutine.
func (p *Pipeline) stop() {
	if p.running() {
		p.wait()
		close(p.work)
		<-p.done
		p.work, p.done, p.link, p.pushing, p.err = nil, nil, link{}, false, nil
	}
}
