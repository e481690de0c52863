package pattern

import "testing"

func TestLazy(t *testing.T) {
	digits := Lazy(`^\d+$`)
	if digits() != digits() || !digits().MatchString("12") || digits().MatchString("1a") {
		t.Error("not the pattern, or compiled twice")
	}
	invalid := Lazy("(")
	defer func() {
		if recover() == nil {
			t.Error("an invalid pattern does not panic")
		}
	}()
	invalid()
}
