package commit

import "fmt"

// Term numbers the reign of one coordinator over one set of owners. The highest
// term that an owner has heard of is the only one it obeys.
type Term uint64

// MakeTerm returns the term of the n-th election within a generation, called by
// a rank (the launcher counts as one beyond the last), so that no two
// coordinators ever have the same.
func MakeTerm(generation, n, by int) Term {
	return Term(generation)<<40 | Term(n)&(1<<24-1)<<16 | Term(by)&(1<<16-1)
}

// Next returns the same coordinator's term after t.
func (t Term) Next() Term { return t + 1<<16 }

// Generation returns the formation of the group that t is of. It is the same for
// all terms between two restores, and so are staged gradients, which a new term
// may still count: a store must fence by generation, never by term.
func (t Term) Generation() int { return int(t >> 40) }

func (t Term) String() string {
	return fmt.Sprintf("%d.%d.%d", t>>40, t>>16&(1<<24-1), t&(1<<16-1))
}

// Tag names one attempt of one slot: what leases, pushes and staged gradients
// are known by. Attempts of a step are numbered over all its slots.
type Tag struct {
	Term    Term
	Step    int64
	Slot    int
	Attempt int
}

// before reports whether a lease with tag t was given before one with tag o.
func (t Tag) before(o Tag) bool {
	if t.Term != o.Term {
		return t.Term < o.Term
	}
	if t.Step != o.Step {
		return t.Step < o.Step
	}
	return t.Attempt < o.Attempt
}

// Place numbers an attempt within its step, by slot first: what a store stages it
// under that knows steps and numbers only. Places ascend as a record's pieces do.
func (t Tag) Place() int { return t.Slot<<placeBits | t.Attempt }

const placeBits = 21 // more than maxTries takes

// Batch is a microbatch: Rows consecutive samples of an epoch's order.
type Batch struct {
	Epoch, First, Rows int64
}

// Piece is a slot's gradients, staged at one owner.
type Piece struct {
	Slot, Attempt int
	Batch         Batch
}

// Place is that of the piece's tag.
func (p Piece) Place() int { return p.Slot<<placeBits | p.Attempt }

// Kind is what a message says.
type Kind uint8

// The messages. Pull, Rows, Push and Stale travel with their bulk data between
// ranks; the others are the control plane's.
const (
	Ask      Kind = 1 + iota // coordinator to owner: obey my term, tell your state
	State                    // owner: applied record, staged pieces
	Fenced                   // owner: a higher term rules (Term tells which)
	Lease                    // coordinator to worker: compute Batch as Tag
	Cancel                   // coordinator to worker: give up Tag
	Withdraw                 // coordinator to owner: forget what is staged as Tag
	Ready                    // worker: free again; Done is how much of Tag was done
	Pull                     // worker to owner: rows of version Step−1
	Rows                     // owner to worker
	Push                     // worker to owner: gradients of Tag
	Staged                   // owner to coordinator: Tag is staged here
	Stale                    // owner to worker: Tag is of no use any more
	Commit                   // coordinator to owner: apply Record
	Applied                  // owner to coordinator: Step is applied
)

var kindNames = [...]string{Ask: "ask", State: "state", Fenced: "fenced", Lease: "lease", Cancel: "cancel",
	Withdraw: "withdraw", Ready: "ready", Pull: "pull", Rows: "rows", Push: "push", Staged: "staged",
	Stale: "stale", Commit: "commit", Applied: "applied"}

func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// Lead is the address of whoever leads the message's term.
const Lead = -1

// Message is one message. Fields beyond Kind, From, To and Tag are set where the
// kind needs them.
type Message struct {
	Kind     Kind
	From, To int // ranks, or Lead
	Tag      Tag

	Batch  Batch   // Lease, Push
	Owners []int   // Lease: where to pull and push
	Digest uint64  // State, Rows, Push: of the version
	Dense  bool    // Pull, Rows: with the owner's chunk of the dense parameters
	Record *Record // State: applied last; Commit: to apply
	Staged []Piece // State: of the step after Record's
	Done   uint8   // Ready: 255 is all of the work
	Failed bool    // Ready: the rank could not do it; Stale: it was computed on other rows
	Rules  Term    // Fenced, Stale: the highest term that the owner has heard of
}

// Record is what one commit decided, and all that a new coordinator must know.
type Record struct {
	Step    int64
	Leased  int     // slots of the step, counted or not
	Pieces  []Piece // A_t, by slot
	Samples int64   // of A_t: the divisor of the mean gradient
	Queue   Queue   // what is left after the step
	Cut     bool    // owners take a checkpoint of this version
}
