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
	f.load(publishedAt{1, 1, at(0), at(0), nil}, at(0), 0)
	if f.latest.Version != 0 {
		t.Fatalf("stages of unknown samples: %+v", f.latest)
	}
	f.join(joinedAt{100, at(1), at(5)})
	f.join(joinedAt{100, at(1), at(6)}) // a commit without samples
	f.join(joinedAt{200, at(2), at(7)})
	f.join(joinedAt{300, at(3), at(8)})
	f.train(trainedAt{1, 50})
	f.train(trainedAt{5, 250})
	f.load(publishedAt{3, 3, at(9), at(10), nil}, at(12), 40) // 150 samples
	want := stages{3, nil, 5, 2, 1, 2, -1, 10}
	if f.latest != want {
		t.Errorf("stages %+v, want %+v", f.latest, want)
	}
	f.answer(40, at(12.5))
	f.answer(41, at(13))
	f.answer(42, at(14))
	if want.Answer = 1; f.latest != want {
		t.Errorf("stages %+v, want %+v", f.latest, want)
	}
	f.load(publishedAt{4, 5, at(9), at(10), nil}, at(11), 42) // 250 samples
	if got := f.spread(); got == nil || *got != (spread{2, 8, 10}) {
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

// TestFreshnessIsOfTheServedVersion: the stages follow the versions without requests and through a new process of the
// server. They have the sum of the whole time; versions without known times have none.
func TestFreshnessIsOfTheServedVersion(t *testing.T) {
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
		got := f.known(f.version.loaded.Add(time.Second))
		said := got.line()
		back := got.Rollback
		if got.Rollback = nil; got != want || (back != nil) != strings.Contains(line, "rollback") || !strings.Contains(said, line) {
			t.Errorf("%s: %+v, %q, want %+v, %q", what, got, said, want, line)
		}
	}
	f.load(version(5, -98, -97), at(0), 0)
	check("joined before the loop", stages{5, nil, -1, -1, -1, -1, -1, -1}, "version 5: the times of its samples are not known")
	f.load(version(10, 4, 7), at(9), 0)
	f.answer(10, at(10))
	check("taken before the commit of the join", stages{10, nil, 3, 0, 3, 2, 1, 8}, "8.0 s from event to loaded")
	f.load(version(20, 22, 23), at(24), 10) // of another process of the server, that has scored nothing
	f.answer(0, at(24))
	f.answer(1, at(25))
	check("a server that was started again", stages{20, nil, 1, 1, 1, 1, 1, 4}, "first answer")
	f.load(version(30, 30, 31), at(33), 1)
	check("not answered yet", stages{20, nil, 1, 1, 1, 1, 1, 4}, "version 20")
	f.load(version(40, 40, 41), at(43), 1)
	check("no requests", stages{40, nil, 1, 19, 1, 2, -1, 23}, "version 40")
	back := int64(20)
	f.load(publishedAt{41, 20, at(22), at(44), &back}, at(45), 1)
	check("a rollback", stages{41, nil, -1, -1, -1, -1, -1, -1}, "version 41: a rollback to version 20")
	f.answer(2, at(46))
	check("a rollback that answers", stages{41, nil, -1, -1, -1, -1, -1, -1}, "version 41: a rollback to version 20")
	f.load(publishedAt{number: 50}, at(50), 2)
	check("a version of another program", stages{50, nil, -1, -1, -1, -1, -1, -1}, "version 50: the times")
}
