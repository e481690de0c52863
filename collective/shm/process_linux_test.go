package shm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// TestMain is also the main function of the rank processes that the tests start.
func TestMain(m *testing.M) {
	if job := os.Getenv("SHM_TEST_RANK"); job != "" {
		if err := runRank(job); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(patient.Settled(m))
}

// runRank is the main function of a rank process: it connects, runs job, and writes a line in
// each phase.
func runRank(job string) error {
	var r, size int
	var key, work string
	if _, err := fmt.Sscan(job, &r, &size, &key, &work); err != nil {
		return err
	}
	k, err := hex.DecodeString(key)
	if err != nil {
		return err
	}
	if work == noFiles {
		const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
		if err := refuse(unix.SYS_MEMFD_CREATE, 1, flags, unix.EPERM); err != nil {
			return err
		}
	}
	l, err := Listen(Config{Rank: r, Size: size, Key: k, Timeout: patient.Longest})
	if err != nil {
		return err
	}
	tr, err := l.Connect(context.Background())
	if err != nil {
		return err
	}
	defer tr.Close()
	c := collective.New(tr)
	if work == "connect" {
		fmt.Println("phase")
		time.Sleep(time.Hour)
	}
	if work == noMemory {
		return withoutWindow(c)
	}
	return works(c, work)
}

// works makes a fixed number of calls, or calls without end.
func works(c *collective.Comm, work string) error {
	x, err := collective.Alloc[float32](c, 300_000)
	if err != nil {
		return err
	}
	plain := make([]float32, 300_000)
	send, recv := make([]int64, 4*c.Size()), make([]int64, 4*c.Size())
	for i := 0; work != "sums" || i < 200; i++ {
		x[0], x[len(x)-1], plain[7] = 1, float32(c.Rank()), float32(c.Rank())
		err := errors.Join(collective.AllReduce(c, x, collective.Sum), collective.AllReduce(c, plain, collective.Max),
			collective.AllReduce(c, x[:3], collective.Max), collective.AllToAll(c, send, recv), collective.Barrier(c))
		if err != nil {
			return err
		}
		if n := c.Size(); x[0] != float32(n) || x[len(x)-1] != float32(n*(n-1)/2) || plain[7] != float32(n-1) {
			return fmt.Errorf("sums are %v and %v, maximum %v", x[0], x[len(x)-1], plain[7])
		}
		clear(x)
		if i == 1 {
			fmt.Println("phase")
		}
	}
	return nil
}

// process is a rank that runs in a process of its own.
type process struct {
	*exec.Cmd
	out *bufio.Reader
}

// start starts rank r.
func start(t testing.TB, r, size int, key rank.Key, work string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("SHM_TEST_RANK=%d %d %x %s", r, size, [32]byte(key), work))
	pipe, err := cmd.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, cmd.Start())
	p := &process{cmd, bufio.NewReader(pipe)}
	t.Cleanup(func() {
		p.Process.Kill()
		p.Wait()
	})
	return p
}

// rest returns the remaining output of the process after it has ended.
func (p *process) rest() string {
	b, _ := io.ReadAll(p.out)
	p.Wait()
	return string(b)
}

// TestProcesses: ranks that are processes make calls with correct results and leave no socket.
func TestProcesses(t *testing.T) {
	for _, size := range []int{2, 8} { // fewer than the cores or as many, and more
		key := rank.NewKey()
		var ps []*process
		for r := range size {
			ps = append(ps, start(t, r, size, key, "sums"))
		}
		for r, p := range ps {
			if out := p.rest(); !p.ProcessState.Success() {
				t.Errorf("rank %d of %d: %s", r, size, out)
			}
		}
		nothingLeft(t, size, key)
	}
}

// TestKilledRanks kills each rank in each phase. The others must soon report the killed rank.
func TestKilledRanks(t *testing.T) {
	const size = 3
	for _, phase := range []string{"connect", "forever"} {
		for victim := range size {
			t.Run(fmt.Sprintf("%s/%d", phase, victim), func(t *testing.T) {
				key := rank.NewKey()
				var ps []*process
				for r := range size {
					work := "forever"
					if r == victim {
						work = phase
					}
					ps = append(ps, start(t, r, size, key, work))
				}
				if line, err := ps[victim].out.ReadString('\n'); line != "phase\n" {
					t.Fatalf("rank %d: %q, %v", victim, line, err)
				}
				ps[victim].Process.Kill()
				killed := time.Now()
				for r, p := range ps {
					out := p.rest()
					if want := fmt.Sprintf("rank %d was lost", victim); r != victim && !strings.Contains(out, want) {
						t.Errorf("rank %d: %q, want %q", r, out, want)
					}
				}
				t.Logf("all ranks reported the loss after %v", time.Since(killed))
				nothingLeft(t, size, key)
			})
		}
	}
}

// nothingLeft checks that no socket of the job exists any more.
func nothingLeft(t *testing.T, size int, key rank.Key) {
	t.Helper()
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Skip(err)
	}
	for r := range size {
		if name := (Config{Key: key[:]}).address(r).Name; bytes.Contains(b, []byte(name)) {
			t.Errorf("the socket %s of rank %d still exists", name, r)
		}
	}
}
