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
)

// childEnv, when set, makes the test binary a rank: "rank size".
const childEnv = "TCP_TEST_RANK"

func TestMain(m *testing.M) {
	if who := os.Getenv(childEnv); who != "" {
		if err := child(who); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// child is a rank in a process of its own: it writes its address, reads those of
// all, computes until that fails, and writes whom it blames.
func child(who string) error {
	var rank, size int
	if _, err := fmt.Sscan(who, &rank, &size); err != nil {
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
	tr, err := ln.Connect(context.Background(), Config{Rank: rank, Peers: strings.Fields(line), Key: testKey})
	if err != nil {
		return err
	}
	c, x := collective.New(tr), make([]float32, 1<<16)
	for i := 0; err == nil; i++ {
		if i == 3 {
			fmt.Println("computing")
		}
		err = collective.AllReduce(c, x, collective.Sum)
	}
	blamed, ok := collective.Blamed(err)
	fmt.Println(blamed, ok, err)
	return nil
}

// process is a child as its parent sees it.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(t *testing.T, rank, size int) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", childEnv, rank, size))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
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

// TestKilledProcess kills each of three processes with signal 9 while they
// compute: the others blame it.
func TestKilledProcess(t *testing.T) {
	const size = 3
	for victim := range size {
		var ps []*process
		var addrs []string
		for r := range size {
			ps = append(ps, startChild(t, r, size))
			addrs = append(addrs, ps[r].line(t))
		}
		for _, p := range ps {
			fmt.Fprintln(p.in, strings.Join(addrs, " "))
		}
		for _, p := range ps {
			if s := p.line(t); s != "computing" {
				t.Fatalf("child says %q", s)
			}
		}
		ps[victim].cmd.Process.Kill()
		for r, p := range ps {
			if r == victim {
				continue
			}
			if s := p.line(t); !strings.HasPrefix(s, strconv.Itoa(victim)+" true") {
				t.Errorf("rank %d says %q, want rank %d blamed", r, s, victim)
			}
		}
	}
}

// kill drops a transport as the system drops that of a dead process.
func kill(tr *Transport) {
	tr.closed.Store(true) // it says no more
	for _, p := range tr.peers {
		if p == nil {
			continue
		}
		for _, l := range p.data {
			l.reset()
		}
		bare(p.control.conn).SetLinger(0)
		p.control.conn.Close()
	}
}

// ended waits until rank's group has ended and returns the cause.
func ended(t *testing.T, tr *Transport) error {
	t.Helper()
	select {
	case <-tr.ended:
	case <-time.After(time.Minute):
		t.Fatal("the group goes on")
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

// TestGarbage lets a rank that has proved the key write what is no message.
func TestGarbage(t *testing.T) {
	frame := appendFrame(nil, collective.Tag{Call: collective.CallBarrier, Seq: 1}, 1<<40)
	for _, k := range []struct {
		name    string
		control bool
		bytes   []byte
		want    string
	}{
		{"data", false, make([]byte, frameSize), "is not one of this protocol"},
		{"oversized data", false, frame, "message of 1099511627776 bytes"},
		{"control", true, make([]byte, controlSize), "is not one of this protocol"},
		{"oversized control", true, appendControl(nil, kindAbort, make([]byte, collective.MaxCause+1)), "is not one of this protocol"},
		{"unknown control", true, appendControl(nil, 99, nil), "unknown kind 99"},
		{"abort without cause", true, appendControl(nil, kindAbort, nil), "cause of 0 bytes"},
		{"goodbye with more", true, appendControl(nil, kindGoodbye, []byte("x")), "goodbye frame with 1 bytes"},
		{"process of three bytes", true, appendControl(nil, kindProcess, []byte("abc")), "process frame of 3 bytes"},
		{"stalled without tag", true, appendControl(nil, kindStalled, []byte("x")), "tag of 1 bytes"},
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
			err := collective.Barrier(collective.New(ts[1])) // which waits for rank 0
			if err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("rank 1: %v, want %q", err, k.want)
			}
			if err := ended(t, ts[2]); !strings.Contains(err.Error(), k.want) {
				t.Errorf("rank 2: %v, want %q", err, k.want)
			}
		})
	}
}

// TestFrameCutOff kills a rank in the middle of its message.
func TestFrameCutOff(t *testing.T) {
	ts := group(t, 2)
	defer closeAll(ts)
	tag := collective.Tag{Call: collective.CallBroadcast, Type: collective.Uint8, Seq: 1, Count: 100}
	ts[0].peers[1].data[0].put(t, append(appendFrame(nil, tag, 100), make([]byte, 99)...))
	kill(ts[0])
	err := collective.Broadcast(collective.New(ts[1]), make([]uint8, 100), 0)
	var lost *collective.LostError
	if !errors.As(err, &lost) || lost.Rank != 0 {
		t.Errorf("%v, want rank 0 lost", err)
	}
}

// TestOneLinkBreaks cuts a data connection alone: the control connection has
// nothing to say, and the group ends all the same.
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

// TestFirstCauseWins lets all ranks abort at once: each one's calls return one
// cause, and keep returning it.
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

// TestCloseWakesPendingCalls closes a transport under a call that waits.
func TestCloseWakesPendingCalls(t *testing.T) {
	ts := group(t, 2)
	defer closeAll(ts)
	c := collective.New(ts[0])
	done := make(chan error)
	go func() { done <- collective.AllReduce(c, make([]float32, 1<<22), collective.Sum) }() // more than the system buffers
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

func bare(conn net.Conn) *net.TCPConn { return conn.(*net.TCPConn) }
