package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// joinArgs are the flags of the joins of this file.
func joinArgs(more ...string) []string {
	return append([]string{"join", "-impressions", "shown", "-feedback", "clicks", "-out", "samples", "-key", "id", "-time", "ts", "-window", "10s", "-delay", "2s", "-poll", "5ms"}, more...)
}

// moved writes a file of lines into a folder as a whole.
func moved(t *testing.T, dir, folder, name string, lines []string) {
	t.Helper()
	fatal.If(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	write(t, filepath.Join(dir, folder), name+".part", strings.Join(lines, "\n")+"\n")
	fatal.If(t, os.Rename(filepath.Join(dir, folder, name+".part"), filepath.Join(dir, folder, name)))
}

// joinLog writes n files of impressions and clicks and returns the label of each impression.
func joinLog(t *testing.T, dir string, first, n int, want map[string]int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(first), 5))
	for file := first; file < first+n; file++ {
		var shown, clicks []string
		for i := range 200 {
			id, at := fmt.Sprintf("r%d-%d", file, i), 1_700_000_000_000+int64(file)*1000+r.Int64N(1000)
			shown = append(shown, fmt.Sprintf(`{"id": %q, "ts": %d, "site": "s%d"}`, id, at, i%7))
			if want[id] = 0; r.IntN(4) == 0 {
				want[id] = 1
				clicks = append(clicks, fmt.Sprintf(`{"id": %q, "ts": %d}`, id, at+r.Int64N(900)))
			}
		}
		moved(t, dir, "shown", fmt.Sprintf("%05d.json", file), shown)
		moved(t, dir, "clicks", fmt.Sprintf("%05d.json", file), clicks)
	}
}

// checkSamples compares the samples in a folder with the labels of all impressions.
func checkSamples(t *testing.T, dir string, want map[string]int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "samples", "*.jsonl"))
	fatal.If(t, err)
	seen, wrong := map[string]bool{}, 0
	for _, name := range names {
		for line := range strings.Lines(readText(t, name)) {
			var s struct {
				ID    string
				Label int
			}
			fatal.If(t, json.Unmarshal([]byte(line), &s))
			if label, known := want[s.ID]; seen[s.ID] || !known || label != s.Label {
				wrong++
			}
			seen[s.ID] = true
		}
	}
	if wrong > 0 || len(seen) != len(want) {
		t.Errorf("%d samples of %d impressions; %d are wrong or repeated", len(seen), len(want), wrong)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	return string(b)
}

// TestJoinIsKilled: a join that is killed at any point (50 times with -whole), and one whose disk is full, make each
// sample once when they are started again.
func TestJoinIsKilled(t *testing.T) {
	t.Parallel()
	dir, kills := t.TempDir(), patient.Size(8, 50)
	want := map[string]int{}
	r := rand.New(rand.NewPCG(1, 9))
	for i := range kills {
		joinLog(t, dir, i*4, 4, want)
		cmd := command(t, dir, joinArgs("-follow")...)
		fatal.If(t, cmd.Start())
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond)
		fatal.If(t, cmd.Process.Kill())
		cmd.Wait() // killed
	}
	joinLog(t, dir, kills*4, 40, want)
	bin, err := wdlrun()
	fatal.If(t, err)
	full := exec.Command("sh", append([]string{"-c", `ulimit -f 64; exec "$0" "$@"`, bin}, joinArgs()...)...)
	full.Dir = dir
	if text, err := full.CombinedOutput(); err == nil || !containsAll(string(text), "wdlrun: join:", "file too large") || strings.Contains(string(text), "goroutine") {
		t.Errorf("a full disk: %v\n%s", err, text)
	}
	for _, folder := range []string{"shown", "clicks"} {
		write(t, filepath.Join(dir, folder), "_SUCCESS", "")
	}
	last := run(t, dir, joinArgs("-follow", "--json")...)
	var s struct {
		Samples  int
		Rejected int `json:"late_feedback"`
		Ended    bool
	}
	if last.code != 0 || json.Unmarshal([]byte(last.stdout), &s) != nil || s.Samples != len(want) || !s.Ended {
		t.Fatalf("the last run: %+v", last)
	}
	checkSamples(t, dir, want)
	if other := run(t, dir, joinArgs("-window", "20s")...); other.code == 0 || !strings.Contains(other.stderr, "begun with another -window: 10s, now: 20s") {
		t.Errorf("another window: %+v", other)
	}
}

