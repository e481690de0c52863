package copies

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// maxRanks bounds the worlds that are explored.
const maxRanks = 4

// process is a rank of the model. A history has a letter for each step taken: the generation
// in which its gradients were computed. A repeated step has another letter, so mixing the two
// is detected.
type process struct {
	dead, out bool // process ended; has left its group and waits for the next
	whole     bool
	at        int    // place in its program in this generation: messages sent before it may arrive
	ready     byte   // letter of the step that is ready; 0: none
	copied    bool   // it has its ward's gradients of that step
	own       string // history of its shares, of its copy and of the dense parameters
	copy      string
	dense     string
}

// remains is a state of the model.
type remains struct {
	ranks      [maxRanks]process
	generation byte
	deaths     int
	over       string // why the group ended permanently
}

// rules configures the model: ranks, steps, the number of ranks that may be lost, and rules
// that are disabled to show that they are necessary.
type rules struct {
	size, steps, deaths int
	rounds              int  // rounds of the barrier
	mirrorLast          bool // mirror after the barrier
	follow              int  // whose state is used: 0 that chosen by Recover, 1 the first rank's
	hosts               int  // number of hosts, with equal numbers of ranks in order; 0: one
}

// phases is the number of phases of a step. A rank enters the healing exchange; then it has, for each step, push,
// mirror, and the rounds of a dissemination barrier (Hensgen, Finkel and Manber 1988): in
// round i rank r receives from r−2^i.
func (u rules) phases() int { return 2 + u.rounds }

// place returns the step and the phase of a place in the program; phase -1 is the healing
// exchange.
func (u rules) place(at int) (step, phase int) {
	if at == 0 {
		return 0, -1
	}
	step, phase = (at-1)/u.phases(), (at-1)%u.phases()
	if u.mirrorLast && phase > 0 {
		phase = 1 + phase%(u.rounds+1) // 2, 3, …, 1
	}
	return step, phase
}

// hears reports whether everything has arrived that rank r needs to leave its place.
func (u rules) hears(w *remains, r int) bool {
	at := w.ranks[r].at
	sent := func(from int) bool { return w.ranks[from].at >= at }
	switch _, phase := u.place(at); phase {
	case -1, 0: // from all ranks
		for i := range u.size {
			if !sent(i) {
				return false
			}
		}
		return true
	case 1: // from the ward
		return sent(u.ring().Ward(r))
	default:
		return sent((r + u.size - 1<<(phase-2)%u.size) % u.size)
	}
}

// next returns the states that can follow w.
func (u rules) next(w remains) (all []remains) {
	if w.over != "" {
		return nil
	}
	broken := slices.ContainsFunc(w.ranks[:u.size], func(p process) bool { return p.dead })
	left := true
	for r := range u.size {
		p := w.ranks[r]
		if p.dead {
			continue
		}
		if w.deaths < u.deaths {
			x := w
			x.ranks[r].dead = true
			x.deaths++
			all = append(all, x)
		}
		left = left && p.out
		if p.out {
			continue
		}
		if broken {
			x := w
			x.ranks[r].out = true
			all = append(all, x)
		}
		if !u.done(p) && u.hears(&w, r) {
			all = append(all, u.advance(w, r))
		}
	}
	if broken && left {
		all = append(all, u.form(w))
	}
	return all
}

// done reports whether a rank has taken all steps.
func (u rules) done(p process) bool { return p.whole && len(p.dense) == u.steps }

// advance moves rank r to its next place.
func (u rules) advance(w remains, r int) remains {
	p := &w.ranks[r]
	step, phase := u.place(p.at)
	switch {
	case phase == -1 && !p.whole:
		buddy, ward := &w.ranks[u.ring()[r]], &w.ranks[u.ring().Ward(r)]
		start := len(p.dense) // start of the generation: no rank has taken a step since
		p.whole, p.own, p.copy = true, buddy.copy[:start], ward.own[:start]
	case phase == 1:
		p.ready, p.copied = 'a'+w.generation, true
	}
	p.at++
	if after, _ := u.place(p.at); after > step {
		p.take()
	}
	return w
}

// take takes the step that is ready.
func (p *process) take() {
	letter := string(p.ready)
	p.own, p.dense = p.own+letter, p.dense+letter
	if !p.copied {
		letter = "?"
	}
	p.copy += letter
	p.ready, p.copied = 0, false
}

