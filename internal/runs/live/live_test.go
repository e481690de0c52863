package live

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// shown returns a board of two ranks with values of every kind.
func shown() *Board {
	b := NewBoard(Info{Version: "0.1.0", Hosts: []string{"a", "b<i>"}})
	b.Watch(func() rank.Status {
		return rank.Status{Step: 60, Steps: 120, Epoch: 1, Epochs: 2, Phase: "compute", Samples: 4000, SamplesPerSecond: 1000, Loss: 0.5, RunDir: "runs/x"}
	})
	for i := range 40 {
		b.Step(time.Duration(i+1)*time.Millisecond, 50)
		if i == 0 {
			b.Trained(1, math.NaN(), 0, 1)
		}
	}
	b.Trained(20, 0.5, 1000, 0.5)
	auc := 0.875
	b.Evaluated(30, &metrics.Metrics{AUC: &auc, LogLoss: 0.25}, false)
	b.Evaluated(40, &metrics.Metrics{LogLoss: 0.75}, true)
	u := Update{Ranks: make([]Rank, 2), Tables: []Table{{Name: "user\"\n", Rows: 7, Bytes: 700, Inserted: 9, Evicted: 2, Sent: 99}}, Slow: []Slow{{Rank: 1, Cause: "compute", Factor: 2.5}}, LeftOut: LeftOut{Bad: 3, Files: 2, Lost: 18}}
	for i := range u.Ranks {
		u.Ranks[i] = Rank{CPU: 2 * time.Second}
		for _, p := range phases {
			u.Ranks[i].Phases[p] = time.Duration(int(p)*(i+1)) * time.Second
		}
	}
	b.Gathered(u)
	b.Log("epoch 1 of 2", false)
	b.Log("<script>alert(1)</script>\x00\xff"+strings.Repeat("x", 1<<20), true)
	return b
}

// served serves a board on a loopback address.
func served(t *testing.T, b *Board, token string) (s *Server, url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	s = Serve(b, token, []net.Listener{ln}, nil)
	t.Cleanup(s.Close)
	return s, "http://" + ln.Addr().String()
}

