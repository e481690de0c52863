package tcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// childEnv is a variable that makes the test binary a rank: "rank size streams timeout phase".
const childEnv = "TCP_TEST_RANK"

// Phases in which a child remains until it is killed.
const (
	listening  = "listening"  // does not connect
	connected  = "connected"  // makes no call
	computing  = "computing"  // makes calls without end
	inExchange = "exchanging" // makes a call that no other rank makes
)

func TestMain(m *testing.M) {
	if who := os.Getenv(childEnv); who != "" {
		if err := child(who); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(patient.Settled(m))
}

// child is a rank in a process of its own. It writes its address, reads the addresses of all
// ranks, computes until an error occurs, and writes the rank that it blames.
func child(who string) error {
	var rank, size, streams int
	var phase string
	var timeout time.Duration
	if _, err := fmt.Sscan(who, &rank, &size, &streams, &timeout, &phase); err != nil {
		return err
	}
	ln, err := Listen("127.0.0.1")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	var tr *Transport
	if phase != listening {
		tr, err = ln.Connect(context.Background(), Config{Rank: rank, Peers: strings.Fields(line), Key: testKey, Streams: streams, Timeout: timeout})
	}
	switch {
	case phase == listening || phase == connected && err == nil:
		fmt.Println(phase)
		time.Sleep(time.Hour)
	case phase == inExchange && err == nil:
		fmt.Println(phase)
		next := (rank + 1) % size // the next rank computes and does not receive the message
		err = tr.Exchange(collective.Tag{Channel: 1, Call: collective.CallBarrier, Seq: 1}, next, make([]byte, 64<<20), next, make([]byte, 1))
	}
	if err == nil {
		err = compute(collective.New(tr))
	}
	blamed, ok := collective.Blamed(err)
	fmt.Println(blamed, ok, err)
	return nil
}

// compute makes calls until one fails. Their data is divided over two streams.
func compute(c *collective.Comm) error {
	x := make([]float32, 1<<20)
	for i := 0; ; i++ {
		if i == 3 {
			fmt.Println(computing)
		}
		if err := collective.AllReduce(c, x, collective.Sum); err != nil {
			return err
		}
	}
}

// process is a child process as seen by its parent.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(t *testing.T, rank, size, streams int, timeout time.Duration, phase string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d %d %s", childEnv, rank, size, streams, timeout, phase))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	fatal.If(t, errors.Join(err1, err2, cmd.Start()))
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &process{cmd, in, bufio.NewReader(out)}
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("child: %v after %q", err, s)
	}
	return strings.TrimSpace(s)
}

