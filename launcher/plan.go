package launcher

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wdlrun/wdlrun/rank"
)

// Placed is where one rank runs.
type Placed struct {
	Rank      int    `json:"rank"`
	Host      string `json:"host"`
	LocalRank int    `json:"local_rank"`
	LocalSize int    `json:"local_size"`
}

// Plan is who runs where, by rank.
type Plan struct {
	Ranks []Placed `json:"ranks"`
}

// Place puts np ranks on hosts by slot, in order, as mpirun does: the first
// host's slots first. np 0 means all slots, or one rank where no hosts are
// given. More ranks than slots are rejected unless oversubscribe is set, which
// spreads those beyond the slots evenly over the hosts, up to each one's Max.
// Without hosts all ranks are local and any number is fine.
func Place(np int, hosts []Host, oversubscribe bool) (Plan, error) {
	if np < 0 || np > rank.MaxSize {
		return Plan{}, fmt.Errorf("launcher: place: -np %d is not within 1 … %d", np, rank.MaxSize)
	}
	if len(hosts) == 0 {
		np = max(np, 1)
		return number([]Host{{Name: "localhost", Slots: np}}, []int{np}), nil
	}
	hosts = oneSelf(hosts)
	slots := 0
	for _, h := range hosts {
		slots += h.Slots
	}
	if np == 0 {
		np = slots
	}
	if np > rank.MaxSize {
		return Plan{}, fmt.Errorf("launcher: place: the hosts have %d slots, a job at most %d ranks; give -np", slots, rank.MaxSize)
	}
	if np > slots && !oversubscribe {
		return Plan{}, fmt.Errorf("launcher: place: %d ranks are asked for, but the hosts have %d slots: give them more slots, or allow more ranks than slots with -oversubscribe", np, slots)
	}
	counts := make([]int, len(hosts))
	left := np
	for i, h := range hosts {
		counts[i] = min(left, h.Slots)
		left -= counts[i]
	}
	for left > 0 {
		before := left
		for i, h := range hosts {
			if left > 0 && (h.Max == 0 || counts[i] < h.Max) {
				counts[i]++
				left--
			}
		}
		if left == before {
			return Plan{}, fmt.Errorf("launcher: place: %d ranks are asked for, but max_slots of all hosts allow %d", np, np-left)
		}
	}
	return number(hosts, counts), nil
}

// oneSelf joins the names under which this machine is listed, so that its ranks
// know of each other that they share it, and holds slots below their maximum.
func oneSelf(hosts []Host) []Host {
	var own []Host
	self := -1
	for _, h := range hosts {
		if h.Max > 0 {
			h.Slots = min(h.Slots, h.Max)
		}
		switch {
		case !h.Local():
		case self < 0:
			self = len(own)
		default:
			o := &own[self]
			if o.Slots += h.Slots; o.Max == 0 || h.Max == 0 {
				o.Max = 0
			} else {
				o.Max += h.Max
			}
			continue
		}
		own = append(own, h)
	}
	return own
}

// number gives ranks to hosts in order.
func number(hosts []Host, counts []int) Plan {
	var p Plan
	for i, h := range hosts {
		for local := range counts[i] {
			p.Ranks = append(p.Ranks, Placed{Rank: len(p.Ranks), Host: h.Name, LocalRank: local, LocalSize: counts[i]})
		}
	}
	return p
}

// Only returns the plan of the given ranks alone, in ascending order: each stays on
// its host, and they are numbered again.
func (p Plan) Only(ranks []int) Plan {
	var hosts []Host
	var counts []int
	for _, r := range ranks {
		if name := p.Ranks[r].Host; len(hosts) == 0 || hosts[len(hosts)-1].Name != name {
			hosts, counts = append(hosts, Host{Name: name}), append(counts, 0)
		}
		counts[len(counts)-1]++
	}
	return number(hosts, counts)
}

// Remote returns the first host of the plan that is not this machine, "" if
// there is none.
func (p Plan) Remote() string {
	last := ""
	for _, r := range p.Ranks {
		if r.Host == last {
			continue
		}
		if last = r.Host; !(Host{Name: r.Host}).Local() {
			return r.Host
		}
	}
	return ""
}

// String is the plan for people: a line a host.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", len(p.Ranks), plural("rank", len(p.Ranks)))
	for i := 0; i < len(p.Ranks); {
		n := p.Ranks[i].LocalSize
		if n == 1 {
			fmt.Fprintf(&b, "  %s: rank %d\n", p.Ranks[i].Host, i)
		} else {
			fmt.Fprintf(&b, "  %s: ranks %d–%d\n", p.Ranks[i].Host, i, i+n-1)
		}
		i += n
	}
	return b.String()
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// JSON is the plan as one object on one line.
func (p Plan) JSON() []byte {
	b, err := json.Marshal(struct {
		Size  int      `json:"world_size"`
		Ranks []Placed `json:"ranks"`
	}{len(p.Ranks), p.Ranks})
	if err != nil {
		panic(err) // numbers and strings alone
	}
	return b
}
