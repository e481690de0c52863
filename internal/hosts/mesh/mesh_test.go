package mesh

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/internal/hosts/agent"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// machine is an agent of a test, with a separate home.
type machine struct {
	*Mesh
	home, folder string
	as           crypto.PrivKey // in place of the key of folder; may be nil
	ended        chan error
	stop         context.CancelFunc

	mu   sync.Mutex
	said string
}

func (m *machine) log(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said += fmt.Sprintf(format, args...) + "\n"
}

func (m *machine) logged() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said
}

// newMachine makes a home with a key.
func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{home: t.TempDir()}
	m.folder = filepath.Join(m.home, ".config", "wdlrun")
	if _, err := agent.Key(m.folder); err != nil {
		t.Fatal(err)
	}
	return m
}

// key returns the peer ID of a machine.
func (m *machine) key(t testing.TB) string {
	t.Helper()
	id, err := agent.ID(m.folder)
	fatal.If(t, err)
	return id.String()
}

// allow adds another machine to the roster, optionally with a name.
func (m *machine) allow(t testing.TB, name string, o *machine) {
	t.Helper()
	if _, err := agent.Allow(m.folder, o.key(t), name); err != nil {
		t.Fatal(err)
	}
}

// serve starts the agent on loopback, or Nowhere.
func (m *machine) serve(t testing.TB, listen string, bootstrap ...string) {
	t.Helper()
	key, err := agent.Key(m.folder)
	if m.as != nil {
		key = m.as
	}
	fatal.If(t, err)
	m.Mesh, err = newWith(Config{Folder: m.folder, Listen: listen, Bootstrap: bootstrap, Home: m.home, Version: "test", Command: []string{"word"}, Log: m.log}, key)
	fatal.If(t, err)
	m.every = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	m.stop, m.ended = cancel, ended
	mesh := m.Mesh
	go func() { ended <- mesh.Serve(ctx); close(ended) }()
	t.Cleanup(func() {
		cancel()
		mesh.Close() // ends the host processes if the test has failed
		select {
		case <-ended:
		case <-time.After(patient.Longest):
			t.Error("the agent does not end")
		}
	})
}

// at returns the address for -bootstrap.
func (m *machine) at(t testing.TB, name string) string { return name + "@" + m.Addrs()[0] }

const loopback = "127.0.0.1:0"

// pair returns two agents that know each other as a and b.
func pair(t testing.TB) (a, b *machine) {
	t.Helper()
	a, b = newMachine(t), newMachine(t)
	a.allow(t, "b", b)
	b.allow(t, "a", a)
	a.serve(t, loopback)
	b.serve(t, loopback, a.at(t, "a"))
	a.meets(t, "b")
	return a, b
}

// meets waits until a machine is connected.
func (m *machine) meets(t testing.TB, name string) agent.Machine {
	t.Helper()
	var found agent.Machine
	eventually(t, "the machine "+name, func() bool {
		found = m.find1(t, name)
		return found.ID != "" && found.Fault == ""
	})
	return found
}

// find1 returns the machine of a name in the list.
func (m *machine) find1(t testing.TB, name string) agent.Machine {
	t.Helper()
	all, err := agent.Machines(m.folder)
	fatal.If(t, err)
	for _, x := range all {
		if x.Name == name && !x.Here {
			return x
		}
	}
	return agent.Machine{}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patient.Longest); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patient.Longest)
		}
	}
}

// program returns a stand-in for wdlrun that runs a script.
func program(t testing.TB, script string) *hosts.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wdlrun")
	fatal.If(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	i, err := hosts.NewImage(path)
	fatal.If(t, err)
	return i
}

// begin starts a stand-in from one machine on another.
func (m *machine) begin(t testing.TB, host string, ship hosts.Ship, script string) (*hosts.Process, error) {
	t.Helper()
	p, err := agent.NewStarter(m.folder, ship, program(t, script), io.Discard).Start(context.Background(), host)
	if err == nil {
		t.Cleanup(func() { p.Close() })
	}
	return p, err
}

