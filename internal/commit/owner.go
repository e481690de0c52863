package commit

import (
	"fmt"
	"slices"
)

// Act is what the driver of an owner or a worker must do before it sends the
// messages of the same outcome.
type Act uint8

// The acts.
const (
	Nothing Act = iota
	Stage       // owner: keep the pushed gradients under Tag
	Discard     // owner: forget what is staged under Tag
	Apply       // owner: sum Record's pieces in slot order, update once, discard all else
	Compute     // worker: rows are here; compute Tag, keep the gradients until the next lease, call Computed
	Abandon     // worker: stop work on Tag
)

// Outcome is the answer of an owner or a worker to an event. Messages stay valid
// until the next event.
type Outcome struct {
	Act      Act
	Tag      Tag
	Record   *Record // with Apply
	Messages []Message
}

// Owner is the state machine of one rank's ownership: which version its shards
// and dense chunk have, what is staged for the next one, and whom it obeys.
type Owner struct {
	rank   int
	term   Term
	record Record // applied last
	digest uint64 // of all that was applied
	staged []Piece
	held   []Message // pulls of a version that is still to come, one a rank
	out    []Message
	mutant mutant
}

// NewOwner returns an owner whose shards are at the version of record, with the
// digest of all commits up to it: from a checkpoint, from another holder, or of
// the beginning (Step 0, digest 0). Terms below floor are over.
func NewOwner(rank int, floor Term, record Record, digest uint64) *Owner {
	return &Owner{rank: rank, term: floor, record: record, digest: digest}
}

// Version returns the step that was applied last.
func (o *Owner) Version() int64 { return o.record.Step }

// Digest returns a hash of all commit sets up to Version. Two runs with the same
// digest applied the same microbatches in the same steps and slots.
func (o *Owner) Digest() uint64 { return o.digest }

// Receive takes one message. The error is a broken promise of the protocol: the
// owner stays as it was, and the driver reports it as this rank's failure.
func (o *Owner) Receive(m Message) (Outcome, error) {
	o.out = o.out[:0]
	switch m.Kind {
	case Ask:
		o.ask(m)
	case Pull:
		o.pull(m)
	case Push:
		return o.push(m), nil
	case Withdraw:
		return o.withdraw(m.Tag), nil
	case Commit:
		return o.commit(m)
	default:
		return Outcome{}, fmt.Errorf("commit: owner %d: received %s, which is no owner's to answer", o.rank, m.Kind)
	}
	return Outcome{Messages: o.out}, nil
}

func (o *Owner) send(to int, k Kind, tag Tag) *Message {
	o.out = append(o.out, Message{Kind: k, From: o.rank, To: to, Tag: tag})
	return &o.out[len(o.out)-1]
}

// fenced reports whether a coordinator's term is over, and tells it.
func (o *Owner) fenced(t Term) bool {
	if t >= o.term || o.mutant == noFence {
		return false
	}
	o.send(Lead, Fenced, Tag{Term: t, Step: o.record.Step}).Rules = o.term
	return true
}

func (o *Owner) ask(m Message) {
	if o.fenced(m.Tag.Term) {
		return
	}
	if m.Tag.Term > o.term {
		o.term, o.held = m.Tag.Term, o.held[:0]
		if o.mutant == forgetStaged {
			o.staged = nil
		}
	}
	record := o.record
	s := o.send(Lead, State, Tag{Term: o.term, Step: o.record.Step})
	s.Record, s.Digest, s.Staged = &record, o.digest, slices.Clone(o.staged)
}

// pull answers with rows of exactly the version before the tag's step: now,
// when that version is applied, or never.
func (o *Owner) pull(m Message) {
	switch {
	case m.Tag.Term != o.term, m.Tag.Step <= o.record.Step:
		o.stale(m)
	case m.Tag.Step == o.record.Step+1:
		r := o.send(m.From, Rows, m.Tag)
		r.Dense, r.Digest = m.Dense, o.digest
	default:
		o.held = slices.DeleteFunc(o.held, func(h Message) bool { return h.From == m.From })
		o.held = append(o.held, m)
		slices.SortFunc(o.held, func(a, b Message) int { return a.From - b.From })
	}
}

