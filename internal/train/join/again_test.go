package join

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestEndedJoinContinues: the same command, day after day, joins what came since. What was decided stays.
func TestEndedJoinContinues(t *testing.T) {
	for _, mark := range []bool{false, true} {
		c := setup(t)
		c.Follow = mark
		var said []string
		c.Warn = func(line string) { said = append(said, line) }
		end := func() {
			for _, d := range []string{c.Impressions[0], c.Feedback[0]} {
				if mark {
					put(t, d, "_SUCCESS")
				}
			}
		}
		put(t, c.Impressions[0], "1.json", `{"id": 1, "ts": 1700000000}`, `{"id": 2, "ts": 1700000001}`)
		put(t, c.Feedback[0], "1.json", `{"id": 1, "ts": 1700000001}`, `{"id": 1, "ts": 1700000002}`)
		end()
		first := join(t, c)
		if again := join(t, c); again.Counts != first.Counts || len(said) != 1 || !strings.Contains(said[0], "nothing new") || strings.Contains(said[0], "remove _SUCCESS") != mark {
			t.Errorf("without new files: %+v, %q", again.Counts, said)
		}
		put(t, c.Impressions[0], "2.json", `{"id": 2, "ts": 1700000001}`, `{"id": 3, "ts": 1700000002}`, `{"id": 4, "ts": 1700000100}`)
		put(t, c.Feedback[0], "2.json", `{"id": 2, "ts": 1700000002}`, `{"id": 4, "ts": 1700000101}`)
		s := join(t, c)
		want := []string{
			`{"id": 1, "ts": 1700000000,"click":1}`,
			`{"id": 2, "ts": 1700000001,"click":0}`,
			`{"id": 3, "ts": 1700000002,"click":0}`,
			`{"id": 4, "ts": 1700000100,"click":1}`,
		}
		got := lines(t, c.Out)
		slices.Sort(got)
		counts := Counts{Impressions: 5, Feedback: 4, Samples: 4, Positives: 2, Repeated: 1, LateImpressions: 1, Unmatched: 1}
		if !slices.Equal(got, want) || s.Counts != counts || !s.Ended {
			t.Errorf("samples %q, want %q; status %+v, want %+v", got, want, s, counts)
		}
		if _, err := os.Stat(filepath.Join(c.Out, "_SUCCESS")); err != nil {
			t.Error(err)
		}
		if again := join(t, c); again.Counts != counts || len(lines(t, c.Out)) != 4 {
			t.Errorf("the state of a continued join: %+v", again)
		}
	}
}

// TestWrongFlags: a state without samples is begun again with other flags; one with samples names the flag.
func TestWrongFlags(t *testing.T) {
	c := setup(t)
	var said []string
	c.Warn = func(line string) { said = append(said, line) }
	put(t, c.Impressions[0], "a.json", `{"id": 1, "ts": 1700000000}`)
	put(t, c.Feedback[0], "a.json", `{"id": 1, "ts": 1700000001, "v": 3}`)
	run := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Run(ctx, c)
		return err
	}
	c.On[1].Value = "w"
	if err := run(); err == nil || !strings.Contains(err.Error(), `no field "w"`) {
		t.Fatal(err)
	}
	c.On[1].Value = "v"
	fatal.If(t, run())
	if got := lines(t, c.Out); len(said) != 1 || !strings.Contains(said[0], `another -value: "w", now: "v"; it has no samples, and is begun again`) || !slices.Equal(got, []string{`{"id": 1, "ts": 1700000000,"click":3}`}) {
		t.Errorf("%q, samples %q", said, got)
	}
	for _, x := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.On[1].Value = "" }, `another -value: "v", now: ""; give`},
		{func(c *Config) { c.On[0].Label = "y" }, `another -label: "click", now: "y"`},
		{func(c *Config) { c.On[1].Time = "at" }, `another -time: "ts", now: "ts=at"`},
		{func(c *Config) { c.On[0].Key = []string{"a", "b"} }, `another -key: "id", now: "a,b=id"`},
		{func(c *Config) { c.Early = true }, "another -emit: window, now: early"},
	} {
		was := c
		x.change(&c)
		if err := run(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
		c = was
	}
	c.State, c.Out = filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "out")
	c.Feedback = []string{filepath.Join(t.TempDir(), "nowhere")}
	err := run()
	if _, there := os.Stat(c.State); err == nil || !os.IsNotExist(there) {
		t.Errorf("a missing folder: %v; state: %v", err, there)
	}
}

// TestNoFeedback: a side without records is named, at the end or while the join waits for it.
func TestNoFeedback(t *testing.T) {
	c := setup(t)
	put(t, c.Impressions[0], "a.json", `{"id": 1, "ts": 1700000000}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c.Follow, c.Idle = true, 5*time.Minute
	var said []string
	c.Warn = func(line string) { said = append(said, line); cancel() }
	_, err := Run(ctx, c)
	fatal.If(t, err)
	if want := []string{"waiting for feedback " + c.Feedback[0] + " (idle 5m0s)"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	c.Follow, said = false, nil
	join(t, c)
	if want := []string{"feedback " + c.Feedback[0] + " has no usable records: all samples are negative"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}