// TestStart sends a program and starts it on each machine, twice: the second time it is
// not sent.
func TestStart(t *testing.T) {
	a, b := pair(t)
	a.allow(t, "self", a)
	for _, host := range []string{"@b", "@" + b.key(t), "@self", "@b"} {
		eventually(t, "the new name", func() bool { _, err := a.resolve(host[1:]); return err == nil })
		p, err := a.begin(t, host, hosts.Auto, "echo started with $* in $PWD\nread line\necho $line\n")
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		if n := a.meets(t, "b").Jobs; strings.HasSuffix(host, "b") && n != 1 {
			t.Errorf("%s: %d jobs", host, n)
		}
		fmt.Fprintln(p, "hello")
		home := b.home
		if host == "@self" {
			home = a.home
		}
		if got, err := io.ReadAll(p); err != nil || string(got) != "started with word in "+home+"\nhello\n" {
			t.Errorf("%s: %q, %v", host, got, err)
		}
		if why := p.Why(); why != "wdlrun ended with exit code 0" {
			t.Errorf("%s: %q", host, why)
		}
	}
	for _, m := range []*machine{a, b} {
		if files, err := os.ReadDir(filepath.Join(m.home, ".cache", "wdlrun", "bin")); err != nil || len(files) != 1 || len(files[0].Name()) != 64 {
			t.Errorf("%v, %v", files, err)
		}
	}
}

// TestTwins: two machines with one key, as of a cloned image, are not used and start nothing, until one has
// ended. All three agents name both. Before and after, and if its agent is started again, the machine is used.
func TestTwins(t *testing.T) {
	a, b := pair(t)
	begins := func(from *machine, host string) error {
		p, err := from.begin(t, host, hosts.Auto, "echo here\n")
		if err == nil {
			io.ReadAll(p)
		}
		return err
	}
	b.stop()
	<-b.ended
	b.serve(t, loopback, a.at(t, "a"))
	eventually(t, "a job on b, whose agent was started again", func() bool { return begins(a, "@b") == nil })
	if said := a.logged(); strings.Contains(said, "several machines") {
		t.Errorf("one machine is taken for two: %s", said)
	}

	twin := newMachine(t) // its own key only names the socket of its launchers
	var err error
	twin.as, err = agent.Key(b.folder)
	fatal.If(t, err)
	twin.allow(t, "a", a)
	twin.serve(t, loopback, a.at(t, "a"))
	const want = "several machines have its ID, at "
	eventually(t, "the report", func() bool { return strings.Contains(a.find1(t, "b").Fault, want) })
	if err := begins(a, "@b"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a job on b: %v", err)
	}
	for name, m := range map[string]*machine{"b": b, "its twin": twin} {
		eventually(t, "the report at "+name, func() bool { return strings.Contains(m.logged(), "a reports about this machine: "+want) })
		if err := begins(m, "@a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a job of %s on a: %v", name, err)
		}
	}
	twin.stop()
	<-twin.ended
	eventually(t, "a job on b, which is alone again", func() bool { return begins(a, "@b") == nil })
	eventually(t, "a job of b on a", func() bool { return begins(b, "@a") == nil })
	if said := a.logged(); strings.Count(said, want) != 1 || strings.Count(said, "b: one machine has this ID again") != 1 {
		t.Errorf("a said: %s", said)
	}
}

// TestStartErrors: each impossible start returns the reason and what to do.
func TestStartErrors(t *testing.T) {
	a, b := pair(t)
	c := newMachine(t)
	a.allow(t, "c", c)
	eventually(t, "the new machine", func() bool { return a.find1(t, "c").Fault != "" })
	bin := filepath.Join(b.home, ".cache", "wdlrun", "bin")
	for _, x := range []struct {
		host string
		ship hosts.Ship
		make func()
		want string
	}{
		{"@d", hosts.Auto, nil, "^no machine of this name is on the roster; try: wdlrun agent list$"},
		{"@", hosts.Auto, nil, "^no machine of this name"},
		{"@c", hosts.Auto, nil, "^its agent is not connected: its address is unknown: start its agent in the same local network, or give -bootstrap here$"},
		{"@b", hosts.Auto, func() { os.MkdirAll(filepath.Dir(bin), 0o700); os.WriteFile(bin, nil, 0o600) }, "not a directory"},
	} {
		if x.make != nil {
			x.make()
		}
		if _, err := a.begin(t, x.host, x.ship, "exit\n"); err == nil || !regexp.MustCompile(x.want).MatchString(err.Error()) {
			t.Errorf("%s: %v\nwant %s", x.host, err, x.want)
		}
	}
	os.Remove(bin)
	addr := b.Addrs()[0]
	b.stop()
	<-b.ended
	refused := "its agent is not connected: " + addr + ": connection refused; on that machine, try: wdlrun agent"
	eventually(t, "the loss of b", func() bool {
		_, err := a.begin(t, "@b", hosts.Auto, "exit\n")
		return err != nil && err.Error() == refused
	})
	a.stop()
	<-a.ended
	if _, err := a.begin(t, "@b", hosts.Auto, "exit\n"); err == nil || !strings.Contains(err.Error(), "no agent is running on this machine for the key in "+a.folder) {
		t.Error(err)
	}
	if _, err := newMachine(t).begin(t, "@b", hosts.Auto, "exit\n"); err == nil || !strings.Contains(err.Error(), "no agent is running") {
		t.Error(err)
	}
}

