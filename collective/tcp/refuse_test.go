package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// stranger is one way to disturb a group that is forming. It connects to rank 0 and returns what
// it read.
type stranger struct {
	name    string
	send    func(h hello) []byte // returns the bytes to send, given the hello of the real rank 1
	refused string               // the report of rank 0
	reply   status               // the expected reply, if any
}

func strangers() []stranger {
	plain := func(change func(*hello)) func(hello) []byte {
		return func(h hello) []byte {
			change(&h)
			return h.append(nil)
		}
	}
	return []stranger{
		{"silent", func(hello) []byte { return nil }, "had not proved the job key", statusOK},
		{"web browser", func(hello) []byte { return []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }, `it began with "GET / HT": it is not a rank of a job`, statusOK},
		{"half a hello", func(h hello) []byte { return h.append(nil)[:40] }, "it had not proved the job key", statusOK},
		{"hello and silence", plain(func(*hello) {}), "had not proved the job key", statusOK},
		{"other version", func(h hello) []byte {
			b := h.append(nil)
			binary.LittleEndian.PutUint16(b[4:], 9)
			return b
		}, "it speaks version 9 of the protocol, this rank version 3", statusVersion},
		{"other generation", plain(func(h *hello) { h.generation = 2 }), "it is of generation 2, this rank of 3", statusGeneration},
		{"other world", plain(func(h *hello) { h.size = 8 }), "it has 8 ranks and 2 channels, this rank 3 and 2", statusWorld},
		{"other streams", plain(func(h *hello) { h.streams = 2 }), "it has 2 streams a channel, this rank 1", statusWorld},
		{"other channels", plain(func(h *hello) { h.channels = 1 }), "it has 3 ranks and 1 channels, this rank 3 and 2", statusWorld},
		{"no such channel", plain(func(h *hello) { h.link = 2 }), "it asks for link 2 of 2 channels with 1 streams", statusWorld},
		{"no such rank", plain(func(h *hello) { h.from = 3 }), "it claims to be rank 3 dialing rank 0, this is rank 0 of 3", statusRank},
		{"own rank", plain(func(h *hello) { h.from = 0 }), "it claims to be rank 0", statusRank},
		{"misdialed", plain(func(h *hello) { h.to = 1 }), "it claims to be rank 1 dialing rank 1", statusRank},
		{"bytes that must be zero", func(h hello) []byte {
			b := h.append(nil)
			b[22] = 2
			return b
		}, "must be zero", statusOK},
		{"wrong proof", func(h hello) []byte { return append(h.append(nil), make([]byte, proofSize)...) }, "it claims to be rank 1 but has another job key", statusKey},
	}
}

