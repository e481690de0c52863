package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// asking sends requests until it is stopped. A server that is gone is replaced by another one, as by a load balancer.
type asking struct {
	all, failed int
	first       error
}

// askAlways begins to ask. stop ends it.
func askAlways(servers ...string) (a *asking, stop func()) {
	a = new(asking)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
			var err error
			for _, s := range servers {
				err = askLoop(s)
				if _, bad := errors.AsType[badAnswer](err); bad || err == nil {
					break
				}
			}
			if a.all++; err != nil {
				if a.failed++; a.first == nil {
					a.first = err
				}
			}
		}
	})
	return a, func() {
		cancel()
		done.Wait()
	}
}

// damaged publishes a version with a changed byte, while the folder is on hold: the server and the loop name it.
func (l *loop) damaged() {
	l.t.Helper()
	models := filepath.Join(l.dir, "models", "ctr")
	must(l.t, l.dir, "publish models/ctr -hold")
	newest := l.status().Loop.Version
	bad, number := filepath.Join(l.dir, "bad"), newest+100
	fatal.If(l.t, os.CopyFS(bad, os.DirFS(filepath.Join(models, strconv.FormatInt(newest, 10)))))
	file := filepath.Join(bad, "dense.bin")
	b, err := os.ReadFile(file)
	fatal.If(l.t, err)
	b[len(b)/2] ^= 1
	fatal.If(l.t, os.WriteFile(file, b, 0o600))
	fatal.If(l.t, os.Rename(bad, filepath.Join(models, strconv.FormatInt(number, 10))))
	eventually(l.t, "the damaged version in the status", func() bool {
		f := l.status().Loop.Failed
		return f.Version == number && strings.Contains(f.Error, "dense.bin") && strings.Contains(l.said.String(), fmt.Sprintf("online: version %d cannot be served: ", number))
	})
	must(l.t, l.dir, "publish models/ctr -release")
}

// TestOnlineSoak: while each part is killed, a version is damaged and another one is removed, all requests are answered, and
// every impression is trained on once. After that, server and trainer do not grow: in the second half of the rounds, their
// resident size is at most a quarter above its maximum in the first half, which has room for the garbage collector.
func TestOnlineSoak(t *testing.T) {
	t.Parallel()
	rounds := patient.Size(16, 150) // of at least a second
	l := startLoop(t)
	other := startServer(t, l.dir, "-model", "ctr=models/ctr", "-wait", "-file_system_poll_wait_seconds", "0.1")
	eventually(t, "the other server", func() bool { return askLoop(other.rest) == nil })
	asked, stop := askAlways(l.rest, other.rest)
	faults := map[int]func(){
		1 * rounds / 16: func() { l.kill(0) }, 2 * rounds / 16: func() { l.kill(1) }, 3 * rounds / 16: func() { l.kill(2) },
		4 * rounds / 16: l.damaged,
		5 * rounds / 16: func() {
			fatal.If(t, os.RemoveAll(filepath.Join(l.dir, "models", "ctr", strconv.FormatInt(l.status().Loop.Version, 10))))
		},
	}
	var sizes [2][2][]int // in kB, of server and trainer, by half
	for round := range rounds {
		if fault := faults[round]; fault != nil {
			fault()
		}
		served := l.status().Loop.Served
		l.log(1)
		var s onlineStatus
		eventually(t, "the next version", func() bool {
			s = l.status()
			return s.Loop.Served > served && s.Parts[0].State == "running" && s.Parts[1].State == "running" && s.Parts[2].State == "running"
		})
		if round > 5*rounds/16 {
			half := 2 * round / rounds
			sizes[0][half] = append(sizes[0][half], resident(t, s.Parts[2].Process))
			sizes[1][half] = append(sizes[1][half], resident(t, rankOf(t, s.Parts[1].Process)))
		}
	}
	l.finish()
	stop()
	fatal.If(t, l.cmd.Process.Signal(syscall.SIGTERM))
	fatal.If(t, l.cmd.Wait())
	if o := other.stop(); o.code != 0 {
		t.Errorf("the other server: %+v", o)
	}
	checkSamples(t, l.dir, l.want)
	if asked.failed > 0 || asked.all < rounds {
		t.Errorf("%d of %d requests failed: %v", asked.failed, asked.all, asked.first)
	}
	for i, name := range []string{"server", "trainer"} {
		first, second := slices.Max(sizes[i][0]), slices.Max(sizes[i][1])
		t.Logf("%s: at most %d kB, then %d kB", name, first, second)
		if second > first+first/4 {
			t.Errorf("the %s grows from %d kB to %d kB", name, first, second)
		}
	}
}
