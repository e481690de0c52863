package cut

import "testing"

// TestTo: long strings are cut between characters.
func TestTo(t *testing.T) {
	for s, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abcd…", "abcé": "abc…", "ééé": "éé…"} {
		if got := To(4, s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