// TestStrangersAreRefusedAndTheJobGoesOn: rank 0 reports each stranger with the reason and
// closes its connection, and the group forms.
func TestStrangersAreRefusedAndTheJobGoesOn(t *testing.T) {
	const size = 3
	var mu sync.Mutex
	var refused []string
	lns, peers := listen(t, size)
	want := hello{size: size, channels: 2, streams: 1, generation: 3, link: 0, from: 1, to: 0, nonce: newNonce()}
	conns := make([]net.Conn, len(strangers()))
	for i, s := range strangers() { // the strangers are first in the queue
		conn, err := net.Dial("tcp", peers[0])
		fatal.If(t, err)
		defer conn.Close()
		if _, err := conn.Write(s.send(want)); err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	ts := make([]*Transport, size)
	var wg sync.WaitGroup
	for i := range size {
		cfg := Config{Rank: i, Peers: peers, Key: testKey, Generation: 3, Timeout: patient.Longest, Refused: func(err error) {
			mu.Lock()
			refused = append(refused, err.Error())
			mu.Unlock()
		}}
		wg.Go(func() {
			if i > 0 { // lets rank 0 accept the strangers first
				for {
					mu.Lock()
					n := len(refused)
					mu.Unlock()
					if n >= len(conns)-3 { // the three silent ones remain until the end
						break
					}
					time.Sleep(time.Millisecond)
				}
			}
			var err error
			if ts[i], err = lns[i].Connect(context.Background(), cfg); err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	defer closeAll(ts)
	if t.Failed() {
		return
	}
	for i, s := range strangers() {
		checkRefusal(t, s, conns[i], refused)
	}
	if len(refused) != len(conns) {
		t.Errorf("%d connections refused, want %d:\n%s", len(refused), len(conns), strings.Join(refused, "\n"))
	}
	works(t, ts)
}

// checkRefusal checks the report of rank 0 about a stranger and the bytes sent to the stranger.
func checkRefusal(t *testing.T, s stranger, conn net.Conn, refused []string) {
	t.Helper()
	addr, found := conn.LocalAddr().String(), ""
	for _, line := range refused {
		if strings.Contains(line, addr) {
			found = line
		}
	}
	late := strings.HasSuffix(s.refused, "had not proved the job key") && strings.Contains(found, "i/o timeout") // on a busy machine
	if !strings.HasPrefix(found, "tcp: accept: rank 0: connection from "+addr+" rejected: ") || !strings.Contains(found, s.refused) && !late {
		t.Errorf("%s: rank 0 reports %q, want %q", s.name, found, s.refused)
	}
	conn.SetReadDeadline(time.Now().Add(patient.Longest))
	told, _ := io.ReadAll(conn)
	if s.reply == statusOK {
		return
	}
	if len(told) < verdictSize || !bytes.Equal(told[len(told)-verdictSize:], appendOpening(nil, uint16(s.reply))) {
		t.Errorf("%s: the stranger received %x, want status %d", s.name, told, s.reply)
	}
}

// works checks that a group computes.
func works(t *testing.T, ts []*Transport) {
	t.Helper()
	errs := make(chan error)
	for _, tr := range ts {
		go func() {
			x := []int64{1, 2}
			err := collective.AllReduce(collective.New(tr), x, collective.Sum)
			if err == nil && x[1] != int64(2*len(ts)) {
				err = fmt.Errorf("sum is %d", x[1])
			}
			errs <- err
		}()
	}
	for range ts {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestFloodOfStrangers occupies every place for unauthenticated connections.
func TestFloodOfStrangers(t *testing.T) {
	lns, peers := listen(t, 2)
	var conns []net.Conn
	for range 3 * unprovenMax {
		if conn, err := net.DialTimeout("tcp", peers[0], patient.Longest); err == nil {
			conns = append(conns, conn)
		}
	}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	refused := 0
	ts := make([]*Transport, 2)
	var wg sync.WaitGroup
	for i := range 2 {
		cfg := Config{Rank: i, Peers: peers, Key: testKey, Timeout: patient.Longest}
		if i == 0 {
			cfg.Refused = func(error) { refused++ }
		}
		wg.Go(func() {
			var err error
			if ts[i], err = lns[i].Connect(context.Background(), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	defer closeAll(ts)
	if refused < len(conns)-5 {
		t.Errorf("%d of %d strangers refused", refused, len(conns))
	}
	if !t.Failed() {
		works(t, ts)
	}
}

// TestMisfits: rank 1 is configured differently from rank 0. Rank 1 must receive the reason, and
// rank 0 must continue to wait.
func TestMisfits(t *testing.T) {
	for _, k := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"key", func(c *Config) { c.Key = bytes.Repeat([]byte{8}, keySize) }, "has not proved the job key"},
		{"generation", func(c *Config) { c.Generation = 4 }, "another generation"},
		{"channels", func(c *Config) { c.Channels = 3 }, "number of channels"},
	} {
		t.Run(k.name, func(t *testing.T) {
			lns, peers := listen(t, 2)
			right := Config{Rank: 0, Peers: peers, Key: testKey, Generation: 3}
			wrong := right
			wrong.Rank = 1
			k.change(&wrong)
			ctx, cancel := context.WithCancelCause(context.Background())
			waiting := make(chan error)
			go func() {
				_, err := lns[0].Connect(ctx, right)
				waiting <- err
			}()
			_, err := lns[1].Connect(context.Background(), wrong)
			if err == nil || !strings.Contains(err.Error(), k.want) || !strings.HasPrefix(err.Error(), "tcp: connect: rank 1 of 2: rank 0 at 127.0.0.1:") {
				t.Errorf("rank 1: %v, want %q", err, k.want)
			}
			cancel(errors.New("the test is over"))
			if err := <-waiting; err == nil || !strings.Contains(err.Error(), "the test is over") {
				t.Errorf("rank 0: %v", err)
			}
		})
	}
}

// handDeadline is a context whose deadline is triggered by the test.
type handDeadline struct {
	context.Context
	done chan struct{}
}

func (h handDeadline) Done() <-chan struct{} { return h.done }

func (h handDeadline) Err() error {
	select {
	case <-h.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestAMissingRankIsBlamed does not start rank 1 of 3. The error must blame rank 1.
func TestAMissingRankIsBlamed(t *testing.T) {
	lns, peers := listen(t, 3)
	lns[1].Close()
	ctx := handDeadline{context.Background(), make(chan struct{})}
	var fs []*forming
	errs := make(chan error)
	for _, i := range []int{0, 2} {
		f := newForming(Config{Rank: i, Peers: peers, Key: testKey, Timeout: time.Minute}.withDefaults())
		fs = append(fs, f)
		go func() {
			err := f.gather(ctx, lns[i])
			f.abandon(err)
			errs <- err
		}()
	}
	for _, f := range fs {
		for f.taken() < 3 || f.cfg.Rank == 2 && !f.tried() {
			time.Sleep(time.Millisecond)
		}
	}
	close(ctx.done)
	for range fs {
		err := <-errs
		var lost *collective.LostError
		if !errors.As(err, &lost) || lost.Rank != 1 || !strings.Contains(err.Error(), "no link from rank 1 within 1m0s: did it start") {
			t.Errorf("%v, want an error that blames rank 1", err)
		}
		if lost != nil && lost.By == 2 && !strings.Contains(err.Error(), "last attempt: rank 1 at "+peers[1]) {
			t.Errorf("%v: the reason why rank 1 could not be dialed is missing", err)
		}
	}
}

// taken returns the number of links.
func (f *forming) taken() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.links)
}

// tried reports whether an attempt to dial has failed.
func (f *forming) tried() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last != nil
}

// TestAConnectedRankLearnsWhyAnotherGaveUp: rank 2 has all its links, but rank 1 has no link to
// rank 3. The connected ranks must also blame rank 3.
func TestAConnectedRankLearnsWhyAnotherGaveUp(t *testing.T) {
	f := newForming(Config{Rank: 1, Peers: make([]string, 2), Channels: 1, Streams: 1, Timeout: time.Second, Key: testKey})
	ts := group(t, 2)
	defer closeAll(ts)
	f.links = map[linkID]net.Conn{{0, linkControl}: ts[1].peers[0].control.conn}
	f.abandon(&collective.LostError{Rank: 3, By: 1, Cause: errors.New("no link")})
	err := collective.Barrier(collective.New(ts[0]))
	for err == nil {
		err = collective.Barrier(collective.New(ts[0]))
	}
	if rank, ok := collective.Blamed(err); !ok || rank != 3 {
		t.Errorf("rank 0: %v, want an error that blames rank 3", err)
	}
}

// TestConnectEndsWithItsContext: Connect returns when its context is cancelled.
func TestConnectEndsWithItsContext(t *testing.T) {
	lns, peers := listen(t, 3)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the launcher said so"))
	_, err := lns[1].Connect(ctx, Config{Rank: 1, Peers: peers, Key: testKey})
	if err == nil || !strings.Contains(err.Error(), "the launcher said so") {
		t.Errorf("%v", err)
	}
}

// TestDialingAStranger: another server listens at the address of rank 0. The error must report
// it.
func TestDialingAStranger(t *testing.T) {
	fake, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer fake.Close()
	go func() {
		for {
			conn, err := fake.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("220 mail.example ESMTP\r\n"))
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	ln, err := Listen("127.0.0.1")
	fatal.If(t, err)
	_, err = ln.Connect(context.Background(), Config{Rank: 1, Peers: []string{fake.Addr().String(), ln.Addr()}, Key: testKey})
	if err == nil || !strings.Contains(err.Error(), `it began with "220 mail": it is not a rank of a job`) {
		t.Errorf("%v", err)
	}
}

// TestConfigFaultsAreListed: all faults of a configuration are reported at once. Listen rejects
// addresses that are not the address of one interface.
func TestConfigFaultsAreListed(t *testing.T) {
	err := Config{Rank: 2, Peers: []string{"nowhere", "127.0.0.1:1"}, Generation: -1, Channels: -1, Timeout: -1}.validate()
	for _, want := range []string{"rank 2 of 2", "address of rank 0", "job key of 0 bytes", "generation -1", "-1 channels", "timeout -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not contain %q", err, want)
		}
	}
	for _, ip := range []string{"", "0.0.0.0", "::", "localhost", "192.0.2.1"} {
		if ln, err := Listen(ip); err == nil {
			ln.Close()
			t.Errorf("Listen(%q) succeeded, want an error", ip)
		}
	}
}

// TestProofsAreBound changes each value that a proof covers. The proof must change.
func TestProofsAreBound(t *testing.T) {
	h := hello{link: 1, from: 2, to: 1, size: 3, channels: 2, streams: 1, generation: 5, nonce: newNonce()}
	nonce := newNonce()
	proof := prove(testKey, roleDials, h, nonce)
	if !sameProof(proof, prove(testKey, roleDials, h, nonce)) {
		t.Fatal("two proofs of the same values differ")
	}
	otherKey := append(bytes.Clone(testKey[1:]), 1)
	other := map[string][proofSize]byte{
		"role": prove(testKey, roleAccepts, h, nonce),
		"key":  prove(otherKey, roleDials, h, nonce),
	}
	for name, change := range map[string]func(*hello){
		"link": func(h *hello) { h.link = 0 }, "from": func(h *hello) { h.from = 3 }, "to": func(h *hello) { h.to = 0 },
		"size": func(h *hello) { h.size = 4 }, "channels": func(h *hello) { h.channels = 3 }, "streams": func(h *hello) { h.streams = 2 },
		"generation": func(h *hello) { h.generation = 6 }, "nonce": func(h *hello) { h.nonce[31]++ },
	} {
		g := h
		change(&g)
		other[name] = prove(testKey, roleDials, g, nonce)
	}
	nonce[0]++
	other["answer's nonce"] = prove(testKey, roleDials, h, nonce)
	for name, p := range other {
		if sameProof(p, proof) {
			t.Errorf("the proof does not cover the %s", name)
		}
	}
}