// TestJoinEndsOnRequest: SIGTERM ends a join that follows with 0, and the next run continues it.
func TestJoinEndsOnRequest(t *testing.T) {
	t.Parallel()
	dir, want := t.TempDir(), map[string]int{}
	joinLog(t, dir, 0, 30, want)
	cmd := command(t, dir, joinArgs("-follow", "-metrics", "127.0.0.1:0")...)
	said := &notes{}
	cmd.Stderr = said
	fatal.If(t, cmd.Start())
	status := filepath.Join(dir, "samples.state", "status.json")
	eventually(t, "samples", func() bool {
		b, err := os.ReadFile(status)
		return err == nil && strings.Contains(string(b), `"samples":`) && !strings.Contains(string(b), `"samples":0,`)
	})
	_, address, _ := strings.Cut(said.String(), "metrics: ")
	address, _, _ = strings.Cut(address, "\n")
	answer, err := http.Get(address)
	fatal.If(t, err)
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	fatal.If(t, err)
	if !containsAll(string(page), `wdlrun_join_samples_total{label="positive"}`, `wdlrun_join_source_seconds{source="impressions shown"}`) {
		t.Errorf("metrics:\n%s", page)
	}
	fatal.If(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if o := run(t, dir, joinArgs()...); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	checkSamples(t, dir, want)
}

// TestJoinOfTopics: impressions and clicks of the partitions of topics.
func TestJoinOfTopics(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "shown", "clicks"))
	fatal.If(t, err)
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()[0]))
	fatal.If(t, err)
	defer cl.Close()
	dir, want := t.TempDir(), map[string]int{}
	for i := range 300 {
		id := fmt.Sprintf("r%d", i)
		at := time.UnixMilli(1_700_000_000_000 + int64(i)*10)
		all := []*kgo.Record{{Topic: "shown", Timestamp: at, Value: fmt.Appendf(nil, `{"id": %q}`, id)}}
		if want[id] = 0; i%3 == 0 {
			want[id] = 1
			all = append(all, &kgo.Record{Topic: "clicks", Timestamp: at.Add(time.Second), Value: fmt.Appendf(nil, `{"id": %q}`, id)})
		}
		fatal.If(t, cl.ProduceSync(context.Background(), all...).FirstErr())
	}
	topic := "kafka://" + c.ListenAddrs()[0] + "/"
	o := run(t, dir, "join", "-impressions", topic+"shown", "-feedback", topic+"clicks", "-out", "samples", "-key", "id", "-time", "_time", "-poll", "5ms")
	if o.code != 0 {
		t.Fatalf("%+v", o)
	}
	checkSamples(t, dir, want)
}

// TestJoinRejects: what cannot be joined is named with what to do.
func TestJoinRejects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	joinLog(t, dir, 0, 1, map[string]int{})
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"-key", "idd"}, `its records have no field "idd"; did you mean "id"? There are id, ts, site`},
		{[]string{"-label", "site"}, `impressions have a field "site"`},
		{[]string{"-out", "shown"}, "shown is an input and the folder of samples"},
		{[]string{"-emit", "late"}, "there are window and early"},
		{[]string{"-feedback", "nowhere"}, "nowhere"},
	} {
		o := run(t, dir, append(joinArgs("-state", "s"+x.args[0]), x.args...)...)
		if o.code == 0 || !strings.Contains(o.stderr, x.want) || strings.Contains(o.stderr, "data.follow") {
			t.Errorf("%v: code %d, %s", x.args, o.code, o.stderr)
		}
	}
}
