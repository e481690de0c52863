package slots

import "time"

// Lease assigns a microbatch for a slot of a step to a rank. Attempts are numbered over all
// slots of the step, so slot and attempt identify a lease.
type Lease struct {
	Step          int64
	Slot, Attempt int
	Rank          int
	Batch         Batch
}

// Report is the report of a rank in a round that it is free again.
type Report struct {
	Rank  int
	Whole bool  // the microbatch is complete
	Done  uint8 // computed part, in 1/255
}

// Decision is the result of one round. Its slices are valid until the next call.
type Decision struct {
	Leases    []Lease
	Cancelled []Lease // the result is no longer needed
	Commit    *Record // nil: the step is not decided yet
	Text      string  // message for users if b changed or was evaluated for the first time
}

// Machine is the state machine. Times count from any fixed moment and never decrease. A
// Machine is not safe for concurrent use.
type Machine struct {
	cfg    Config
	record Record      // last decision
	queue  Queue       // queue of the current step
	ranks  []rankState // by rank
	free   []int       // idle ranks, in the order in which they became idle
	slots  []slot      // slots of the current step, record.Step+1
	next   int         // attempt number of the next lease
	begun  time.Duration
	gaps   gaps
	out    Decision
}

// rankState is the state of one rank.
type rankState struct {
	life  life
	lease Lease // last lease of the rank
	since time.Duration
}

type life uint8

const (
	idle life = iota
	busy
	leaving // cancelled, not yet free again
)

// slot is one slot of the current step.
type slot struct {
	Item
	attempts []attempt // once the slot is complete, only the one that counts
	complete bool
}

type attempt struct {
	number, rank int
	since        time.Duration
}

// need returns the number of slots of the step that must be complete. At the end of an epoch,
// if fewer slots are left than count in a step, it is all of them.
func (m *Machine) need() int {
	return min(m.cfg.Ranks-m.cfg.Backup, len(m.slots))
}

// mustWait reports whether the step must wait for a slot.
func (m *Machine) mustWait(s *slot) bool { return s.Tries >= m.cfg.Retries }
