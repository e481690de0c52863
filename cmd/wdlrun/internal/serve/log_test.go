package serve

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// TestVersionLog: one line per version, at most one line a minute for the updates of a
// training, and none for a version that was replaced.
func TestVersionLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, faults strings.Builder
		l := newVersionLog(&out, &faults)
		event := func(number int64, state versions.State) {
			l.changed(versions.Event{Model: "ctr", Status: versions.Status{Number: number, State: state}, Dir: fmt.Sprint(number), Took: time.Duration(number) * time.Millisecond})
		}
		follow := func(number int64, update bool) {
			l.update[fmt.Sprint(number)] = update
			event(number, versions.Available)
			event(number-1, versions.Ended)
		}
		l.rounds("1", 32, 0.00123)
		event(1, versions.Available)
		for n := int64(2); n <= 22; n++ { // 8 or 9 per minute
			follow(n, true)
			time.Sleep(7 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		follow(93, true)
		l.rounds("94", 0, 0)
		follow(94, false)
		follow(95, true)
		event(95, versions.Ended)
		l.changed(versions.Event{Model: "ctr", Status: versions.Status{Number: -1, Err: fmt.Errorf("no folder")}})
		want := `serve: model ctr: version 1 is available (0.001 s to open; bf16 changes the logits of the warm-up records by at most 0.0012)
serve: model ctr: version 2 is available (0.002 s to open)
serve: model ctr: version 10 is available; updates since version 2: 8 (at most 0.01 s to open one)
serve: model ctr: version 19 is available; updates since version 10: 9 (at most 0.019 s to open one)
serve: model ctr: version 22 is available; updates since version 19: 3 (at most 0.022 s to open one)
serve: model ctr: version 93 is available (0.093 s to open)
serve: model ctr: version 94 is available (0.094 s to open; no warm-up records: the error of bf16 is not measured)
serve: model ctr: version 95 is available; updates since version 94: 1 (at most 0.095 s to open one)
serve: model ctr: version 95 is unloaded
`
		if out.String() != want || faults.String() != "wdlrun: no folder\n" {
			t.Errorf("%s%s\nwant\n%s", out.String(), faults.String(), want)
		}
		if len(l.update) > 2 || len(l.error) > 1 {
			t.Errorf("%d folders are remembered", len(l.update))
		}
	})
}
