package data

import "testing"

// TestTrialBeats: with fewer rows of the rarer class, a larger difference is chance.
func TestTrialBeats(t *testing.T) {
	for _, c := range []struct {
		with, without float64
		rarer         int64
		want          bool
	}{
		{.5, .5, 10_000, false}, {.4994, .5, 10_000, true}, {.4996, .5, 10_000, false}, {.4994, .5, 100, false}, {.49, .5, 100, true}, {.4, .5, 0, true}, {.46, .5, 0, false},
	} {
		if got := (trial{loss: c.with}).beats(trial{c.without, c.rarer}); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
