package hosts

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/ports"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/rank"
)

// places returns the places of hosts after their attempts. addresses are, by host, of the form
// "IP/bits interface Mbit/s µs"; an attempt takes 100 µs longer. reach returns the fault of an
// attempt, "" for none.
func places(addresses map[string][]string, order string, reach func(from, to, ip string) string) []Place {
	var all []Place
	var ports []int
	micros := map[string]int{}
	for host := range strings.FieldsSeq(order) {
		p := Place{Host: host}
		for _, a := range addresses[host] {
			var ip, name string
			var mbits, took int
			fmt.Sscan(a, &ip, &name, &mbits, &took)
			at, network, err := net.ParseCIDR(ip)
			if err != nil {
				panic(err)
			}
			micros[at.String()] = took
			p.Addresses = append(p.Addresses, Address{IP: at.String(), Net: network.String(), Interface: name, Mbits: mbits})
		}
		all, ports = append(all, p), append(ports, 4000)
	}
	for i, targets := range Targets(all, ports, Filter{}) {
		for _, t := range targets {
			ip, _, _ := net.SplitHostPort(t.Addr)
			fault := reach(all[i].Host, t.Host, ip)
			trial := Trial{Target: t, Fault: fault}
			if fault == "" {
				trial.Micros = 100 + micros[ip]
			}
			all[i].Trials = append(all[i].Trials, trial)
		}
	}
	return all
}

func TestChoose(t *testing.T) {
	docker := "172.17.0.1/16 docker0 10000"
	three := map[string][]string{
		"a": {docker, "192.168.1.1/24 eth0 1000", "10.0.0.1/8 ib0 40000", "127.0.0.1/8 lo"},
		"b": {"192.168.1.2/24 eth0 1000", docker, "10.0.0.2/8 ib0 40000", "127.0.0.1/8 lo"},
		"c": {docker, "192.168.1.3/24 eth0 1000", "10.0.0.3/8 ib0 40000", "127.0.0.1/8 lo"},
	}
	usual := func(_, _, ip string) string {
		if strings.HasPrefix(ip, "172.17.") || strings.HasPrefix(ip, "127.") {
			return "leads to another process"
		}
		return ""
	}
	without := func(text string) func(from, to, ip string) string {
		return func(from, to, ip string) string {
			if f := usual(from, to, ip); f != "" {
				return f
			}
			if strings.Contains(" "+text+" ", " "+from+">"+ip+" ") {
				return "no answer"
			}
			return ""
		}
	}
	routed := map[string][]string{"a": {"10.1.0.1/16 eth0 1000"}, "b": {"10.2.0.1/16 eth0 100", "10.3.0.1/16 eth1 1000"}}
	two := func(micros string) map[string][]string {
		return map[string][]string{"a": {"10.1.0.1/16 eth0 1000 " + micros, "10.2.0.1/16 eth1 1000 30"}, "b": {"10.1.0.2/16 eth0 1000 10", "10.2.0.2/16 eth1 1000 20"}}
	}
	for _, x := range []struct {
		name    string
		places  []Place
		net     string
		network string
		ips     string // or the error
	}{
		{"the fastest", places(three, "a b c", usual), "", "10.0.0.0/8", "10.0.0.1 10.0.0.2 10.0.0.3"},
		{"a link is cut", places(three, "a b c", without("a>10.0.0.3")), "", "192.168.1.0/24", "192.168.1.1 192.168.1.2 192.168.1.3"},
		{"by network", places(three, "a b c", usual), "192.168.0.0/16", "192.168.1.0/24", "192.168.1.1 192.168.1.2 192.168.1.3"},
		{"by interface", places(three, "a b c", usual), "eth0", "192.168.1.0/24", "192.168.1.1 192.168.1.2 192.168.1.3"},
		{"without one", places(three, "a b c", usual), "^ib0,^docker0", "192.168.1.0/24", "192.168.1.1 192.168.1.2 192.168.1.3"},
		{"the first of two alike", places(two("800"), "a b", usual), "", "10.1.0.0/16", "10.1.0.1 10.1.0.2"},
		{"the nearer of two", places(two("2000"), "a b", usual), "", "10.2.0.0/16", "10.2.0.1 10.2.0.2"},
		{"routed", places(routed, "a b", usual), "", "", "10.1.0.1 10.3.0.1"},
		{"one machine", places(map[string][]string{"a": {"127.0.0.1/8 lo"}, "b": {"127.0.0.1/8 lo"}}, "a b", func(_, _, _ string) string { return "" }), "", "127.0.0.0/8", "127.0.0.1 127.0.0.1"},
		{"the same address", places(map[string][]string{"a": {docker}, "b": {docker}}, "a b", usual), "", "",
			"from b to host a at 172.17.0.1: leads to another process\n  from a to host b at 172.17.0.1: leads to another process"},
		{"one way", places(routed, "a b", without("b>10.1.0.1")), "", "", "from b to host a at 10.1.0.1: no answer\nopen the ports"},
		{"nothing allowed", places(routed, "a b", usual), "wlan0", "", "host a has no address that -net allows, but 10.1.0.1 (eth0)"},
		{"no address", places(map[string][]string{"a": nil, "b": {docker}}, "a b", usual), "", "", "host a has no address that other hosts can reach"},
	} {
		f, err := ParseFilter(x.net)
		fatal.If(t, err)
		c, err := Choose(x.places, f)
		if err != nil {
			if !strings.Contains(err.Error(), x.ips) {
				t.Errorf("%s: got  %v\nwant %s", x.name, err, x.ips)
			}
			continue
		}
		if c.Network != x.network || strings.Join(c.IPs, " ") != x.ips {
			t.Errorf("%s: %s: %s, want %s: %s", x.name, c.Network, c.IPs, x.network, x.ips)
		}
	}
}