func get(t *testing.T, url string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	fatal.If(t, err)
	if change != nil {
		change(r)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	fatal.If(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fatal.If(t, err)
	return resp, string(body)
}

// TestMetrics compares the names, types and values with a golden file, and has promtool
// check them.
func TestMetrics(t *testing.T) {
	b := shown()
	b.checkpoints, b.saved = []int64{40, 20}, time.Unix(1700000000, 0)
	_, url := served(t, b, "")
	_, text := get(t, url+"/metrics", nil)
	var own strings.Builder
	for line := range strings.Lines(text) {
		if regexp.MustCompile(`^(# (HELP|TYPE) )?wdlrun_`).MatchString(line) {
			own.WriteString(regexp.MustCompile(`goversion="[^"]*"`).ReplaceAllString(line, `goversion="go"`))
		}
	}
	golden.Check(t, "metrics.txt", own.String())
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool of Debian's prometheus")
	}
	for _, args := range [][]string{{"check", "metrics"}, {"check", "rules", filepath.Join("..", "..", "..", "examples", "monitoring", "alerts.yaml")}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
}

// TestWaitingAndGuard: /metrics has how long the stream has been away, and what the guard finds bad.
func TestWaitingAndGuard(t *testing.T) {
	b := shown()
	_, url := served(t, b, "")
	b.Waiting(time.Now().Add(-time.Minute))
	b.Guard("auc", "the AUC is low")
	b.Behind([]stream.Lag{{Topic: "clicks", Number: 3, Records: 17}})
	_, text := get(t, url+"/metrics", nil)
	for _, want := range []string{"wdlrun_waiting_seconds 6", `wdlrun_stream_lag_records{partition="3",topic="clicks"} 17`, `wdlrun_guard_bad{check="auc"} 1`, `wdlrun_guard_bad{check="rate"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if m, _ := b.since(cursor{}); m.Guard == nil || *m.Guard != "the AUC is low" {
		t.Errorf("the page has the guard %v", m.Guard)
	}
	b.Waiting(time.Time{})
	b.Guard("", "")
	_, text = get(t, url+"/metrics", nil)
	if !strings.Contains(text, "wdlrun_waiting_seconds 0\n") || !strings.Contains(text, `wdlrun_guard_bad{check="auc"} 0`) {
		t.Error("after that, they are not 0")
	}
}

// TestDashboardAndAlerts use metrics that exist.
func TestDashboardAndAlerts(t *testing.T) {
	known, err := os.ReadFile(filepath.Join("testdata", "metrics.txt"))
	fatal.If(t, err)
	for _, name := range []string{"alerts.yaml", "grafana.json"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "monitoring", name))
		fatal.If(t, err)
		if strings.HasSuffix(name, ".json") && !json.Valid(text) {
			t.Errorf("%s is not JSON", name)
		}
		used := regexp.MustCompile(`wdlrun_[a-z_]+`).FindAllString(string(text), -1)
		if len(used) < 4 {
			t.Errorf("%s uses only %q", name, used)
		}
		for _, metric := range used {
			if !bytes.Contains(known, []byte("# TYPE "+strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(metric, "_sum"), "_count"), "_bucket")+" ")) {
				t.Errorf("%s uses %s, which is not exported", name, metric)
			}
		}
	}
}

// events returns the first n messages to a browser, and calls then after the first one.
func events(t *testing.T, url string, n int, then func()) (all []message) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/events", nil)
	fatal.If(t, err)
	resp, err := (&http.Transport{}).RoundTrip(r)
	fatal.If(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for len(all) < n {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		if b, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			var m message
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatalf("%v in %s", err, b)
			}
			if all = append(all, m); len(all) == 1 {
				then()
			}
		}
	}
	return all
}

// TestEvents: the first message has everything, the next only what is new, the last the
// outcome.
func TestEvents(t *testing.T) {
	b := shown()
	_, url := served(t, b, "")
	all := events(t, url, 3, func() {
		b.Trained(60, 0.25, 2000, 1)
		b.End("40 steps", true)
	})
	if len(all) < 2 {
		t.Fatalf("%d messages, want the first and the end", len(all))
	}
	first, last := all[0], all[len(all)-1]
	if len(all) == 3 { // the server sent one between the point and the end
		last.Train = append(all[1].Train, last.Train...)
	}
	if !first.All || len(first.Train) != 2 || len(first.Valid) != 2 || len(first.Log) != 2 || len(first.Log[1].Text) > longestLine+8 || first.Run.Hosts[1] != "b<i>" {
		t.Errorf("first: %+v", first)
	}
	if got := first.Ranks; len(got.Total) != 2 || got.Total[1][0] != number(2*trace.Input) || got.Tables[0].Rows != 7 || got.Slow[0].Factor != 2.5 {
		t.Errorf("ranks: %+v", got)
	}
	if want := number(0.021 * 60); math.Abs(float64(first.Status.Left-want)) > 1e-9 {
		t.Errorf("%v seconds are left, want %v", first.Status.Left, want)
	}
	if last.All || len(last.Train) != 1 || last.Train[0][1] != 60 || len(last.Log) > 0 || last.Ranks != nil || last.End == nil || !last.End.Good {
		t.Errorf("last: %+v", last)
	}
}

// TestRecentSplit covers the last updates.
func TestRecentSplit(t *testing.T) {
	b := NewBoard(Info{})
	for i := range 25 {
		r := Rank{}
		r.Phases[trace.Input] = time.Duration(i) * time.Second
		b.Gathered(Update{Ranks: []Rank{r}})
	}
	m, _ := b.since(cursor{})
	if m.Ranks.Total[0][0] != 24 || m.Ranks.Recent[0][0] != 9 {
		t.Errorf("%v s in all, %v s in the last updates, want 24 and 9", m.Ranks.Total, m.Ranks.Recent)
	}
}

// TestTheLastSlowRank stays on the page, with its time, when no rank is slow any more.
func TestTheLastSlowRank(t *testing.T) {
	b := NewBoard(Info{})
	ranks := func(slow ...Slow) *ranksMessage {
		b.Gathered(Update{Slow: slow})
		m, _ := b.since(cursor{})
		return m.Ranks
	}
	if m := ranks(); m.LastAt != 0 || len(m.Last) != 0 {
		t.Errorf("before any rank was slow: %+v", m)
	}
	during := ranks(Slow{Rank: 1, Cause: "input", Factor: 3})
	time.Sleep(2 * time.Millisecond)
	after := ranks()
	if len(after.Slow) != 0 || len(after.Last) != 1 || after.Last[0] != during.Slow[0] || after.LastAt != during.LastAt || after.LastAt < b.made.UnixMilli() {
		t.Errorf("during %+v, after %+v", during, after)
	}
}

// TestABrowserThatReadsNothing delays no call of the job, and browsers beyond the limit
// are rejected.
func TestABrowserThatReadsNothing(t *testing.T) {
	b := shown()
	s, url := served(t, b, "")
	for range maxClients {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		fatal.If(t, err)
		defer c.Close()
		fmt.Fprintf(c, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	for len(s.clients) < maxClients {
		time.Sleep(time.Millisecond)
	}
	if resp, _ := get(t, url+"/events", nil); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one browser more: %s", resp.Status)
	}
	for i := range 100_000 {
		b.Trained(int64(i), 1, 1, 1)
		b.Log("line", false)
	}
	if n := len(b.train.Points()); n > maxPoints {
		t.Errorf("%d points are kept", n)
	}
}

// TestStepAllocatesNothing, also on a nil board.
func TestStepAllocatesNothing(t *testing.T) {
	for _, b := range []*Board{nil, NewBoard(Info{})} {
		if n := testing.AllocsPerRun(100, func() { b.Step(time.Millisecond, 64) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// TestWhoMayRead: with a token, clients that have it; without one, only this machine.
func TestWhoMayRead(t *testing.T) {
	const secret = "0123456789abcdef"
	_, open := served(t, shown(), "")
	_, closed := served(t, shown(), secret)
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	cookie := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: tokenCookie, Value: secret}) }
	for _, c := range []struct {
		url    string
		change func(*http.Request)
		want   int
	}{
		{open + "/", nil, 200},
		{open + "/", host("localhost:6060"), 200},
		{open + "/", host("[::1]:6060"), 200},
		{open + "/events", host("evil.example"), 403},
		{open + "/metrics", host("evil.example:6060"), 403},
		{open + "/none", nil, 404},
		{closed + "/", nil, 401},
		{closed + "/events", bearer(secret + "x"), 401},
		{closed + "/?token=" + secret[1:], nil, 401},
		{closed + "/?token=" + secret, nil, 303},
		{closed + "/", cookie, 200},
		{closed + "/metrics", bearer(secret), 200},
		{closed + "/live.js", cookie, 200},
	} {
		resp, body := get(t, c.url, c.change)
		if resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d\n%s", c.url, resp.Status, c.want, body)
		}
		if !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'self';") {
			t.Errorf("%s has no policy", c.url)
		}
	}
}

func TestCheck(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:6060": "", "localhost:0": "", "[::1]:6060": "",
		"0.0.0.0:6060": "other machines reach", ":6061": "ssh -L 6061:127.0.0.1:6061 HOST", "0.0.0.0:http": "ssh -L 80:127.0.0.1:80 HOST", ":0": "ssh -L PORT:127.0.0.1:PORT HOST", "a.example:6060": "other machines reach",
		"6060": "not an address", "127.0.0.1:": "no port", "127.0.0.1:99999": "no port",
	} {
		err := Check(addr, false)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
	}
	if err := Check("0.0.0.0:6060", true); err != nil {
		t.Error(err)
	}
}

// TestAnEarlierJobIsShown before this job's points.
func TestAnEarlierJobIsShown(t *testing.T) {
	dir := t.TempDir()
	lines := `{"event":"train","time":"2026-11-23T13:00:00Z","step":20,"epoch":1,"samples":200,"logloss":0.5,"rate":1,"samples_per_second":10}
{"event":"valid","time":"2026-11-23T13:00:01Z","step":20,"epoch":1,"samples":200,"logloss":0.4,"metrics":{"auc":0.75}}
{"event":"train","time":"2999-11-23T13:00:00Z","step":40,"epoch":1,"samples":200,"logloss":0.4,"rate":1,"samples_per_second":10}
`
	fatal.If(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(lines), 0o644))
	fatal.If(t, os.MkdirAll(filepath.Join(dir, "checkpoints", "step-000000020"), 0o755))
	b := NewBoard(Info{})
	b.Watch(func() rank.Status { return rank.Status{RunDir: dir} })
	b.Trained(40, 0.25, 1, 1)
	_, at := b.since(cursor{})
	b.readRun()
	m, _ := b.since(at)
	if !m.All || len(m.Train) != 2 || m.Train[0][1] != 20 || m.Train[1][1] != 40 || len(m.Valid) != 1 || m.Valid[0][3] != 0.75 || len(m.Checkpoints) != 1 || m.Checkpoints[0] != 20 {
		t.Errorf("%+v", m)
	}
}
