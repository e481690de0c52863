package join

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// setup returns a configuration with empty folders.
func setup(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	c := Config{
		Impressions: []string{filepath.Join(dir, "impressions")}, Feedback: []string{filepath.Join(dir, "feedback")},
		Out: filepath.Join(dir, "samples"), State: filepath.Join(dir, "state"), Window: 10 * time.Second,
		On:   [2]Fields{{Key: []string{"id"}, Time: "ts", Label: "click"}, {Key: []string{"id"}, Time: "ts"}},
		Poll: time.Millisecond, Ahead: time.Minute, Warn: func(line string) { t.Log(line) },
	}
	for _, d := range []string{c.Impressions[0], c.Feedback[0]} {
		fatal.If(t, os.Mkdir(d, 0o755))
	}
	return c
}

// put writes a file as a whole.
func put(t *testing.T, dir, name string, lines ...string) {
	t.Helper()
	path := filepath.Join(dir, name)
	fatal.If(t, os.WriteFile(path+".part", []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	fatal.If(t, os.Rename(path+".part", path))
}

// lines returns the lines of all finished files of a folder.
func lines(t *testing.T, dir string) (all []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+outputSuffix))
	fatal.If(t, err)
	for _, name := range names {
		f, err := os.Open(name)
		fatal.If(t, err)
		defer f.Close()
		s := bufio.NewScanner(f)
		for s.Scan() {
			all = append(all, s.Text())
		}
		fatal.If(t, s.Err())
	}
	return all
}

func join(t *testing.T, c Config) Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Run(ctx, c)
	fatal.If(t, err)
	if ctx.Err() != nil {
		t.Fatal("the join does not end")
	}
	return s
}

