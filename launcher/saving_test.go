//go:build linux

package launcher

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// steps is the host of a job that waits until rank 0 has reported two different steps.
type steps struct {
	heard
	first int64
	again chan struct{}
	twice sync.Once
}

func (h *steps) Status(r int, s rank.Status) {
	switch {
	case r != 0:
	case h.first == 0:
		h.first = s.Step
	case s.Step > h.first:
		h.twice.Do(func() { close(h.again) })
	}
}

// TestInterruptedRanksSave: interrupted ranks are not killed while they write a checkpoint,
// however short the grace period is.
func TestInterruptedRanksSave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "saved")
	ctx, cancel := context.WithCancelCause(t.Context())
	host := &steps{again: make(chan struct{})}
	var saving atomic.Int32
	out, end := begin(t, ctx, Job{Plan: local(t, 2), Command: self("rank", "save"), Env: append(os.Environ(), "SAVED="+file), Quiet: true,
		Host: host, Grace: time.Millisecond, Saves: func(s rank.Status, _ io.Writer) {
			saving.Add(1)
			if err := os.WriteFile(file, nil, 0o600); err != nil || s.Step <= 12 {
				t.Errorf("reported %+v: %v", s, err)
			}
		}})
	out.find(t, `rank (\d) pid`, 2)
	select {
	case <-host.again:
	case <-time.After(patient.Longest):
		t.Fatalf("no steps:\n%s", out)
	}
	cancel(Interrupted{syscall.SIGTERM})
	if o := end(); o.Code != 143 || o.Verdict != nil || saving.Load() != 1 {
		t.Errorf("%+v, %d reports that the ranks save", o, saving.Load())
	}
	for _, want := range []string{"rank 0 has saved", "rank 1 has saved"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// TestInterruptedBeforeTheFirstStep: ranks that have done no step have nothing to save.
func TestInterruptedBeforeTheFirstStep(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	out, end := begin(t, ctx, Job{Plan: local(t, 2), Command: self("rank", "deaf"), Quiet: true, Grace: time.Millisecond,
		Saves: func(s rank.Status, _ io.Writer) { t.Errorf("reported %+v", s) }})
	pids := out.pids(t, `pid (\d+)\n`, 2)
	cancel(Interrupted{syscall.SIGINT})
	if o := end(); o.Code != 130 || o.Verdict != nil {
		t.Errorf("%+v", o)
	}
	awaitGone(t, pids)
}