// TestManyHosts: each host tries those that follow it, so that the attempts grow with the
// number of hosts alone.
func TestManyHosts(t *testing.T) {
	addresses, names := map[string][]string{}, ""
	for i := range 200 {
		name := fmt.Sprintf("h%d", i)
		addresses[name], names = []string{fmt.Sprintf("10.0.0.%d/8 eth0", i+1)}, names+" "+name
	}
	all := places(addresses, names, func(_, _, _ string) string { return "" })
	if n := len(all[0].Trials); n != maxPeers {
		t.Errorf("%d attempts by one host", n)
	}
	if c, err := Choose(all, Filter{}); err != nil || len(c.IPs) != 200 || c.IPs[199] != "10.0.0.200" {
		t.Error(c, err)
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{"", "10.0.0.0/8", "eth1,^docker0", "^", "10.0.0.1", "a/b", "::/0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := ParseFilter(s)
		if err == nil && s != "" && len(x.Nets)+len(x.Interfaces)+len(x.Without) == 0 {
			t.Errorf("the filter parsed from %q has no effect", s)
		}
		x.allows(Address{IP: "10.0.0.1", Interface: "eth0"})
	})
}

// TestTry reaches a host, and no process that is another host, holds another key, or does
// not listen.
func TestTry(t *testing.T) {
	key := rank.NewKey()
	open := func(host string, k rank.Key) string {
		l, err := Listen(host, k, ports.Range{})
		fatal.If(t, err)
		t.Cleanup(func() { l.Close() })
		return JoinPort("127.0.0.1", l.Port)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer plain.Close()
	go func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("220 mail\r\n"))
			conn.Close()
		}
	}()
	trials, err := Try(context.Background(), []Target{
		{"b", open("b", key)}, {"c", open("b", key)}, {"b", open("b", rank.NewKey())}, {"b", "127.0.0.1:1"}, {"b", plain.Addr().String()},
	}, key)
	fatal.If(t, err)
	for i, want := range []string{"", "leads to another process", "leads to another process", "refused", "leads to another process"} {
		if trials[i].Fault != want || (want == "") != (trials[i].Micros > 0) {
			t.Errorf("%d: %+v, want %q", i, trials[i], want)
		}
	}
	// A host that proves the key and is then too slow is not another process.
	secure, err := key.TLS()
	fatal.If(t, err)
	slow, err := tls.Listen("tcp", "127.0.0.1:0", secure)
	fatal.If(t, err)
	defer slow.Close()
	go func() {
		conn, err := slow.Accept()
		if err != nil {
			return
		}
		conn.(*tls.Conn).Handshake()
		conn.Read(make([]byte, 1)) // until the other side closes the connection
		conn.Close()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if trials, err := Try(ctx, []Target{{"b", slow.Addr().String()}}, key); err != nil || trials[0].Fault != "no answer" {
		t.Errorf("a slow host: %+v, %v", trials, err)
	}
	if all, err := Addresses(); err != nil || len(all) == 0 {
		t.Errorf("addresses %v, %v", all, err)
	}
}
