package jobs

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs/live"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/rank"
)

// day is a script that passes the page the messages of n seconds of a training of 1,000 steps
// per second. Each message has 50 points of the loss. The page is drawn once a minute.
const day = `(() => {
  const ranks = { total: [], recent: [], slow: [], tables: [], bad: 0 };
  for (let r = 0; r < 64; r++) { ranks.total.push([1, 2, 3, 4, 5, 6]); ranks.recent.push([1, 1, 1, 1, 1, 1]); }
  for (let s = 0; s < %d; s++) {
    const train = [], now = 1000 * s;
    for (let i = 0; i < 50; i++) train.push([now + 20 * i, now + 20 * i, .3, 1e5, 1]);
    const m = { status: { ...data.status, step: now }, train, ranks, checkpoints: [now], log: [{ t: now, text: "step " + now }] };
    if (s %% 60 === 0) m.valid = [[now, now, .3, .9, 0]];
    take(JSON.parse(JSON.stringify(m)));
    if (s %% 60 === 0) render();
  }
  return data.train.length;
})()`

// TestLivePageIsBounded: after hours of a training on 64 ranks, the page has a curve with points
// evenly distributed over the time and uses little memory.
func TestLivePageIsBounded(t *testing.T) {
	t.Parallel()
	b := browse(t)
	board := live.NewBoard(live.Info{Hosts: make([]string, 64)})
	board.Watch(func() rank.Status { return rank.Status{Step: 1} })
	u := live.Update{Ranks: make([]live.Rank, 64)}
	for i := range u.Ranks {
		for p := range u.Ranks[i].Phases {
			u.Ranks[i].Phases[p] = time.Duration(p+1) * time.Second
		}
	}
	board.Gathered(u)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	server := live.Serve(board, "", []net.Listener{ln}, nil)
	defer server.Close()
	b.open("http://" + ln.Addr().String())
	eventually(t, "the rows of 64 ranks", func() bool { return b.eval("document.querySelectorAll('#ranks tbody tr').length") == "64" })
	t.Logf("first paint after %s ms", b.eval("performance.getEntriesByName('first-contentful-paint')[0]?.startTime"))
	seconds := patient.Size(600, 4*60*60)
	n, _ := strconv.Atoi(b.eval(fmt.Sprintf(day, seconds)))
	half, _ := strconv.Atoi(b.eval(fmt.Sprintf("data.train.filter(p => p[1] < %d).length", 500*seconds)))
	if n < 2000 || n > 8192 || half < n/4 {
		t.Errorf("the curve has %d points, %d of them in the first half of the time", n, half)
	}
	b.call("HeapProfiler.collectGarbage", map[string]any{}, nil)
	var heap map[string]json.Number
	b.call("Runtime.getHeapUsage", map[string]any{}, &heap)
	t.Logf("%d s, %d points, heap %v", seconds, n, heap)
	if used, _ := heap["usedSize"].Float64(); used > 50e6 {
		t.Errorf("the page uses %.0f MB of memory", used/1e6)
	}
}

// TestLivePageSaysThatTheModelOverfits: a validation loss that rises by more than a hundredth is named, and its
// best evaluation has a large dot in both charts. One that falls is not.
func TestLivePageSaysThatTheModelOverfits(t *testing.T) {
	t.Parallel()
	b := browse(t)
	board := live.NewBoard(live.Info{Hosts: make([]string, 2)})
	board.Watch(func() rank.Status { return rank.Status{Step: 1} })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	server := live.Serve(board, "", []net.Listener{ln}, nil)
	defer server.Close()
	b.open("http://" + ln.Addr().String())
	eventually(t, "the data", func() bool { return b.eval("data.run.hosts.length") == "2" })
	shown := func(losses string) string {
		return b.eval("(() => { take({status: {...data.status, step: 30, steps: 100, epochs: 10}, train: [[1, 1, .3, 1e5, 1], [2, 2, .3, 1e5, 1]], log: [], valid: " + losses + "}); render(); return $('fit').textContent + document.querySelectorAll('circle[r=\"6\"]').length })()")
	}
	if got := shown("[[1, 10, .5, .8, 0], [2, 20, .4, .9, 0]]"); got != "0" {
		t.Errorf("a loss that falls: %q", got)
	}
	if got, want := shown("[[3, 30, .41, .89, 0]]"), "the validation log-loss rises: the model overfits since epoch 2, the large dot2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
