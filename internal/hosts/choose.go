package hosts

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Place describes the network of one host.
type Place struct {
	Host      string
	Addresses []Address
	Trials    []Trial // its attempts to reach the others
}

// Choice contains the addresses on which the ranks of each host listen.
type Choice struct {
	Network string   // that all hosts share; "": none
	IPs     []string // by host
}

// Filter selects addresses: the addresses in one of Nets or on one of Interfaces, or all
// addresses if both are empty. Addresses on an interface of Without are excluded.
type Filter struct {
	Nets                []*net.IPNet
	Interfaces, Without []string
}

// ParseFilter reads networks, names of interfaces, and names of interfaces after "^",
// separated by commas. "" allows all.
func ParseFilter(text string) (f Filter, err error) {
	if text == "" {
		return f, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		name, without := strings.CutPrefix(word, "^")
		_, network, err := net.ParseCIDR(word)
		switch {
		case err == nil:
			f.Nets = append(f.Nets, network)
		case net.ParseIP(word) != nil:
			return f, fmt.Errorf("hosts: -net %q: %s is an address; give a network such as %s/24, or the name of an interface", text, word, word)
		case name == "" || len(name) > 15 || strings.ContainsAny(name, "/^ \t"): // the kernel's rule
			return f, fmt.Errorf("hosts: -net %q: %q is neither a network such as 10.0.0.0/8 nor the name of an interface such as eth1 or ^docker0", text, word)
		case without:
			f.Without = append(f.Without, name)
		default:
			f.Interfaces = append(f.Interfaces, name)
		}
	}
	return f, nil
}

// allows reports whether an address may be used.
func (f Filter) allows(a Address) bool {
	if slices.Contains(f.Without, a.Interface) {
		return false
	}
	if len(f.Nets)+len(f.Interfaces) == 0 || slices.Contains(f.Interfaces, a.Interface) {
		return true
	}
	ip := net.ParseIP(a.IP)
	return slices.ContainsFunc(f.Nets, func(n *net.IPNet) bool { return n.Contains(ip) })
}

// maxPeers bounds how many other hosts each host tries: those that follow it in a ring.
const maxPeers = 64

// Targets returns the addresses to which each host tries to connect. ports has the port of the
// Listener of each host.
func Targets(places []Place, ports []int, f Filter) [][]Target {
	all := make([][]Target, len(places))
	for i := range places {
		for k := 1; k <= min(maxPeers, len(places)-1); k++ {
			j := (i + k) % len(places)
			for _, a := range places[j].Addresses {
				if f.allows(a) {
					all[i] = append(all[i], Target{places[j].Host, JoinPort(a.IP, ports[j])})
				}
			}
		}
	}
	return all
}

// way is an address that all hosts that tried it have reached.
type way struct {
	Address
	micros int // of the slowest
}

// Choose returns for each host an address that all others reach. It prefers networks that all
// hosts share, then fast interfaces, then fast attempts, then the order of Addresses. If a host
// has no such address, the error names the hosts that cannot reach it, and the causes.
func Choose(places []Place, f Filter) (Choice, error) {
	ways := make([][]way, len(places))
	var faults []string
	attempts := tries(places)
	for j, p := range places {
		tried := attempts[p.Host]
		for _, a := range p.Addresses {
			if w, ok := reached(a, tried, len(places)-1); ok && f.allows(a) {
				ways[j] = append(ways[j], w)
			}
		}
		if len(ways[j]) == 0 {
			faults = append(faults, unreached(p, tried, f)...)
		}
	}
	if len(faults) > 0 {
		const most = 12
		if more := len(faults) - most; more > 0 {
			faults = append(faults[:most], fmt.Sprintf("and %d more", more))
		}
		return Choice{}, errors.New("no network connects all hosts:\n  " + strings.Join(faults, "\n  ") +
			"\nopen the ports between the hosts, or name a network with -net, such as -net 10.0.0.0/8, -net eth1 or -net ^docker0")
	}
	network := shared(ways)
	c := Choice{Network: network}
	for _, all := range ways {
		best := slices.MinFunc(all, func(a, b way) int { return better(a, b, network) })
		c.IPs = append(c.IPs, best.IP)
	}
	return c, nil
}

