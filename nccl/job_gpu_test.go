//go:build gpu

package nccl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/gpu/nccltest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

// env is what a launcher tells rank r of a group of size ranks on this host.
func env(r, size int, dir, key string) func(string) string {
	vars := map[string]string{
		"WDLRUN_RANK": strconv.Itoa(r), "WDLRUN_SIZE": strconv.Itoa(size),
		"WDLRUN_LOCAL_RANK": strconv.Itoa(r), "WDLRUN_LOCAL_SIZE": strconv.Itoa(size),
		"WDLRUN_RENDEZVOUS": dir, "WDLRUN_JOB": "test", "WDLRUN_KEY": key,
	}
	return func(name string) string { return vars[name] }
}

// listening keeps what ranks reported to the host of the coordinator.
type listening chan [2]string

func (listening) Formed([]rank.Member)    {}
func (listening) Status(int, rank.Status) {}
func (listening) Ended(*rank.Verdict)     {}
func (l listening) Report(from int, about string, body []byte) {
	if about == AboutCalls {
		l <- [2]string{strconv.Itoa(from), string(body)}
	}
}

// timeout of the jobs of these tests: heartbeats come ten times as often.
const timeout = 3 * time.Second

// job runs body as every rank of a job, and returns what became of each.
func job(t *testing.T, size int, said listening, body func(m *member.Member, l *Library, s Stream) error) []error {
	t.Helper()
	key, dir, errs := rank.NewKey(), t.TempDir(), make([]error, size)
	streams := make([]Stream, size)
	for r := range streams {
		streams[r] = stream(t)
	}
	onAll(size, func(r int) {
		o := member.Options{Transport: member.TCP, Control: control.Options{Timeout: timeout}}
		if said != nil {
			o.Control.Host = said
		}
		m, err := member.Join(context.Background(), env(r, size, dir, key.Hex()), o)
		if err != nil {
			errs[r] = err
			return
		}
		defer m.Close()
		l, err := Open(where)
		if err == nil {
			err = body(m, l, streams[r])
		}
		if err != nil {
			errs[r] = m.Fail(err)
			l.Abort(err)
			return
		}
		errs[r] = m.Done(nil)
	})
	return errs
}

// sum reduces n numbers over all ranks.
func sum(ctx context.Context, c *Comm, s Stream, n int) error {
	x := memory[float32](n)
	for i := range x {
		x[i] = 1
	}
	k := Call{Kind: AllReduce, Type: Float32, Count: n, Send: pointer(x), Recv: pointer(x), Place: "dense, bucket 2"}
	if err := errors.Join(c.Launch(s, k), c.Wait(ctx, s)); err != nil {
		return err
	}
	if x[n-1] != float32(c.Size()) {
		return fmt.Errorf("the sum of %d ranks is %v", c.Size(), x[n-1])
	}
	return nil
}