// TestStranger: a peer that is not on the roster is rejected, and reported once.
func TestStranger(t *testing.T) {
	a, b := newMachine(t), newMachine(t)
	b.allow(t, "a", a) // a does not allow b
	a.serve(t, loopback)
	b.serve(t, Nowhere, a.at(t, "a"))
	fault := "its agent closed the connection: this machine may not be on its roster; on that machine, try: wdlrun agent allow " + b.key(t)
	eventually(t, "the rejection", func() bool { return b.find1(t, "a").Fault == fault })
	b.dial(context.Background(), a.ID())
	want := ", peer " + b.key(t) + ": it is not on the roster; to admit it: wdlrun agent allow " + b.key(t) + "\n"
	if got := a.logged(); strings.Count(got, want) != 1 || !strings.HasPrefix(got, "rejected 127.0.0.1:") {
		t.Errorf("%q is not once in %q", want, got)
	}
	if p := a.swarm.Peers(); len(p) != 0 {
		t.Errorf("%v are connected", p)
	}
	if _, err := b.begin(t, "@a", hosts.Auto, "exit\n"); err == nil || !strings.Contains(err.Error(), fault) {
		t.Errorf("a stranger starts a program: %v", err)
	}
	a.allow(t, "b", b) // the running agent admits it now
	eventually(t, "the new roster", func() bool { return a.gate.admits(b.ID()) })
	b.book.with(a.ID(), func(k *known) { k.next = time.Time{} })
	b.meets(t, "a")
	path := filepath.Join(a.folder, agent.RosterFile)
	damaged := path + ".damaged" // renamed: a file being written is empty at first
	fatal.If(t, errors.Join(os.WriteFile(damaged, []byte("b\n"), 0o600), os.Rename(damaged, path)))
	want = "the previous roster stays in use: " + path + `: line 1: "b" is not a peer ID`
	eventually(t, "the report of a damaged roster", func() bool { return strings.Contains(a.logged(), want) })
	if !a.gate.admits(b.ID()) {
		t.Error("a damaged roster is taken")
	}
}

// TestFind: three agents, two of which know only the address of the third, find each
// other, also through a connection that only one side can open.
func TestFind(t *testing.T) {
	all := []*machine{newMachine(t), newMachine(t), newMachine(t)}
	for i, m := range all {
		for j, o := range all {
			if i != j {
				m.allow(t, fmt.Sprint("m", j), o)
			}
		}
	}
	all[0].serve(t, loopback)
	all[1].serve(t, loopback, all[0].at(t, "m0"))
	all[2].serve(t, Nowhere, all[0].at(t, all[0].key(t))) // behind NAT
	all[1].meets(t, "m2")
	p, err := all[1].begin(t, "@m2", hosts.Auto, "cat\n")
	fatal.If(t, err)
	fmt.Fprintln(p, "hello")
	if line, err := bufio.NewReader(p).ReadString('\n'); err != nil || line != "hello\n" {
		t.Error(line, err)
	}
}

// TestRemoved: a machine removed from the roster is disconnected, and the processes that
// it has started end.
func TestRemoved(t *testing.T) {
	a, b := pair(t)
	p, err := a.begin(t, "@b", hosts.Auto, "echo $$\ncat\n")
	fatal.If(t, err)
	pid := pidOf(t, p)
	if _, err := agent.Remove(b.folder, "a"); err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
	if _, err := io.ReadAll(p); err != nil {
		t.Error(err)
	}
	if why := p.Why(); !strings.Contains(why, "the connection to its agent has ended") {
		t.Error(why)
	}
	eventually(t, "the end of the connection", func() bool { return !b.connected(a.ID()) })
}

