package rescue

import (
	"errors"
	"strings"
	"testing"
)

func sliceOf(x []int, i int) []int { return x[i:] }

func TestCall(t *testing.T) {
	want := errors.New("a fault")
	if err := Call(func() error { return want }); err != want {
		t.Error(err)
	}
	if err := Call(func() error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestAPanicIsAnError(t *testing.T) {
	for name, f := range map[string]func() error{
		"slice bounds out of range [3:2]": func() error { sliceOf(make([]int, 2), 3); return nil },
		"invalid memory address":          func() error { var m *struct{ x int }; m.x++; return nil },
		strings.Repeat("x", maxValue):     func() error { panic(strings.Repeat("x", 2*maxValue)) },
		"panic called with nil argument":  func() error { panic(nil) },
	} {
		err := Call(f)
		p, is := err.(*Panic)
		if !is || !strings.Contains(p.Value, name) || len(p.Value) > maxValue || !strings.Contains(string(p.Stack), "TestAPanicIsAnError") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(p.Place, "serve/rescue.") || strings.Contains(p.Place, "rescue.Call") {
			t.Errorf("%s: in %s", name, p.Place)
		}
	}
}

func TestPlacesDiffer(t *testing.T) {
	at := func(f func() error) string { return Call(f).(*Panic).Place }
	a, b := func() error { panic("a") }, func() error {
		panic("a")
	}
	if at(a) != at(a) || at(a) == at(b) {
		t.Errorf("%s, %s, %s", at(a), at(a), at(b))
	}
}