// form returns the next group of the remaining and of empty ranks.
func (u rules) form(w remains) remains {
	held := make([]Held, u.size)
	for r := range held {
		if p := &w.ranks[r]; p.dead || !p.whole {
			*p = process{}
		} else {
			held[r] = Held{Whole: true, Step: int64(len(p.dense)), Ward: u.ring().Ward(r)}
			if p.ready != 0 {
				held[r].Ready = held[r].Step + 1
			}
		}
	}
	v, err := Recover(held)
	if u.follow == 1 && v.Leader >= 0 {
		v.Leader, v.Behind = slices.IndexFunc(held, func(h Held) bool { return h.Whole }), nil
	}
	switch {
	case err != nil:
		w.over = "fault: " + err.Error()
		return w
	case v.Leader < 0:
		w.over = "restored"
		for r := range held {
			if next := u.ring()[r]; !held[r].Whole && !held[next].Whole {
				return w
			}
		}
		w.over = "fault: a checkpoint is restored though each share is held"
		return w
	}
	w.generation++
	for r := range held {
		p := &w.ranks[r]
		p.out, p.at = false, 0
		if slices.Contains(v.Behind, r) {
			p.take()
		}
		p.ready, p.copied = 0, false
	}
	leader := w.ranks[v.Leader].dense
	for r := range held {
		if p := &w.ranks[r]; held[r].Whole && !strings.HasPrefix(leader, p.dense) {
			w.over = fmt.Sprintf("fault: rank %d has taken %q, the others go on from %q", r, p.dense, leader)
		}
		w.ranks[r].dense = leader
	}
	return w
}

// fault returns a description of an invalid state, or "".
func (u rules) fault(w remains) string {
	if strings.HasPrefix(w.over, "fault") {
		return w.over
	}
	for r := range u.size {
		p, b := w.ranks[r], w.ranks[u.ring()[r]]
		if !p.whole || p.dead || p.own != p.dense {
			if p.whole && !p.dead {
				return fmt.Sprintf("rank %d: shares %q, dense parameters %q", r, p.own, p.dense)
			}
			continue
		}
		if b.whole && !b.dead && len(b.copy) == len(p.own) && b.copy != p.own {
			return fmt.Sprintf("rank %d holds %q, its buddy %q", r, p.own, b.copy)
		}
	}
	return ""
}

// explore visits every reachable state. It returns their number and the first fault.
func (u rules) explore() (states int, ends map[string]int, fault string) {
	var start remains
	for r := range u.size {
		start.ranks[r].whole = true
	}
	seen, queue := map[remains]bool{start: true}, []remains{start}
	ends = map[string]int{}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		if fault = u.fault(w); fault != "" {
			return len(seen), ends, fault
		}
		following := u.next(w)
		for _, x := range following {
			if !seen[x] {
				seen[x] = true
				queue = append(queue, x)
			}
		}
		if len(following) > 0 {
			continue
		}
		end := w.over
		switch done := 0; {
		case end == "":
			for _, p := range w.ranks[:u.size] {
				if u.done(p) && !p.dead {
					done++
				}
			}
			if end = "done"; done+w.deaths < u.size || done == 0 && w.deaths < u.size {
				return len(seen), ends, fmt.Sprintf("no progress: %+v", w)
			}
		}
		ends[end]++
	}
	return len(seen), ends, ""
}

// ring returns the ring of the ranks.
func (u rules) ring() Ring {
	hosts := make([]string, u.size)
	for r := range hosts {
		hosts[r] = fmt.Sprint(r * u.hosts / u.size)
	}
	return NewRing(u.size, hosts)
}

// barrier returns the number of rounds after which no rank passes before all have entered.
func barrier(size int) (rounds int) {
	for 1<<rounds < size {
		rounds++
	}
	return rounds
}

var exhaustive = flag.Bool("exhaustive", false, "visit the large worlds too")

// TestRecoverModel explores training with copies over several steps, with the loss of
// ranks at any moment, also while others are being healed.
func TestRecoverModel(t *testing.T) {
	worlds := []rules{{size: 2, steps: 3, deaths: 4}, {size: 3, steps: 2, deaths: 3}, {size: 4, steps: 1, deaths: 2}, {size: 4, steps: 1, deaths: 2, hosts: 2}}
	if *exhaustive {
		worlds = append(worlds, rules{size: 3, steps: 4, deaths: 4}, rules{size: 4, steps: 2, deaths: 3})
	}
	for _, u := range worlds {
		u.rounds = barrier(u.size)
		states, ends, fault := u.explore()
		if fault != "" || ends["done"] == 0 || u.deaths > 1 && ends["restored"] == 0 {
			t.Errorf("%+v: %s, ends %v", u, fault, ends)
		}
		t.Logf("%d ranks, %d steps, %d deaths: %d states, ends %v", u.size, u.steps, u.deaths, states, ends)
	}
}

// TestRecoverRulesAreNeeded disables one rule at a time.
func TestRecoverRulesAreNeeded(t *testing.T) {
	for name, u := range map[string]rules{
		"no barrier":                     {size: 3, steps: 2, deaths: 1, rounds: 0},
		"a barrier of one round too few": {size: 3, steps: 2, deaths: 1, rounds: 1},
		"the mirror behind the barrier":  {size: 3, steps: 2, deaths: 1, rounds: 2, mirrorLast: true},
		"the first rank's state":         {size: 3, steps: 2, deaths: 1, rounds: 2, follow: 1},
	} {
		if _, _, fault := u.explore(); fault == "" {
			t.Errorf("%s: not noticed", name)
		} else {
			t.Logf("%s: %s", name, fault)
		}
	}
}