func TestJob(t *testing.T) {
	for r, err := range job(t, 3, nil, func(m *member.Member, l *Library, s Stream) error {
		c, err := l.Join(soon(t), m, device(m.World.Rank))
		if err != nil {
			return err
		}
		if c.Rank() != m.World.Rank || c.Size() != 3 {
			return fmt.Errorf("rank %d of %d", c.Rank(), c.Size())
		}
		if name := nccltest.CEnv("NCCL_SOCKET_IFNAME"); name != "=lo" {
			return fmt.Errorf("NCCL_SOCKET_IFNAME=%q", name)
		}
		return errors.Join(sum(soon(t), c, s, 1000), c.Close(soon(t)))
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	noneLeft(t)
}

// wantVerdict checks that every rank got a verdict of a kind, with the given texts.
func wantVerdict(t *testing.T, errs []error, kind rank.Kind, texts ...string) {
	t.Helper()
	for r, err := range errs {
		var v *rank.Verdict
		if !errors.As(err, &v) || v.Kind != kind {
			t.Errorf("rank %d: %v, want a verdict of kind %s", r, err, kind)
			continue
		}
		for _, text := range texts {
			if !strings.Contains(v.String(), text) {
				t.Errorf("rank %d: %q does not contain %q", r, v, text)
			}
		}
	}
}

// TestRanksThatDisagreeAreNamed: one rank reduces another number of elements, after which
// all wait forever. The heartbeats show both sides, the record reaches the launcher, and
// all communicators are aborted although each abort waits for the others.
func TestRanksThatDisagreeAreNamed(t *testing.T) {
	t.Setenv(nccltest.Env, "abort=together")
	said := make(listening, 16)
	wantVerdict(t, job(t, 3, said, func(m *member.Member, l *Library, s Stream) error {
		c, err := l.Join(soon(t), m, device(m.World.Rank))
		if err != nil {
			return err
		}
		if _, err := c.Split(soon(t), 0, 0); err != nil {
			return err
		}
		for i := range 40 {
			n := 10
			if i == 39 && m.World.Rank == 1 {
				n = 11
			}
			if err := sum(soon(t), c, s, n); err != nil {
				return err
			}
		}
		return errors.New("ranks that made different calls went on")
	}), rank.Disagree, "calls differ: rank ", " called NCCL AllReduce(sum) of 10 float32 (dense, bucket 2)", "rank 1 called NCCL AllReduce(sum) of 11 float32 (dense, bucket 2)", "as call 41 on channel 100")
	for len(said) > 0 {
		if w := <-said; w[0] == "0" && strings.Contains(w[1], "communicator 0 of 3 ranks, rank 0:\ncall 1 on stream 0x0: Split (color 0, key 0)") && strings.Contains(w[1], "call 41 on stream") {
			noneLeft(t)
			return
		}
	}
	t.Error("the launcher has no record of the calls of rank 0")
}

// TestLateErrorsEndTheJob: an asynchronous error of one rank, which does not wait for it,
// ends the calls of all.
func TestLateErrorsEndTheJob(t *testing.T) {
	t.Setenv(nccltest.Env, "late=1@1")
	wantVerdict(t, job(t, 2, nil, func(m *member.Member, l *Library, s Stream) error {
		c, err := l.Join(soon(t), m, device(m.World.Rank))
		if err != nil {
			return err
		}
		if m.World.Rank == 0 {
			for err == nil {
				err = sum(soon(t), c, s, 10)
			}
			return err
		}
		x := numbers(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
		if err := c.Launch(s, Call{Kind: AllReduce, Type: Float32, Count: 10, Send: pointer(x), Recv: pointer(x)}); err != nil {
			return err
		}
		<-m.Session.Aborted()
		return m.Session.Err()
	}), rank.Failed, "rank 1", "remote process exited or there was a network error: a peer is gone")
}

// TestJoinRejects gives rank 1 another library.
func TestJoinRejects(t *testing.T) {
	for r, err := range job(t, 2, nil, func(m *member.Member, l *Library, s Stream) error {
		if m.World.Rank == 1 {
			l.version, l.path = 22003, "/opt/libnccl.so.2"
		}
		_, err := l.Join(soon(t), m, device(m.World.Rank))
		return err
	}) {
		for _, want := range []string{"has NCCL 2.19.3 (" + where.Path + ")", "has 2.20.3 (/opt/libnccl.so.2)"} {
			if err == nil || !strings.Contains(strings.Replace(err.Error(), "has NCCL 2.20.3 (/opt/libnccl.so.2), rank 0 has 2.19.3 ("+where.Path+")", "has NCCL 2.19.3 ("+where.Path+"), rank 1 has 2.20.3 (/opt/libnccl.so.2)", 1), want) {
				t.Errorf("rank %d: %v, want %q", r, err, want)
			}
		}
	}
}

// TestJoinHasATimeout: the job's timeout bounds the initialisation.
func TestJoinHasATimeout(t *testing.T) {
	t.Setenv(nccltest.Env, "init=hang")
	for r, err := range job(t, 2, nil, func(m *member.Member, l *Library, s Stream) error {
		_, err := l.Join(context.Background(), m, device(m.World.Rank))
		return err
	}) {
		if err == nil || !strings.Contains(err.Error(), "not all of 2 ranks were connected within 3s; does NCCL reach the others?") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	noneLeft(t)
}

// childVariable has this program be a rank of TestLostRank.
const childVariable = "WDLRUN_NCCL_TEST"

// child is rank 1 of two, which reduces until it is killed.
func child() int {
	f := strings.Split(os.Getenv(childVariable), "|")
	m, err := member.Join(context.Background(), env(1, 2, f[0], f[1]), member.Options{Transport: member.TCP, Control: control.Options{Timeout: timeout}})
	if err == nil {
		var l *Library
		if l, err = Open(Config{Path: f[2], Cuda: f[3]}); err == nil {
			var s uintptr
			s, _, err = nccltest.NewStream(f[3])
			var c *Comm
			if err == nil {
				c, err = l.Join(context.Background(), m, device(1))
			}
			for n := 0; err == nil; n++ {
				if n == 100 {
					fmt.Println("reducing")
				}
				err = sum(context.Background(), c, Stream(s), 10)
			}
		}
	}
	fmt.Println(err)
	return 1
}

// TestLostRank kills a rank's process in the middle of a call: the other one is released,
// and the verdict names the rank that was lost.
func TestLostRank(t *testing.T) {
	key, dir, s := rank.NewKey(), t.TempDir(), stream(t)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s|%s", childVariable, dir, key.Hex(), where.Path, where.Cuda))
	out, err := cmd.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	m, err := member.Join(context.Background(), env(0, 2, dir, key.Hex()), member.Options{Transport: member.TCP, Control: control.Options{Timeout: timeout}})
	fatal.If(t, err)
	defer m.Close()
	c, err := library(t).Join(soon(t), m, device(0))
	fatal.If(t, err)
	go func() {
		b := make([]byte, 100)
		if n, _ := out.Read(b); strings.Contains(string(b[:n]), "reducing") {
			cmd.Process.Kill()
		}
	}()
	for err == nil {
		err = sum(soon(t), c, s, 10)
	}
	var v *rank.Verdict
	if err = m.Fail(err); !errors.As(err, &v) || v.Rank != 1 {
		t.Errorf("%v, want the loss of rank 1", err)
	}
	if err := c.owner.lib.Abort(err); err != nil {
		t.Error(err)
	}
	noneLeft(t)
}