// maxStaged bounds the pieces of a step: each slot once more than it counts.
const maxStaged = 2 * MaxSlots

func (o *Owner) push(m Message) Outcome {
	p := Piece{Slot: m.Tag.Slot, Attempt: m.Tag.Attempt, Batch: m.Batch}
	at, ok := o.find(p)
	if m.Tag.Term != o.term && o.mutant != noFence || m.Tag.Step != o.record.Step+1 || m.Digest != o.digest || !ok && len(o.staged) >= maxStaged {
		o.stale(m)
		return Outcome{Messages: o.out}
	}
	act := Nothing
	if !ok {
		o.staged = slices.Insert(o.staged, at, p)
		act = Stage
	}
	o.send(Lead, Staged, m.Tag)
	return Outcome{Act: act, Tag: m.Tag, Messages: o.out}
}

// stale answers a tag of another term or step, or gradients of another history.
func (o *Owner) stale(m Message) {
	s := o.send(m.From, Stale, m.Tag)
	s.Rules = o.term
	s.Failed = m.Kind == Push && m.Tag.Term == o.term && m.Tag.Step == o.record.Step+1
}

func (o *Owner) find(p Piece) (int, bool) {
	return slices.BinarySearchFunc(o.staged, p, func(a, b Piece) int {
		if a.Slot != b.Slot {
			return a.Slot - b.Slot
		}
		return a.Attempt - b.Attempt
	})
}

func (o *Owner) withdraw(t Tag) Outcome {
	if t.Term != o.term && o.mutant != lateWithdraw || t.Step != o.record.Step+1 {
		return Outcome{}
	}
	at, ok := o.find(Piece{Slot: t.Slot, Attempt: t.Attempt})
	if !ok {
		return Outcome{}
	}
	o.staged = slices.Delete(o.staged, at, at+1)
	return Outcome{Act: Discard, Tag: t}
}

// commit applies the one record of the next step, answers for one that is
// applied, and refuses what cannot be.
func (o *Owner) commit(m Message) (Outcome, error) {
	if m.Record == nil {
		return Outcome{}, fmt.Errorf("commit: owner %d: a commit of term %v without a record", o.rank, m.Tag.Term)
	}
	if o.fenced(m.Tag.Term) {
		return Outcome{Messages: o.out}, nil
	}
	r := *m.Record
	switch {
	case m.Tag.Term != o.term && o.mutant != noFence, r.Step < o.record.Step:
		return Outcome{}, nil // of a term that never asked, or long done
	case r.Step == o.record.Step:
		o.send(Lead, Applied, Tag{Term: m.Tag.Term, Step: r.Step})
		return Outcome{Messages: o.out}, nil
	case r.Step > o.record.Step+1:
		return Outcome{}, fmt.Errorf("commit: owner %d: told to apply step %d on version %d", o.rank, r.Step, o.record.Step)
	}
	for _, p := range r.Pieces {
		if at, ok := o.find(p); !ok || o.staged[at].Batch != p.Batch {
			return Outcome{}, fmt.Errorf("commit: owner %d: step %d counts slot %d, attempt %d, which is not staged here",
				o.rank, r.Step, p.Slot, p.Attempt)
		}
	}
	o.record, o.digest, o.staged = r, r.chain(o.digest), nil
	o.send(Lead, Applied, Tag{Term: m.Tag.Term, Step: r.Step})
	held := o.held
	o.held = nil
	for _, h := range held {
		o.pull(h)
	}
	return Outcome{Act: Apply, Record: &o.record, Messages: o.out}, nil
}

// chain returns the digest after r, given that before it (FNV-1a). Attempts do
// not enter: copies of a slot are equal.
func (r Record) chain(before uint64) uint64 {
	h := before ^ 14695981039346656037
	mix := func(x int64) {
		for range 8 {
			h = (h ^ uint64(x)&255) * 1099511628211
			x >>= 8
		}
	}
	mix(r.Step)
	for _, p := range r.Pieces {
		mix(int64(p.Slot))
		mix(p.Batch.Epoch)
		mix(p.Batch.First)
		mix(p.Batch.Rows)
	}
	return h
}
