package tests

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/patient"
)

// TestTraceNamesASlowRank: in a training with a rank that computes far slower, nearly
// every step waited for it, and for its compute.
func TestTraceNamesASlowRank(t *testing.T) {
	t.Parallel()
	patient.Try(t, time.Second, func(time.Duration) error { // where other programs hold the cores, any rank may be late
		dir := t.TempDir()
		r := slowly(t, dir, three, "train", "--json", "-chaos", "slow:40x@1", "-set", "train.global_batch=1024", "-set", "train.epochs=2")
		o := run(t, dir, "trace", "-json", "-out", "all.json.gz", r.RunDir)
		if o.code != 0 {
			t.Fatalf("exit code %d\n%s", o.code, o.stderr)
		}
		var a struct {
			Steps int64
			Late  []struct {
				Rank   int
				Share  float64
				Causes []struct {
					Phase string
					Share float64
				}
			}
			Faults []string
		}
		if err := json.Unmarshal([]byte(o.stdout), &a); err != nil {
			t.Fatalf("%v\n%s", err, o.stdout)
		}
		if a.Steps != r.Steps || len(a.Faults) > 0 || len(a.Late) == 0 {
			t.Fatalf("%d of %d steps, late %v, faults %q", a.Steps, r.Steps, a.Late, a.Faults)
		}
		merged(t, filepath.Join(dir, "all.json.gz"), 3)
		worst := a.Late[0]
		if worst.Rank != 1 || worst.Share < 0.95 || worst.Causes[0].Phase != "compute" || worst.Causes[0].Share < 0.95 {
			return fmt.Errorf("%.1f %% of the steps waited for rank %d: %v; all waited for rank 1: compute", 100*worst.Share, worst.Rank, worst.Causes)
		}
		o = run(t, dir, "trace", r.RunDir)
		if want := " steps waited for rank 1 on host "; o.code != 0 || !strings.Contains(o.stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", o.code, want, o.stdout, o.stderr)
		}
		return nil
	})
}

// merged checks that a file is a trace with a process for each rank.
func merged(t *testing.T, path string, ranks int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Ph  string
		Pid int
	}
	if err := json.NewDecoder(z).Decode(&events); err != nil {
		t.Fatal(err)
	}
	pids := map[int]bool{}
	for _, e := range events {
		if e.Ph == "X" {
			pids[e.Pid] = true
		}
	}
	if len(pids) != ranks {
		t.Errorf("spans of processes %v, want %d ranks", pids, ranks)
	}
}

// TestTraceOfNothing says what is asked for.
func TestTraceOfNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ path, says string }{
		{"none", "no such file or directory"},
		{".", "has no trace-*.json"},
	} {
		if o := run(t, dir, "trace", c.path); o.code != 1 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("trace %s: exit code %d, no %q in\n%s", c.path, o.code, c.says, o.stderr)
		}
	}
}