// pidOf returns the process id that a stand-in prints.
func pidOf(t *testing.T, p *hosts.Process) (pid int) {
	t.Helper()
	if _, err := fmt.Fscan(p, &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// gone waits for the end of a process.
func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "the end of the host process", func() bool { return syscall.Kill(pid, 0) != nil })
}

// TestEnds: a host process ends with its launcher and with either agent, also if its agent
// is asked to end.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, a, b *machine, p *hosts.Process){
		"launcher": func(t *testing.T, _, _ *machine, p *hosts.Process) { p.Kill() },
		"here":     func(t *testing.T, a, _ *machine, _ *hosts.Process) { a.Close() },
		"there":    func(t *testing.T, _, b *machine, _ *hosts.Process) { b.Close() },
		"signal": func(t *testing.T, _, b *machine, p *hosts.Process) {
			b.stop()
			if line, err := bufio.NewReader(p).ReadString('k'); err != nil {
				t.Error(line, err)
			}
			if err := <-b.ended; err != nil {
				t.Error(err)
			}
			if want := "jobs are running (1): their ranks are asked to end"; !strings.Contains(b.logged(), want) {
				t.Errorf("%q is not in %q", want, b.logged())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t)
			p, err := a.begin(t, "@b", hosts.Auto, "trap 'echo ok; exit' TERM\necho $$\nwhile read x; do :; done\n")
			fatal.If(t, err)
			pid := pidOf(t, p)
			end(t, a, b, p)
			gone(t, pid)
		})
	}
}

// TestNames: a machine without a name has its host's name, unless another machine has it
// too.
func TestNames(t *testing.T) {
	a, b, c := newMachine(t), newMachine(t), newMachine(t)
	a.allow(t, "", b)
	a.allow(t, "", c)
	a.serve(t, loopback)
	host, err := os.Hostname()
	fatal.If(t, err)
	if id, err := a.resolve(host); id != a.ID() || err != nil {
		t.Error(id, err)
	}
	for i, m := range []*machine{b, c} {
		id, err := peer.Decode(m.key(t))
		fatal.If(t, err)
		a.book.with(id, func(k *known) { k.host = "far" })
		switch id2, err := a.resolve("far"); {
		case i == 0 && (id2 != id || err != nil):
			t.Error(id2, err)
		case i == 1 && (err == nil || !strings.Contains(err.Error(), "several machines have this name; give them other ones, such as: wdlrun agent allow "+b.key(t)+" -name far-1")):
			t.Error(err)
		}
	}
}

// TestNew: an agent that cannot start returns an error with advice.
func TestNew(t *testing.T) {
	a := newMachine(t)
	a.serve(t, loopback)
	b := newMachine(t)
	for want, cfg := range map[string]Config{
		"is running on this machine; try: wdlrun agent list":             {Folder: a.folder, Listen: loopback},
		"another process listens there; choose another port":             {Folder: b.folder, Listen: a.Addrs()[0]},
		`-listen "7345": give HOST:PORT, such as 10.0.0.1:7345 or :7345`: {Folder: b.folder, Listen: "7345"},
		`-listen ":x": "x" is not the number of a port`:                  {Folder: b.folder, Listen: ":x"},
		`-bootstrap "x@:1": give MACHINE@HOST:PORT`:                      {Folder: b.folder, Listen: loopback, Bootstrap: []string{"x@:1"}},
		`-bootstrap "x": give MACHINE@HOST:PORT`:                         {Folder: b.folder, Listen: loopback, Bootstrap: []string{"x"}},
		"x is not on the roster; try: wdlrun agent allow ID -name NAME":  {Folder: b.folder, Listen: loopback, Bootstrap: []string{"x@localhost:1"}},
	} {
		if m, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			if err == nil {
				m.Close()
			}
		}
	}
}

// TestHandshakes: connections that never finish the handshake do not exclude others, and
// their number is limited.
func TestHandshakes(t *testing.T) {
	a := newMachine(t)
	a.serve(t, loopback)
	for range 2 * maxHandshakes {
		conn, err := net.Dial("tcp", a.Addrs()[0])
		fatal.If(t, err)
		defer conn.Close()
	}
	eventually(t, "all handshakes", func() bool { return a.gate.handshakes.Load() == maxHandshakes })
	time.Sleep(10 * time.Millisecond)
	if n := a.gate.handshakes.Load(); n > maxHandshakes {
		t.Errorf("%d handshakes", n)
	}
}

