package dense

import (
	"bytes"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// taken builds a layer of in×out, with every value and state set to numbers of their own.
func taken(t testing.TB, in, out int, rule string, first float32) *Arena {
	t.Helper()
	a := new(Arena)
	NewLinear(a, "l", in, out, false)
	fatal.If(t, a.Build(Config{Seed: 3, Groups: []Group{{Rule: optim.Rule{Kind: rule}}}}))
	for i := range a.values {
		a.values[i] = first + float32(i)
	}
	for i := range a.state {
		a.state[i] = first + 100 + float32(i)
	}
	return a
}

// takes makes a take what another arena saves.
func takes(t testing.TB, a, from *Arena, axes func(name string) Axes) []string {
	t.Helper()
	var b bytes.Buffer
	fatal.If(t, from.Save(&b))
	own, err := a.Take(&b, true, axes)
	fatal.If(t, err)
	return own
}

// TestTake: rows move with their state, new ones are zero and untrained, and a parameter of
// another shape keeps its own values.
func TestTake(t *testing.T) {
	was := taken(t, 2, 2, "adam", 1)
	to := taken(t, 3, 2, "adam", 50)
	own := takes(t, to, was, func(name string) Axes {
		if name == "l/weight" {
			return Axes{Rows: []int{1, -1, 0}}
		}
		return Axes{}
	})
	w, b := to.Param("l/weight"), to.Param("l/bias")
	if want := []float32{3, 4, 0, 0, 1, 2}; len(own) > 0 || !slices.Equal(w.Value, want) || !slices.Equal(b.Value, []float32{5, 6}) {
		t.Errorf("own %v, weights %v, want %v; bias %v", own, w.Value, want, b.Value)
	}
	// state of the weights before: 101…104 and 105…108
	if want := []float32{103, 104, 0, 0, 101, 102, 107, 108, 0, 0, 105, 106}; !slices.Equal(w.State, want) {
		t.Errorf("state %v, want %v", w.State, want)
	}
	for rule, want := range map[string][]float32{"rowwise_adagrad": {0.1}, "sgd": {}} {
		other := taken(t, 2, 2, rule, 9)
		takes(t, other, was, nil)
		if w := other.Param("l/weight"); !slices.Equal(w.Value, []float32{1, 2, 3, 4}) || len(w.State) != len(want) || len(want) > 0 && w.State[0] == 109 {
			t.Errorf("%s: %v, state %v", rule, w.Value, w.State)
		}
	}
	other := taken(t, 4, 2, "adam", 9)
	if own := takes(t, other, was, nil); !slices.Equal(own, []string{"l/weight"}) || other.Param("l/weight").Value[0] != 9 || other.Param("l/bias").Value[0] != 5 {
		t.Errorf("own %v, %v", own, other.values)
	}
}

// FuzzTake: any bytes give an arena of finite size or an error that leaves it unchanged.
func FuzzTake(f *testing.F) {
	var b bytes.Buffer
	fatal.If(f, taken(f, 2, 3, "adagrad", 1).Save(&b))
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()-9])
	f.Fuzz(func(t *testing.T, b []byte) {
		to, was := taken(t, 2, 3, "adagrad", 7), taken(t, 2, 3, "adagrad", 7)
		if own, err := to.Take(bytes.NewReader(b), true, nil); (err != nil || len(own) == 2) && !slices.Equal(to.values, was.values) {
			t.Errorf("%v, own %v, and the values are %v", err, own, to.values)
		}
	})
}
