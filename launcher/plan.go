package launcher

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/rank"
)

// Placed is the host and the CPUs of one rank.
type Placed struct {
	Rank      int    `json:"rank"`
	Host      string `json:"host"`
	LocalRank int    `json:"local_rank"`
	LocalSize int    `json:"local_size"`
	CPUs      string `json:"cpus,omitempty"` // such as "0-3,8"; see Plan.Here
}

// Plan assigns ranks to hosts, with the resources of each rank.
type Plan struct {
	Ranks []Placed `json:"ranks"`
	Each  Each     `json:"-"`
}

// Each holds the settings that apply to every rank of a plan. The zero value sets nothing.
type Each struct {
	Bind   string // share of its host to which a rank is bound: none, core or numa; "": none
	Spread bool   // ranks with consecutive numbers are on different NUMA nodes
	Memory int64  // bytes that must be available per rank before any rank starts; 0: not checked
}

// wire returns e in the form for host processes.
func (e Each) wire() hosts.Each {
	return hosts.Each{Bind: cpus.Binding{To: e.Bind, Spread: e.Spread}, Memory: e.Memory}
}

// Mapping is the order in which the ranks of a job take slots. The zero value is BySlot.
type Mapping string

// In both mappings the ranks of a host have consecutive numbers.
const (
	BySlot Mapping = "slot" // all slots of a host before the slots of the next
	ByNode Mapping = "node" // equal numbers on all hosts, as far as slots allow
)

// Place puts np ranks on hosts, in order. np 0 means all slots, or one rank if there are no
// hosts. More ranks than slots are rejected unless oversubscribe is set. The additional
// ranks are then spread evenly over the hosts, up to the Max of each. Without hosts all
// ranks are local and their number is not limited.
func Place(np int, hosts []Host, oversubscribe bool, by Mapping) (Plan, error) {
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
		return Plan{}, fmt.Errorf("launcher: place: -np %d needs as many slots, and the hosts have %s: give them more slots, or allow more ranks than slots with -oversubscribe", np, plural.Of(slots, "slot"))
	}
	counts := make([]int, len(hosts))
	left := np
	if by == ByNode {
		left = deal(left, hosts, counts, func(h Host) int { return h.Slots })
	}
	for i, h := range hosts {
		more := min(left, h.Slots-counts[i])
		counts[i] += more
		left -= more
	}
	if left = deal(left, hosts, counts, func(h Host) int { return cmp.Or(h.Max, math.MaxInt) }); left > 0 {
		return Plan{}, fmt.Errorf("launcher: place: -np %d is more than max_slots of all hosts allow: %d", np, np-left)
	}
	return number(hosts, counts), nil
}

// deal adds one rank to each host in turn, up to its limit, and returns the number left.
func deal(left int, hosts []Host, counts []int, limit func(Host) int) int {
	for before := -1; left > 0 && left != before; {
		before = left
		for i, h := range hosts {
			if left > 0 && counts[i] < limit(h) {
				counts[i]++
				left--
			}
		}
	}
	return left
}

// oneSelf merges the names under which this machine is listed, so that its ranks know that
// they share it. It also limits slots to Max.
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

// number assigns rank numbers to hosts in order.
func number(hosts []Host, counts []int) Plan {
	var p Plan
	for i, h := range hosts {
		for local := range counts[i] {
			p.Ranks = append(p.Ranks, Placed{Rank: len(p.Ranks), Host: h.Name, LocalRank: local, LocalSize: counts[i]})
		}
	}
	return p
}

// Only returns the plan with the given ranks, in ascending order. Each stays on its
// host; ranks are numbered from 0.
func (p Plan) Only(ranks []int) Plan {
	var hosts []Host
	var counts []int
	for _, r := range ranks {
		if name := p.Ranks[r].Host; len(hosts) == 0 || hosts[len(hosts)-1].Name != name {
			hosts, counts = append(hosts, Host{Name: name}), append(counts, 0)
		}
		counts[len(counts)-1]++
	}
	only := number(hosts, counts)
	only.Each = p.Each
	return only
}

// Here returns the plan with the CPUs of the ranks on this machine, if they are bound. Other
// hosts choose CPUs themselves.
func (p Plan) Here() (Plan, error) {
	p.Ranks = slices.Clone(p.Ranks)
	for i := 0; i < len(p.Ranks); i += p.Ranks[i].LocalSize {
		if !(Host{Name: p.Ranks[i].Host}).Local() {
			continue
		}
		shares, err := shares(p.Each.wire().Bind, p.Ranks[i].LocalSize)
		if err != nil {
			return p, err
		}
		for k, own := range shares {
			p.Ranks[i+k].CPUs = cpus.List(own)
		}
	}
	return p, nil
}

// shares returns the CPUs of each rank of this machine, or nil if they are not bound.
func shares(bind cpus.Binding, ranks int) ([][]int, error) {
	if bind.To == "" || bind.To == cpus.None {
		return nil, nil
	}
	all, err := cpus.Here()
	if err != nil {
		return nil, fmt.Errorf("launcher: place: %w", err)
	}
	return cpus.Share(all, bind, ranks), nil
}

// Remote returns the first host of the plan that is not this machine, or "".
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

// String returns one line for each host, and one for each rank whose CPUs are known.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", plural.Of(len(p.Ranks), "rank"))
	for i := 0; i < len(p.Ranks); {
		n := p.Ranks[i].LocalSize
		if n == 1 {
			fmt.Fprintf(&b, "  %s: rank %d\n", p.Ranks[i].Host, i)
		} else {
			fmt.Fprintf(&b, "  %s: ranks %d–%d\n", p.Ranks[i].Host, i, i+n-1)
		}
		for _, r := range p.Ranks[i : i+n] {
			if r.CPUs != "" {
				fmt.Fprintf(&b, "    rank %d: CPUs %s\n", r.Rank, r.CPUs)
			}
		}
		i += n
	}
	return b.String()
}

// JSON returns the plan as one JSON object on one line.
func (p Plan) JSON() []byte {
	b, err := json.Marshal(struct {
		Size  int      `json:"world_size"`
		Ranks []Placed `json:"ranks"`
	}{len(p.Ranks), p.Ranks})
	if err != nil {
		panic(err) // the struct contains only numbers and strings
	}
	return b
}
