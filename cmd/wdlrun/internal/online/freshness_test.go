package online

import (
	"strings"
	"testing"
	"time"
)

// TestFreshness checks the times of a version, which are those of its newest sample.
func TestFreshness(t *testing.T) {
	at := func(seconds float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(seconds * 1e9)) }
	var f freshness
	f.load(publishedAt{1, 1, at(0), at(0), nil}, at(0))
	if f.latest.Version != 0 || f.distribution() != nil {
		t.Fatalf("stages of unknown samples: %+v", f.latest)
	}
	f.join(joinedAt{100, at(1), at(5)})
	f.join(joinedAt{100, at(1), at(6)}) // a commit without samples
	f.join(joinedAt{200, at(2), at(7)})
	f.join(joinedAt{300, at(3), at(8)})
	f.train(trainedAt{1, 50})
	f.train(trainedAt{5, 250})
	f.load(publishedAt{3, 3, at(9), at(10), nil}, at(12)) // 150 samples
	if want := (stages{3, nil, 5, 2, 1, 2, 10}); f.latest != want {
		t.Errorf("stages %+v, want %+v", f.latest, want)
	}
	f.load(publishedAt{3, 3, at(9), at(10), nil}, at(13))
	f.load(publishedAt{4, 5, at(9), at(10), nil}, at(11)) // 250 samples
	if got := f.distribution(); got == nil || *got != (spread{2, 8, 10}) || got.line() != "of the last 2 versions, half within 8.00 s, 99 % within 10.00 s" {
		t.Errorf("spread %+v", got)
	}
	if n := f.samplesAt(8); n != 400 {
		t.Errorf("%d samples at step 8, want 400", n)
	}
	f.train(trainedAt{2, 90}) // resumed
	if n := f.samplesAt(4); n != 180 {
		t.Errorf("%d samples at step 4 after a resume, want 180", n)
	}
}

// TestFreshnessIsOfTheLoadedVersion checks that online shows the stages of the newest loaded version, even before it
// answers a request. The stages add up to the whole time. A version without known times has no stages.
func TestFreshnessIsOfTheLoadedVersion(t *testing.T) {
	at := func(seconds float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(seconds * 1e9)) }
	version := func(n int64, taken, visible float64) publishedAt {
		return publishedAt{n, n, at(taken), at(visible), nil}
	}
	f := freshness{before: 50}
	f.join(joinedAt{50, at(-100), at(-99)})
	f.join(joinedAt{100, at(1), at(5)})
	f.join(joinedAt{900, at(20), at(21)})
	f.train(trainedAt{90, 900})
	check := func(what string, want stages, line string) {
		t.Helper()
		got := f.latest
		said := got.line()
		back := got.Rollback
		if got.Rollback = nil; got != want || (back != nil) != strings.Contains(line, "rollback") || !strings.Contains(said, line) {
			t.Errorf("%s: %+v, %q, want %+v, %q", what, got, said, want, line)
		}
	}
	f.load(version(5, -98, -97), at(0))
	check("joined before the loop", stages{5, nil, -1, -1, -1, -1, -1}, "version 5: the times of its samples are not known")
	f.load(version(10, 4, 7), at(9))
	check("taken before the commit of the join", stages{10, nil, 3, 0, 3, 2, 8}, "8.00 s from event to loaded")
	f.load(version(20, 22, 23), at(24))
	check("the next version", stages{20, nil, 1, 1, 1, 1, 4}, "version 20: event → 1.00 s → joined → 1.00 s → trained → 1.00 s → published → 1.00 s → loaded; 4.00 s from event to loaded")
	back := int64(20)
	f.load(publishedAt{41, 20, at(22), at(44), &back}, at(45))
	check("a rollback", stages{41, nil, -1, -1, -1, -1, -1}, "version 41: a rollback to version 20")
	f.load(publishedAt{number: 50}, at(50))
	check("a version of another program", stages{50, nil, -1, -1, -1, -1, -1}, "version 50: the times")
}

// TestServed reads the version, its age and the version that has answered from metrics.
func TestServed(t *testing.T) {
	w := loopWatch{model: "ctr"}
	const page = `# HELP x
wdlrun_serve_answered_version{model="ctr"} 4706
wdlrun_serve_first_answer_seconds{model="ctr"} 0.02
wdlrun_serve_version{model="other"} 9
wdlrun_serve_version{model="ctr"} 4.707e+03
wdlrun_serve_version_age_seconds{model="ctr"} 1.5
wdlrun_serve_rows_total{model="ctr"} 7
`
	now := time.Unix(1000, 0)
	version, since, err := w.serving([]byte(page), now)
	if err != nil || version != 4707 || now.Sub(since) != 1500*time.Millisecond || w.answered == nil || *w.answered != (answered{4706, .02}) {
		t.Errorf("version %d since %v, answered %+v: %v", version, since, w.answered, err)
	}
	if line := w.answered.line(); line != "version 4706 gave its first answer 0.02 s after it was loaded" {
		t.Error(line)
	}
	if _, _, err := w.serving([]byte("wdlrun_serve_version{model=\"ctr\"} x\n"), now); err == nil {
		t.Error("no error for a page that is not one of metrics")
	}
}
