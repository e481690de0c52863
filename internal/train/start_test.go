package train

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// began runs a job on two ranks. It returns the phases of each rank up to its first step, and
// its progress at the time when it reported its run directory and when training began.
func began(t *testing.T, opt Options) (phases [2][]string, advanced [2][]int64) {
	t.Helper()
	opt.Out, opt.Warn = t.TempDir(), func(line string) { t.Log(line) }
	var mu sync.Mutex
	traintest.OnRanks(t, 2, func(comm *collective.Comm) error {
		rec, opt := trace.New(10_000), opt
		var j *Job
		opt.Began = func() { advanced[comm.Rank()] = append(advanced[comm.Rank()], j.Status().Progress) }
		j = NewJob(comm, rec, opt)
		_, err := j.Run(context.Background())
		var b bytes.Buffer
		if err == nil {
			err = rec.WriteChrome(&b, trace.Source{Rank: comm.Rank()})
		}
		var spans []struct {
			Name string `json:"name"`
		}
		if err == nil {
			err = json.Unmarshal(b.Bytes(), &spans)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range spans[min(2, len(spans)):] { // after the header and the name of the process
			if s.Name == trace.Pull.String() {
				break
			}
			phases[comm.Rank()] = append(phases[comm.Rank()], s.Name)
		}
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	return phases, advanced
}

// payload returns the number of bytes in a checkpoint and its bases.
func payload(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	if dir == "" {
		return 0
	}
	c, err := checkpoint.Open(dir)
	fatal.If(t, err)
	for _, link := range c.Chain() {
		for _, name := range link.Names() {
			bytes += link.Size(name)
		}
	}
	return bytes
}

// TestAStartSaysWhatItDoes: long parts of a start have their own phase on the rank that works,
// so that this rank is not considered waiting or stuck.
func TestAStartSaysWhatItDoes(t *testing.T) {
	c := traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", "")
	for _, x := range []struct {
		opt  Options
		want [2]string
	}{
		{Options{Config: c}, [2]string{"brief scan plan build", "scan plan build"}},
		{Options{Resume: checkpoint.Dir(filepath.Join(runJob(t, 2, Options{Config: c}).RunDir, checkpoint.Folder), 8)},
			[2]string{"brief scan plan build restore", "scan plan build restore"}},
	} {
		phases, advanced := began(t, x.opt)
		for rank, all := range phases {
			at := 0
			for _, want := range strings.Fields(x.want[rank]) {
				i := slices.Index(all[at:], want)
				if i < 0 {
					t.Fatalf("rank %d: phases %q, want %q in this order", rank, all, x.want[rank])
				}
				at += i
			}
			last := advanced[rank][len(advanced[rank])-2:] // rank 0 reports its directory before the others know it
			known, ready := last[0], last[1]
			if held := payload(t, x.opt.Resume); rank == 0 && known < held || ready-known < max(6, held/4) { // counts and statistics of ranks, or its rows
				t.Errorf("rank %d had made progress of %d and %d, with a checkpoint of %d bytes", rank, known, ready, held)
			}
		}
	}
	for p := trace.Phase(0); p < trace.Phases; p++ {
		if waits := strings.Contains(" start pull push sync wait ", " "+p.String()+" "); waits != p.Waits() {
			t.Errorf("phase %v counts as waiting: %v", p, p.Waits())
		}
	}
}
