package commit

import "slices"

// Worker is the state machine of one rank's contributions: one lease at a time,
// from pull through compute to push.
type Worker struct {
	rank   int
	lease  Message // in work, or worked on last
	phase  phase
	rows   []bool  // owners of the lease that have answered
	digest uint64  // of the version that the first of them has
	chunks []chunk // of the dense parameters, by owner of the lease
	out    []Message
	mutant mutant
}

type phase uint8

const (
	free phase = iota
	pulling
	computing
	pushed
)

// chunk says which version of an owner's dense chunk a worker holds.
type chunk struct {
	owner  int
	term   Term
	step   int64
	digest uint64
}

// NewWorker returns a worker without a lease. Terms below floor are over.
func NewWorker(rank int, floor Term) *Worker {
	return &Worker{rank: rank, lease: Message{Tag: Tag{Term: floor}}}
}

// Lease returns the lease in work; ok tells whether there is one.
func (w *Worker) Lease() (tag Tag, b Batch, ok bool) {
	return w.lease.Tag, w.lease.Batch, w.phase != free
}

// Receive takes one message. done is how much of the work in hand is done, of 255.
func (w *Worker) Receive(m Message, done uint8) Outcome {
	w.out = w.out[:0]
	switch m.Kind {
	case Lease:
		return w.take(m)
	case Rows:
		return w.receive(m)
	case Stale:
		return w.stale(m, done)
	case Cancel:
		return w.cancel(m.Tag, done)
	}
	return Outcome{}
}

// stale gives a lease up. A coordinator whose term is over is not told, or it
// would lease again and again what no owner takes.
func (w *Worker) stale(m Message, done uint8) Outcome {
	if m.Tag != w.lease.Tag || w.phase == free {
		return Outcome{}
	}
	if m.Rules <= m.Tag.Term {
		return w.abandon(done, m.Failed)
	}
	act := w.stop()
	w.lease = Message{Tag: Tag{Term: m.Rules}}
	return Outcome{Act: act, Tag: m.Tag}
}

// cancel ends the work on a tag, or sees to it that a lease still on its way
// does not begin.
func (w *Worker) cancel(t Tag, done uint8) Outcome {
	if t.before(w.lease.Tag) {
		w.ready(t, done, false)
		return Outcome{Messages: w.out}
	}
	act, old := w.stop(), w.lease.Tag
	if t != old {
		w.lease, done = Message{Tag: t}, 0
	}
	w.ready(t, done, false)
	return Outcome{Act: act, Tag: old, Messages: w.out}
}

func (w *Worker) send(to int, k Kind) *Message {
	w.out = append(w.out, Message{Kind: k, From: w.rank, To: to, Tag: w.lease.Tag})
	return &w.out[len(w.out)-1]
}

func (w *Worker) ready(t Tag, done uint8, failed bool) {
	m := w.send(Lead, Ready)
	m.Tag, m.Done, m.Failed = t, done, failed
}

// take begins a lease, unless it is an old one that comes late. A new one ends
// what was in work.
func (w *Worker) take(m Message) Outcome {
	if m.Tag == w.lease.Tag && m.Tag.Step != 0 {
		if w.phase == free {
			w.ready(m.Tag, maxDone, false)
		}
		return Outcome{Messages: w.out}
	}
	if m.Tag.before(w.lease.Tag) {
		return Outcome{}
	}
	act, old := w.stop(), w.lease.Tag
	if m.Tag.Term != old.Term && w.mutant != keepChunks {
		w.chunks = nil
	}
	w.lease, w.phase = m, pulling
	w.rows = make([]bool, len(m.Owners))
	w.pull()
	return Outcome{Act: act, Tag: old, Messages: w.out}
}

// pull asks the owners that have not answered.
func (w *Worker) pull() {
	for i, o := range w.lease.Owners {
		if !w.rows[i] {
			w.send(o, Pull).Dense = !w.has(o)
		}
	}
}

// has reports whether the owner's dense chunk is here in the version needed.
func (w *Worker) has(owner int) bool {
	for _, c := range w.chunks {
		if c.owner == owner {
			return c.step == w.lease.Tag.Step-1 && (c.term == w.lease.Tag.Term || w.mutant == keepChunks)
		}
	}
	return false
}

func (w *Worker) keep(owner int) {
	c := chunk{owner, w.lease.Tag.Term, w.lease.Tag.Step - 1, w.digest}
	for i := range w.chunks {
		if w.chunks[i].owner == owner {
			w.chunks[i] = c
			return
		}
	}
	w.chunks = append(w.chunks, c)
	slices.SortFunc(w.chunks, func(a, b chunk) int { return a.owner - b.owner })
}

// receive takes one owner's rows. Owners that disagree on what was applied so far
// cannot be computed with: the lease is given back as failed.
func (w *Worker) receive(m Message) Outcome {
	i := slices.Index(w.lease.Owners, m.From)
	if m.Tag != w.lease.Tag || w.phase != pulling || i < 0 || w.rows[i] || !m.Dense && !w.has(m.From) {
		return Outcome{}
	}
	if !slices.Contains(w.rows, true) {
		w.digest = m.Digest
	} else if w.digest != m.Digest {
		return w.abandon(0, true)
	}
	w.rows[i] = true
	if m.Dense {
		w.keep(m.From)
	}
	if slices.Contains(w.rows, false) {
		return Outcome{}
	}
	w.phase = computing
	return Outcome{Act: Compute, Tag: w.lease.Tag}
}

// Computed says that the gradients of a tag are there.
func (w *Worker) Computed(t Tag) Outcome {
	w.out = w.out[:0]
	if w.phase != computing || t != w.lease.Tag {
		return Outcome{}
	}
	w.phase = pushed
	w.push()
	return Outcome{Messages: w.out}
}

func (w *Worker) push() {
	for _, o := range w.lease.Owners {
		m := w.send(o, Push)
		m.Batch, m.Digest = w.lease.Batch, w.digest
	}
}

// Failed says that the work on a tag cannot be done: a record that cannot be
// read, a loss that is no number.
func (w *Worker) Failed(t Tag) Outcome {
	w.out = w.out[:0]
	if w.phase == free || t != w.lease.Tag {
		return Outcome{}
	}
	return w.abandon(0, true)
}

func (w *Worker) abandon(done uint8, failed bool) Outcome {
	act := w.stop()
	w.ready(w.lease.Tag, done, failed)
	return Outcome{Act: act, Tag: w.lease.Tag, Messages: w.out}
}

// stop frees the worker, and says whether it has work to stop.
func (w *Worker) stop() Act {
	p := w.phase
	w.phase = free
	if p == pulling || p == computing {
		return Abandon
	}
	return Nothing
}

// Retry repeats what may have been lost on the way to owners.
func (w *Worker) Retry() Outcome {
	w.out = w.out[:0]
	switch w.phase {
	case pulling:
		w.pull()
	case pushed:
		w.push()
	}
	return Outcome{Messages: w.out}
}