// TestRequests sends an agent invalid requests: it answers, or ends the stream.
func TestRequests(t *testing.T) {
	a, b := pair(t)
	for sent, want := range map[string]string{
		"\xff\xff\xff\xff":                           "", // longer than allowed
		"\x00\x00\x00\x02{]":                         "",
		message(`{"What":"x"}`):                      "does not know the request",
		message(`{"What":"start","Hash":"../../x"}`): `is not a SHA-256`,
		message(`{"What":"start","Hash":"`+hash+`"}`) + message(`{"Bytes":0}`):                              "a program of 0 bytes, at most 1073741824",
		message(`{"What":"start","Hash":"`+hash+`"}`) + message(`{"Bytes":10000000000}`):                    "a program of 10000000000 bytes",
		message(`{"What":"start","Hash":"`+hash+`"}`) + message(`{"Bytes":12}`) + "is no program":           "gzip: invalid header",
		message(`{"What":"status","Peers":[{"ID":"x"},{"ID":"` + a.key(t) + `","Addrs":["/x","/ip4/1"]}]}`): `"What":"done"`,
	} {
		s, err := b.swarm.NewStream(context.Background(), a.ID())
		fatal.If(t, err)
		s.SetDeadline(time.Now().Add(patient.Longest))
		io.WriteString(s, sent)
		s.CloseWrite()
		got, err := io.ReadAll(s)
		if want == "" && (err == nil || len(got) != 0) || !strings.Contains(string(got), want) {
			t.Errorf("%q: %q, %v; want %q", sent, got, err, want)
		}
	}
	if a.meets(t, "b").Jobs != 0 {
		t.Error("a job runs")
	}
	if left, _ := filepath.Glob(filepath.Join(a.home, ".cache", "wdlrun", "bin", "*")); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

var hash = strings.Repeat("0a", 32)

// message returns a message in wire format.
func message(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// FuzzPeers learns any addresses from another agent.
func FuzzPeers(f *testing.F) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	fatal.If(f, err)
	id, err := peer.IDFromPrivateKey(key)
	fatal.If(f, err)
	f.Add(id.String(), "/ip4/10.0.0.1/tcp/7345")
	f.Add("x", "/dns4/a/tcp/1")
	f.Fuzz(func(t *testing.T, name, addr string) {
		m := &Mesh{id: "own", gate: newGate("own", agent.Roster{{ID: id}}, nil), book: newBook()}
		m.addPeers([]agent.Peer{{ID: name, Addrs: []string{addr, addr}}})
		for p, k := range m.book.of {
			if p != id || len(k.addrs) > 1 {
				t.Errorf("%s has %v", p, k.addrs)
			}
		}
	})
}

// TestBook: the newest addresses of a machine are kept, up to the limit.
func TestBook(t *testing.T) {
	b := newBook()
	for port := range 2 * agent.MaxAddrs {
		b.add("x", []ma.Multiaddr{ma.StringCast(fmt.Sprint("/ip4/10.0.0.1/tcp/", port)), ma.StringCast("/ip4/10.0.0.1/tcp/0"), ma.StringCast("/dns4/a/tcp/1")})
	}
	if got := b.of["x"].addrs; len(got) != agent.MaxAddrs || !strings.HasSuffix(got[0].String(), fmt.Sprint("/", 2*agent.MaxAddrs-1)) {
		t.Error(got)
	}
}

// BenchmarkRoundTrip measures a message of 64 bytes there and back: between two agents,
// and from a launcher through both to a host process.
func BenchmarkRoundTrip(b *testing.B) {
	x, y := pair(b)
	b.Run("agents", func(b *testing.B) {
		y.swarm.SetStreamHandler(func(s network.Stream) { io.Copy(s, s) })
		defer y.swarm.SetStreamHandler(y.answer)
		s, err := x.swarm.NewStream(context.Background(), y.ID())
		fatal.If(b, err)
		defer s.Reset()
		roundTrips(b, s)
	})
	b.Run("host-process", func(b *testing.B) {
		p, err := x.begin(b, "@b", hosts.Auto, "exec cat\n")
		fatal.If(b, err)
		roundTrips(b, p)
	})
}

func roundTrips(b *testing.B, s io.ReadWriter) {
	buf := make([]byte, 64)
	for b.Loop() {
		if _, err := s.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(s, buf); err != nil {
			b.Fatal(err)
		}
	}
}
