package sparse

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
)

func TestLinesSayWhatWasSent(t *testing.T) {
	for _, np := range []int{1, 2, 3} {
		o := Options{Keys: 500, Dim: 3, Domain: 100_000, Time: time.Millisecond}
		var lines []Line
		var wg sync.WaitGroup
		for r, tr := range mem.New(np, 1) {
			wg.Go(func() {
				defer tr.Close()
				if err := Run(collective.New(tr), o, func(l Line) { lines = append(lines, l) }); err != nil {
					t.Errorf("rank %d of %d: %v", r, np, err)
				}
			})
		}
		wg.Wait()
		if len(lines) != 4 {
			t.Fatalf("%d ranks: %d lines", np, len(lines))
		}
		for i, op := range []string{"pull", "push", "both", "wire"} {
			l := lines[i]
			if l.Op != op || l.NP != np || l.Keys != 500 || l.Batches < 1 || !(l.MedianUS > 0) || !(l.Ratio > 0) || (l.Remote > 0) != (np > 1) {
				t.Errorf("implausible: %+v", l)
			}
		}
		if got, want := lines[1].Bytes, 4*3*lines[1].Remote; got != want {
			t.Errorf("%d ranks: a push of %d keys sends %d bytes, want %d", np, lines[1].Remote, got, want)
		}
		if got, own := lines[3].Bytes, (8+4*3)*lines[3].Remote; got < own || (got-own)%(4*3) != 0 { // and the rows that others ask for
			t.Errorf("%d ranks: an exchange of %d keys sends %d bytes, of its own keys and gradients %d", np, lines[3].Remote, got, own)
		}
		if got := lines[2].Bytes; got != lines[0].Bytes+lines[1].Bytes {
			t.Errorf("both send %d bytes, pull %d and push %d", got, lines[0].Bytes, lines[1].Bytes)
		}
	}
}

func TestOptionsReportAllFaults(t *testing.T) {
	err := Options{Keys: -1, Dim: 1 << 20, Zipf: 1, Time: -1}.Validate()
	for _, want := range []string{"-1 keys", "dim 1048576", "exponent 1", "time -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q in it", err, want)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
}
