package calls

import "github.com/wdlrun/wdlrun/collective"

// Waits is who waits for whom on one channel, where all ranks can be watched at
// once. It finds every group of ranks that wait for each other for ever.
//
// A rank in an exchange is blocked while its own message was not taken or the
// awaited one has not come: either alone holds it. So ranks stand still for ever
// exactly if they wait for each other in a circle (Knapp, "Deadlock detection in
// distributed databases", 1987, the AND model): from a rank that is blocked and
// waits for nobody outside an exchange, each step leads to another such rank,
// and there are finitely many. A circle closes when its last rank enters its
// exchange, so that is when to look. Ranks in one call form none, because
// schedules are proved free of them; so one is looked for only while ranks are
// in different calls, and two neighbours in it are.
//
// It is not safe for use by several goroutines at once.
type Waits struct {
	eager bool // messages wait at the receiver: nobody waits to be rid of one
	ranks []wait
	sent  map[[2]int]int // eager: messages from and to that were not awaited yet
	look  uint64         // number of the present search

	call         collective.Tag // of same ranks in exchanges; of others not
	same, others int
}

// wait is the exchange that a rank is in.
type wait struct {
	in       bool
	tag      collective.Tag
	to, from int    // who still has to act; negative: nobody
	looked   uint64 // number of the last search that came by
}

// NewWaits returns the waits of size ranks, none of which is in an exchange.
// eager says that a message is sent without waiting for its receiver.
func NewWaits(size int, eager bool) *Waits {
	w := &Waits{eager: eager, ranks: make([]wait, size)}
	if eager {
		w.sent = make(map[[2]int]int)
	}
	return w
}

// Enter opens an exchange of rank, which sends to rank to and awaits a message of
// rank from, each unless negative. It returns a mismatch if that closes a circle.
func (w *Waits) Enter(rank int, tag collective.Tag, to, from int) *collective.MismatchError {
	own := &w.ranks[rank]
	own.in, own.tag, own.to, own.from = true, tag, to, from
	w.count(tag)
	if to >= 0 {
		w.send(rank, to)
	}
	if from >= 0 {
		w.await(rank, from)
	}
	if w.others == 0 {
		return nil
	}
	w.look++
	a, b, _ := w.circle(rank, rank)
	if a == b {
		return nil
	}
	return &collective.MismatchError{
		Peer: collective.Side{Rank: b, Tag: w.ranks[b].tag, Bytes: -1},
		Own:  collective.Side{Rank: a, Tag: w.ranks[a].tag, Bytes: -1},
	}
}

// Leave closes the exchange of rank.
func (w *Waits) Leave(rank int) {
	own := &w.ranks[rank]
	if !own.in {
		return
	}
	own.in, own.to, own.from = false, -1, -1
	if Alike(own.tag, w.call) {
		w.same--
	} else {
		w.others--
	}
}

// count takes note that one more rank is in the call of tag.
func (w *Waits) count(tag collective.Tag) {
	if Alike(tag, w.call) {
		w.same++
		return
	}
	if w.same > 0 {
		w.others++
		return
	}
	w.call, w.same, w.others = tag, 0, 0
	for i := range w.ranks {
		if r := &w.ranks[i]; r.in && Alike(r.tag, tag) {
			w.same++
		} else if r.in {
			w.others++
		}
	}
}

// send meets the message of rank with its receiver.
func (w *Waits) send(rank, to int) {
	met := w.ranks[to].in && w.ranks[to].from == rank
	if met {
		w.ranks[to].from = -1
	} else if w.eager {
		w.sent[[2]int{rank, to}]++
	}
	if met || w.eager {
		w.ranks[rank].to = -1
	}
}

// await meets the message that rank awaits with its sender.
func (w *Waits) await(rank, from int) {
	if w.eager {
		k := [2]int{from, rank}
		if n := w.sent[k]; n > 0 {
			w.ranks[rank].from = -1
			if w.sent[k]--; n == 1 {
				delete(w.sent, k)
			}
		}
		return
	}
	if w.ranks[from].in && w.ranks[from].to == rank {
		w.ranks[from].to, w.ranks[rank].from = -1, -1
	}
}

// circle follows the waits from rank at and reports whether they lead to goal.
// Then a and b, if they differ, are two ranks on the way in different calls of
// which a waits for b.
func (w *Waits) circle(at, goal int) (a, b int, found bool) {
	own := &w.ranks[at]
	for _, next := range [2]int{own.to, own.from} {
		if next < 0 || !w.ranks[next].in {
			continue
		}
		if next != goal {
			if w.ranks[next].looked == w.look {
				continue
			}
			w.ranks[next].looked = w.look
			if a, b, found = w.circle(next, goal); !found {
				continue
			}
		}
		if a == b && !Alike(own.tag, w.ranks[next].tag) {
			a, b = at, next
		}
		return a, b, true
	}
	return 0, 0, false
}

// Alike reports whether two exchanges follow one schedule.
func Alike(a, b collective.Tag) bool {
	a.Step, b.Step = 0, 0
	return a == b
}
