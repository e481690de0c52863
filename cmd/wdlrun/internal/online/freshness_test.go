package online

import (
	"testing"
	"time"
)

// TestFreshness: the stages of a version are those of the newest sample that it has.
func TestFreshness(t *testing.T) {
	at := func(seconds float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(seconds * 1e9)) }
	var f freshness
	f.load(publishedAt{1, 1, at(0), at(0)}, at(0), 0)
	if f.latest.Version != 0 {
		t.Fatalf("stages of unknown samples: %+v", f.latest)
	}
	f.join(joinedAt{100, at(1), at(5)})
	f.join(joinedAt{100, at(1), at(6)}) // a commit without samples
	f.join(joinedAt{200, at(2), at(7)})
	f.join(joinedAt{300, at(3), at(8)})
	f.train(trainedAt{1, 50})
	f.train(trainedAt{5, 250})
	f.load(publishedAt{3, 3, at(9), at(10)}, at(12), 40) // 150 samples
	want := stages{3, 5, 2, 1, 2, -1, 10}
	if f.latest != want {
		t.Errorf("stages %+v, want %+v", f.latest, want)
	}
	f.answer(40, at(12.5))
	f.answer(41, at(13))
	f.answer(42, at(14))
	if want.Answer = 1; f.latest != want {
		t.Errorf("stages %+v, want %+v", f.latest, want)
	}
	if n := f.samplesAt(8); n != 400 {
		t.Errorf("%d samples at step 8, want 400", n)
	}
	f.train(trainedAt{2, 90}) // resumed
	if n := f.samplesAt(4); n != 180 {
		t.Errorf("%d samples at step 4 after a resume, want 180", n)
	}
}