// TestKilledProcess kills each of three processes with SIGKILL in each phase, while the others
// compute or are about to. They must blame the killed rank.
func TestKilledProcess(t *testing.T) {
	every := patient.Size(2, 1)
	for i, phase := range []string{listening, connected, inExchange, computing} {
		for streams := 1; streams <= 2; streams++ {
			if phase == listening && streams > 1 { // there are no streams yet
				continue
			}
			for victim := range 3 {
				if phase != listening && (i+streams+victim)%every != 0 {
					continue // covers each victim and each number of streams in each phase
				}
				t.Run(fmt.Sprintf("%s/streams=%d/rank=%d", phase, streams, victim), func(t *testing.T) {
					t.Parallel()
					if phase == listening { // the others wait for the victim
						patient.Try(t, time.Second, func(timeout time.Duration) error { return killed(t, phase, streams, victim, timeout) })
					} else if err := killed(t, phase, streams, victim, patient.Longest); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

func killed(t *testing.T, phase string, streams, victim int, timeout time.Duration) (err error) {
	var ps []*process
	var addrs []string
	for r := range 3 {
		of := computing
		if r == victim {
			of = phase
		}
		ps = append(ps, startChild(t, r, 3, streams, timeout, of))
		addrs = append(addrs, ps[r].line(t))
	}
	for _, p := range ps {
		fmt.Fprintln(p.in, strings.Join(addrs, " "))
	}
	for r, p := range ps {
		if r == victim || phase == computing {
			if s := p.line(t); s != phase {
				t.Fatalf("child prints %q", s)
			}
		}
	}
	ps[victim].cmd.Process.Kill()
	for r, p := range ps {
		if r == victim {
			continue
		}
		s := p.line(t)
		if s == computing {
			s = p.line(t)
		}
		if !strings.HasPrefix(s, strconv.Itoa(victim)+" true") {
			err = errors.Join(err, fmt.Errorf("rank %d reports %q, want an error that blames rank %d", r, s, victim))
		}
	}
	return err
}

// kill closes the connections of a transport as the system does for a dead process.
func kill(tr *Transport) {
	tr.closed.Store(true) // the transport sends nothing more
	tr.linksMu.Lock()     // a message of a peer may end the group concurrently
	defer tr.linksMu.Unlock()
	tr.gone = true
	for _, p := range tr.peers {
		if p == nil {
			continue
		}
		for _, l := range p.data {
			l.reset()
		}
		tcpConn(p.control.conn).SetLinger(0)
		p.control.conn.Close()
	}
}

// ended waits until rank's group has ended and returns the cause.
func ended(t *testing.T, tr *Transport) error {
	t.Helper()
	select {
	case <-tr.ended:
	case <-time.After(patient.Longest):
		t.Fatal("the group did not end")
	}
	return tr.standing()
}

// TestIdleRanksNoticeALoss kills a rank while none is in a call.
func TestIdleRanksNoticeALoss(t *testing.T) {
	for victim := range 3 {
		ts := group(t, 3)
		kill(ts[victim])
		for i, tr := range ts {
			if i == victim {
				continue
			}
			var lost *collective.LostError
			if err := ended(t, tr); !errors.As(err, &lost) || lost.Rank != victim {
				t.Errorf("rank %d: %v, want rank %d lost", i, err, victim)
			}
		}
		closeAll(ts)
	}
}

// TestGarbage lets a rank that has proved the key send invalid messages.
func TestGarbage(t *testing.T) {
	frame := appendFrame(nil, collective.Tag{Call: collective.CallBarrier, Seq: 1}, 1<<40, 0)
	for _, k := range []struct {
		name    string
		control bool
		bytes   []byte
		want    string
	}{
		{"data", false, make([]byte, frameSize), "is not one of this protocol"},
		{"oversized data", false, frame, "message of 1099511627776 bytes"},
		{"control", true, make([]byte, controlSize), "is not one of this protocol"},
		{"oversized control", true, controlOf(kindAbort, make([]byte, collective.MaxCause+1)), "is not one of this protocol"},
		{"unknown control", true, controlOf(99, nil), "unknown kind 99"},
		{"abort without cause", true, controlOf(kindAbort, nil), "cause of 0 bytes"},
		{"goodbye with more", true, controlOf(kindGoodbye, []byte("x")), "kind 2 with 1 bytes"},
		{"process of three bytes", true, controlOf(kindProcess, []byte("abc")), "process frame of 3 bytes"},
		{"probe with payload", true, controlOf(kindProbe, []byte("x")), "kind 3 with 1 bytes"},
	} {
		t.Run(k.name, func(t *testing.T) {
			ts := group(t, 3)
			defer closeAll(ts)
			p := ts[0].peers[1]
			if k.control {
				if _, err := p.control.conn.Write(k.bytes); err != nil {
					t.Fatal(err)
				}
			} else {
				p.data[0].put(t, k.bytes)
			}
			err := collective.Barrier(collective.New(ts[1])) // waits for rank 0
			if err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("rank 1: %v, want %q", err, k.want)
			}
			if err := ended(t, ts[2]); !strings.Contains(err.Error(), k.want) {
				t.Errorf("rank 2: %v, want %q", err, k.want)
			}
		})
	}
}

// TestFrameCutOff kills a rank while it sends a message.
func TestFrameCutOff(t *testing.T) {
	ts := group(t, 2)
	defer closeAll(ts)
	tag := collective.Tag{Call: collective.CallBroadcast, Type: collective.Uint8, Seq: 1, Count: 100}
	ts[0].peers[1].data[0].put(t, append(appendFrame(nil, tag, 100, 0), make([]byte, 99)...))
	kill(ts[0])
	err := collective.Broadcast(collective.New(ts[1]), make([]uint8, 100), 0)
	var lost *collective.LostError
	if !errors.As(err, &lost) || lost.Rank != 0 {
		t.Errorf("%v, want rank 0 lost", err)
	}
}

// TestOneLinkBreaks closes only a data connection. The control connection reports nothing, but
// the group must end.
func TestOneLinkBreaks(t *testing.T) {
	ts := group(t, 2)
	defer closeAll(ts)
	ts[0].peers[1].data[1].closeWrite()
	err := collective.Barrier(collective.New(ts[1]).Channel(1))
	var lost *collective.LostError
	if !errors.As(err, &lost) || lost.Rank != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%v, want rank 0 lost by end of file", err)
	}
}

// TestOneStreamBreaks closes the second of two connections of a channel.
func TestOneStreamBreaks(t *testing.T) {
	ts := striped(t, 2)
	defer closeAll(ts)
	ts[0].peers[1].data[1].closeWrite()
	err := collective.AllReduce(collective.New(ts[1]), make([]float32, 100), collective.Sum)
	var lost *collective.LostError
	if !errors.As(err, &lost) || lost.Rank != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%v, want rank 0 lost by end of file", err)
	}
}

// TestFirstCauseWins: all ranks call Abort concurrently. All calls of a rank must return the
// same cause.
func TestFirstCauseWins(t *testing.T) {
	ts := group(t, 4)
	defer closeAll(ts)
	for i, tr := range ts {
		go tr.Abort(fmt.Errorf("cause %d", i))
	}
	for i, tr := range ts {
		first := ended(t, tr)
		tr.Abort(errors.New("too late"))
		var abort *collective.AbortError
		if !errors.As(first, &abort) || abort.Cause.Error() != fmt.Sprintf("cause %d", abort.By) || tr.standing() != first {
			t.Errorf("rank %d: %v, then %v", i, first, tr.standing())
		}
	}
}

// TestCloseWakesPendingCalls closes a transport while a call waits. The call must return
// ErrClosed.
func TestCloseWakesPendingCalls(t *testing.T) {
	ts := group(t, 2)
	defer closeAll(ts)
	c := collective.New(ts[0])
	done := make(chan error)
	go func() { done <- collective.AllReduce(c, make([]float32, 1<<22), collective.Sum) }() // more data than the system buffers
	for {
		if s := &ts[0].slots[0]; func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.waiting }() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ts[0].Close()
	if err := <-done; !errors.Is(err, collective.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

func tcpConn(conn net.Conn) *net.TCPConn { return conn.(*net.TCPConn) }