func TestJoin(t *testing.T) {
	c := setup(t)
	put(t, c.Impressions[0], "a.json",
		`{"id": 1, "ts": 1700000000, "user": {"age": 30}, "tags": ["x", null]}`,
		`{"id": 2, "ts": "2023-11-14T22:13:21.5Z", "price": NaN}`,
		`{"id": 2, "ts": 1700000001500}`, // again
		`{"id": 3, "ts": 1700000002}`,
		`{"ts": 1700000002}`,
		`{"id": 5, "ts": "yesterday"}`,
		`{"id": 7, "ts": 99999999999}`,
		`{"id": 8, `)
	put(t, c.Impressions[0], "b.json", `{"id": 6, "ts": 1700000002, "click": 1}`)
	put(t, c.Feedback[0], "a.csv", "id,ts", "1,1700000010", "1,1700000003", "3,1700000012.001", "9,1700000004")
	s := join(t, c)
	want := []string{
		`{"id": 1, "ts": 1700000000, "user": {"age": 30}, "tags": ["x", null],"click":1}`,
		`{"id": 2, "ts": "2023-11-14T22:13:21.5Z", "price": NaN,"click":0}`,
		`{"id": 3, "ts": 1700000002,"click":0}`,
	}
	if got := lines(t, c.Out); !slices.Equal(got, want) {
		t.Errorf("samples:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	counts := Counts{Impressions: 4, Feedback: 4, Samples: 3, Positives: 1, Duplicates: 1, Repeated: 1, Unmatched: 2, Bad: 5}
	if s.Counts != counts || !s.Ended || s.Open != 0 {
		t.Errorf("status %+v, want %+v", s, counts)
	}
	rejected := strings.Join(lines(t, filepath.Join(c.State, "rejected")), "\n")
	for _, part := range []string{"no key", "no time", `label of samples`, `"place"`, "in the future", "a.json:5", "a.json:6", "a.json:7", "a.json:8", "b.json:1", `"reason":"no open impression: none with this key, or its window had ended","record":{"id":"9","ts":"1700000004"}`} {
		if !strings.Contains(rejected, part) {
			t.Errorf("rejected records lack %q:\n%s", part, rejected)
		}
	}
	if _, err := os.Stat(filepath.Join(c.Out, "_SUCCESS")); err != nil {
		t.Error(err)
	}
	if again := join(t, c); again.Counts != s.Counts || len(lines(t, c.Out)) != len(want) {
		t.Errorf("a second run changed the state: %+v", again)
	}
}

// TestValuesAndEarlySamples: a label with a value, several fields of a key, and samples at once.
func TestValuesAndEarlySamples(t *testing.T) {
	c := setup(t)
	c.Early = true
	c.On[0].Key, c.On[1].Key = []string{"request", "item"}, []string{"r", "i"}
	c.On[1].Value, c.On[0].Label = "seconds", "watched"
	put(t, c.Impressions[0], "a.json", `{"request": "r1", "item": "a", "ts": 1700000000}`, `{"request": "r1", "item": "b", "ts": 1700000000}`)
	put(t, c.Feedback[0], "a.json", `{"r": "r1", "i": "b", "ts": 1700000001, "seconds": 2.5}`, `{"r": "r1", "i": "a", "ts": 1700000001}`)
	s := join(t, c)
	got := lines(t, c.Out)
	slices.Sort(got)
	want := []string{
		`{"request": "r1", "item": "a", "ts": 1700000000,"watched":0}`,
		`{"request": "r1", "item": "b", "ts": 1700000000,"watched":0}`,
		`{"request": "r1", "item": "b", "ts": 1700000000,"watched":2.5}`,
	}
	if !slices.Equal(got, want) || s.Bad != 1 {
		t.Errorf("samples %q, want %q; %d bad", got, want, s.Bad)
	}
}

// writer writes random events in files, over time.
type writer struct {
	r           *rand.Rand
	now         int64
	key, file   int
	want        map[string]int // label by key
	impressions []string
	feedback    []string
}

// more makes events of the next second.
func (w *writer) more() {
	w.now += 1000
	for range 20 {
		w.key++
		key, shown := strconv.Itoa(w.key), w.now+w.r.Int64N(1000)
		w.impressions = append(w.impressions, fmt.Sprintf(`{"id": %q, "ts": %d, "pad": "%0*d"}`, key, shown, w.r.IntN(5000), 0))
		if w.want[key] = 0; w.r.IntN(3) == 0 {
			w.want[key] = 1
			w.feedback = append(w.feedback, fmt.Sprintf(`{"id": %q, "ts": %d}`, key, shown+w.r.Int64N(900)))
		}
	}
}

// flush moves the events into the folders.
func (w *writer) flush(t *testing.T, c Config) {
	w.file++
	name := fmt.Sprintf("%06d.json", w.file)
	put(t, c.Impressions[0], name, w.impressions...)
	put(t, c.Feedback[0], name, w.feedback...)
	w.impressions, w.feedback = nil, nil
}

// labels returns the label by key of samples. A key that occurs twice is an error.
func labels(t *testing.T, c Config) map[string]int {
	t.Helper()
	got := map[string]int{}
	for _, line := range lines(t, c.Out) {
		var s struct {
			ID    string `json:"id"`
			Click int    `json:"click"`
		}
		fatal.If(t, json.Unmarshal([]byte(line), &s))
		if _, twice := got[s.ID]; twice {
			t.Errorf("impression %s is in two samples", s.ID)
		}
		got[s.ID] = s.Click
	}
	return got
}

// TestEachSampleOnce: a join that is ended anywhere, and whose files lose what was not synced, makes each
// sample once when it is continued.
func TestEachSampleOnce(t *testing.T) {
	c := setup(t)
	c.Delay, c.Follow = 2*time.Second, true
	w := &writer{r: rand.New(rand.NewPCG(3, 3)), now: 1_700_000_000_000, want: map[string]int{}}
	ended := false
	for round := 0; !ended; round++ {
		if round == 25 {
			for _, d := range []string{c.Impressions[0], c.Feedback[0]} {
				put(t, d, "_SUCCESS")
			}
			c.Follow = false
		}
		for range 3 {
			if w.more(); round < 25 {
				w.flush(t, c)
			}
		}
		if round > 60 {
			t.Fatal("the join does not end")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // when it has read everything
		if round >= 40 {
			ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		}
		commits := w.r.IntN(8)
		c.Commit = func(s Status) {
			if commits--; commits < 0 && round < 40 {
				cancel()
			}
		}
		s, err := Run(ctx, c)
		cancel()
		fatal.If(t, err)
		if ended = s.Ended; !ended {
			damage(t, c, w.r)
		}
	}
	for key := range w.want { // those that were not flushed
		if n, _ := strconv.Atoi(key); n > 25*3*20 {
			delete(w.want, key)
		}
	}
	if got := labels(t, c); !maps.Equal(got, w.want) {
		t.Errorf("%d samples of %d impressions, or other labels", len(got), len(w.want))
	}
}

// damage does to the files of a join what a loss of power may do behind the last commit.
func damage(t *testing.T, c Config, r *rand.Rand) {
	t.Helper()
	numbers, err := segmentsIn(c.State)
	fatal.If(t, err)
	f, err := os.OpenFile(filepath.Join(c.State, segmentName(numbers[len(numbers)-1])), os.O_APPEND|os.O_WRONLY, 0)
	fatal.If(t, err)
	tail := make([]byte, r.IntN(100))
	for i := range tail {
		tail[i] = byte(r.Uint32())
	}
	_, err = f.Write(tail)
	fatal.If(t, errors.Join(err, f.Close()))
	b, err := os.ReadFile(filepath.Join(c.State, StatusFile))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	fatal.If(t, err)
	var s Status
	fatal.If(t, json.Unmarshal(b, &s))
	fatal.If(t, os.WriteFile(filepath.Join(c.Out, outputName(s.Commits+1)+partSuffix), []byte("half a sam"), 0o644))
	last := filepath.Join(c.Out, outputName(s.Commits))
	if r.IntN(2) == 0 { // the rename of the last commit is lost
		if err := os.Rename(last, last+partSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// TestEndWhileLooking: a request to end, wherever it comes, is no error.
func TestEndWhileLooking(t *testing.T) {
	c := setup(t)
	c.Follow = true
	for n := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*20*time.Microsecond)
		_, err := Run(ctx, c)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	in := &input{j: &joiner{Config: c}, pattern: c.Impressions[0], sources: map[string]int{}}
	in.j.machine = NewMachine(Rules{}, discard{})
	fatal.If(t, in.watch())
	defer in.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := in.read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a look that is ended: %v", err)
	}
}