// attempt is a Trial and the host that made it.
type attempt struct {
	by string
	Trial
}

// tries returns the attempts to reach each host, by its name.
func tries(places []Place) map[string][]attempt {
	all := map[string][]attempt{}
	for _, p := range places {
		for _, t := range p.Trials {
			all[t.Host] = append(all[t.Host], attempt{p.Host, t})
		}
	}
	return all
}

// reached reports whether all hosts that tried an address have reached it.
func reached(a Address, tried []attempt, others int) (w way, ok bool) {
	w, n := way{Address: a}, 0
	for _, t := range tried {
		if ip, _, _ := net.SplitHostPort(t.Addr); ip != a.IP {
			continue
		}
		if t.Fault != "" {
			return w, false
		}
		w.micros, n = max(w.micros, t.Micros), n+1
	}
	return w, n > 0 || others == 0
}

// better orders the addresses of a host. Loopback addresses come last: they only reach this
// machine.
func better(a, b way, network string) int {
	first := func(x, y bool) int {
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	}
	loop := func(w way) bool { return net.ParseIP(w.IP).IsLoopback() }
	// Smaller differences of single attempts are noise: repeated calls would choose different
	// networks.
	milliseconds := func(w way) int { return w.micros / 1000 }
	return cmp.Or(first(a.Net == network, b.Net == network), first(!loop(a), !loop(b)), cmp.Compare(b.Mbits, a.Mbits), cmp.Compare(milliseconds(a), milliseconds(b)))
}

// shared returns the fastest network that all hosts share, or "". A network is as fast as its
// slowest interface.
func shared(ways [][]way) string {
	var best *way
	for _, w := range ways[0] {
		common := true
		for _, all := range ways[1:] {
			i := slices.IndexFunc(all, func(o way) bool { return o.Net == w.Net })
			if i < 0 {
				common = false
				break
			}
			w.Mbits, w.micros = min(w.Mbits, all[i].Mbits), max(w.micros, all[i].micros)
		}
		if common && (best == nil || better(w, *best, "") < 0) {
			best = &w
		}
	}
	if best == nil {
		return ""
	}
	return best.Net
}

// unreached explains why a host cannot be reached, one line for each cause.
func unreached(p Place, tried []attempt, f Filter) (lines []string) {
	allowed := slices.ContainsFunc(p.Addresses, f.allows)
	switch {
	case len(p.Addresses) == 0:
		return []string{fmt.Sprintf("host %s has no address that other hosts can reach", p.Host)}
	case !allowed:
		var all []string
		for _, a := range p.Addresses {
			all = append(all, fmt.Sprintf("%s (%s)", a.IP, a.Interface))
		}
		return []string{fmt.Sprintf("host %s has no address that -net allows, but %s", p.Host, strings.Join(all, ", "))}
	}
	by := map[string][]string{} // hosts by outcome
	var order []string
	for _, t := range tried {
		if t.Fault == "" {
			continue
		}
		ip, _, _ := net.SplitHostPort(t.Addr)
		what := fmt.Sprintf("host %s at %s: %s", p.Host, ip, t.Fault)
		if by[what] == nil {
			order = append(order, what)
		}
		by[what] = append(by[what], t.by)
	}
	for _, what := range order {
		who := by[what]
		if len(who) > 4 {
			who = append(who[:4], "…")
		}
		lines = append(lines, fmt.Sprintf("from %s to %s", strings.Join(who, ", "), what))
	}
	return lines
}

// String describes the choice.
func (c Choice) String() string {
	if c.Network == "" {
		return "several networks"
	}
	return c.Network
}
