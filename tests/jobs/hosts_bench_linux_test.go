package jobs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// BenchmarkHosts measures the start and the loss of hosts, on four simulated hosts:
//
//	go test ./tests/jobs -run - -bench Hosts -benchtime 5x
//
// Each result is the median of the iterations, in milliseconds. user-ms is the CPU time of
// the launcher and of its ssh clients.
func BenchmarkHosts(b *testing.B) {
	c := newCluster(b, 4)
	const all = "a:8,b:8,c:8,d:8"
	// The binary is sent to the hosts before the measurements.
	if o := c.end(b, c.launch(b, "-H", all, "true")); o.code != 0 {
		b.Fatal(o)
	}
	b.Run("first-collective", func(b *testing.B) {
		medians(b, func() map[string]float64 {
			begin := time.Now()
			cmd := c.launch(b, "-H", all, "bench", "barrier", "-plain", "-time", "1ms")
			line, network := watch(b, cmd, "^barrier ", "4 hosts exchange over")
			chosen, measured := <-network, <-line
			if err := cmd.Wait(); err != nil || measured.IsZero() {
				b.Fatalf("no barrier was measured: %v", err)
			}
			return map[string]float64{"ms": ms(measured.Sub(begin)), "network-ms": ms(chosen.Sub(begin)), "user-ms": ms(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())}
		})
	})
	b.Run("start-128", func(b *testing.B) {
		medians(b, func() map[string]float64 {
			times := map[string]float64{}
			for name, where := range map[string][]string{"local-ms": {"-np", "128", "-oversubscribe"}, "hosts-ms": {"-ssh", c.client, "-H", "a:32,b:32,c:32,d:32"}} {
				begin := time.Now()
				cmd := c.inside(b, append(where, "bench", "barrier", "-plain", "-time", "1ms")...)
				line, _ := watch(b, cmd, "^barrier ", "")
				measured := <-line
				if err := cmd.Wait(); err != nil || measured.IsZero() {
					b.Fatalf("no barrier was measured: %v", err)
				}
				times[name] = ms(measured.Sub(begin))
			}
			return times
		})
	})
	b.Run("train-32", func(b *testing.B) {
		job := []string{"train", "-set", "train.epochs=1", "-set", "train.global_batch=2048"}
		medians(b, func() map[string]float64 {
			local := c.timed(b, c.inside(b, append([]string{"-np", "32", "-oversubscribe"}, job...)...))
			hosts := c.timed(b, c.launch(b, append([]string{"-H", all}, job...)...))
			return map[string]float64{"local-ms": ms(local), "hosts-ms": ms(hosts), "ratio": float64(hosts) / float64(local)}
		})
	})
	b.Run("sending", func(b *testing.B) {
		packed := filepath.Join(c.folder, "packed.gz")
		bin, err := wdlrun()
		fatal.If(b, err)
		c.do(b, c.hub, "gzip -1 -c "+bin+" >"+packed)
		medians(b, func() map[string]float64 {
			sent := c.timed(b, c.launch(b, "-ship", "always", "-H", "a", "true"))
			present := c.timed(b, c.launch(b, "-H", "a", "true"))
			copied := c.timed(b, c.inHub("scp", "-O", "-q", "-F", c.folder+"/config", packed, "a:/tmp/packed.gz"))
			return map[string]float64{"ms": ms(sent), "present-ms": ms(present), "scp-ms": ms(copied), "ratio": float64(sent-present) / float64(copied)}
		})
	})
	b.Run("lost-train", func(b *testing.B) {
		medians(b, func() map[string]float64 {
			return map[string]float64{"ms": ms(c.lose(b, "train", "-out", fmt.Sprint("lost-", time.Now().UnixNano()), "-set", "train.epochs=100000"))}
		})
	})
	b.Run("again", func(b *testing.B) {
		medians(b, func() map[string]float64 {
			return map[string]float64{"rank0-ms": ms(c.again(b, 0)), "other-ms": ms(c.again(b, 1))}
		})
	})
	b.Run("lost-program", func(b *testing.B) {
		medians(b, func() map[string]float64 { return map[string]float64{"ms": ms(c.lose(b, "sleep", "1000"))} })
	})
}

// medians runs measure b.N times and reports the median of each result.
func medians(b *testing.B, measure func() map[string]float64) {
	all := map[string][]float64{}
	for b.Loop() {
		for name, x := range measure() {
			all[name] = append(all[name], x)
		}
	}
	for name, x := range all {
		slices.Sort(x)
		b.ReportMetric(x[len(x)/2], name)
	}
	b.ReportMetric(0, "ns/op") // hides the time per operation, which has no meaning here
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// end starts a command and waits for it.
func (c *cluster) end(b testing.TB, cmd *exec.Cmd) outcome {
	b.Helper()
	fatal.If(b, cmd.Start())
	return end(b, cmd)
}

// timed runs a command that must succeed.
func (c *cluster) timed(b testing.TB, cmd *exec.Cmd) time.Duration {
	b.Helper()
	begin := time.Now()
	if o := c.end(b, cmd); o.code != 0 {
		b.Fatalf("%q: %+v", cmd.Args, o)
	}
	return time.Since(begin)
}

// inHub prepares a command on the launcher's host.
func (c *cluster) inHub(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", c.hub, "-n", "-u"}, args...)...)
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	return cmd
}

// watch starts a command and returns the times at which its outputs first contain a matching
// line.
func watch(b testing.TB, cmd *exec.Cmd, stdout, stderr string) (out, err <-chan time.Time) {
	b.Helper()
	cmd.Stdout, cmd.Stderr = nil, nil
	outPipe, err1 := cmd.StdoutPipe()
	errPipe, err2 := cmd.StderrPipe()
	fatal.If(b, errors.Join(err1, err2, cmd.Start()))
	return first(outPipe, stdout), first(errPipe, stderr)
}

// first returns the time at which a line first matches. The channel is closed at the end of the
// input.
func first(from io.Reader, line string) <-chan time.Time {
	found, want := make(chan time.Time, 1), regexp.MustCompile(line)
	go func() {
		defer close(found)
		for lines := bufio.NewScanner(from); lines.Scan(); {
			if len(found) == 0 && want.MatchString(lines.Text()) {
				found <- time.Now()
			}
		}
	}()
	return found
}

// lose takes the link of host b down in the middle of a job and returns the time until the
// verdict.
func (c *cluster) lose(b testing.TB, args ...string) time.Duration {
	b.Helper()
	cmd := c.launch(b, append([]string{"-H", "a:2,b:2,c:2,d:2"}, args...)...)
	_, verdict := watch(b, cmd, "", "host b.* (was lost|has been silent for)")
	eventually(b, "all ranks at work", func() bool {
		if args[0] == "train" {
			found, _ := filepath.Glob(filepath.Join(c.folder, args[2], "*", "metrics.jsonl"))
			return len(found) > 0
		}
		return countOf(c.processes(1), "cmdline", strings.Join(args, "\x00")) == 2
	})
	c.do(b, c.hub, "ip link set v1 down")
	begin := time.Now()
	end := <-verdict
	kill(b, cmd.Process.Pid, syscall.SIGTERM)
	cmd.Wait()
	c.do(b, c.hub, "ip link set v1 up")
	c.empty(b)
	if end.IsZero() {
		b.Fatalf("%q: no verdict", args)
	}
	return end.Sub(begin)
}
