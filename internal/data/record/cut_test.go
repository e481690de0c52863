package record

import (
	"strings"
	"testing"
)

func TestCutLong(t *testing.T) {
	if got := string(CutLong([]byte(strings.Repeat("a", 41)))); got != strings.Repeat("a", 40)+"…" {
		t.Errorf("%q", got)
	}
	// Characters are not cut in two.
	if got := string(CutLong([]byte(strings.Repeat("a", 39) + "éé"))); got != strings.Repeat("a", 39)+"…" {
		t.Errorf("%q", got)
	}
	if got := string(CutLong([]byte("abc"))); got != "abc" {
		t.Errorf("%q", got)
	}
}
