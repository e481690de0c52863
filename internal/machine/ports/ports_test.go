package ports

import (
	"net"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Range{"": {}, "20000-20100": {20000, 20100}, "7070": {7070, 7070}, "1-65535": {1, 65535}} {
		got, err := Parse(text)
		if got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if again, err := Parse(got.String()); again != got || err != nil {
			t.Errorf("%v becomes %v, %v", got, again, err)
		}
	}
	for _, text := range []string{"0-1", "2-1", "1-65536", "a-b", "1-", "-1", "1-2-3", " 1-2", "+1-2"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "such as 20000-20100") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestListen fills a range of two ports. The third listener gets an error.
func TestListen(t *testing.T) {
	any, err := Range{}.Listen("127.0.0.1")
	fatal.If(t, err)
	defer any.Close()
	first := any.Addr().(*net.TCPAddr).Port
	r := Range{first, min(first+20, 65535)}
	for want := range r.Last - r.First + 1 {
		ln, err := r.Listen("127.0.0.1")
		if err != nil {
			if want == 0 || !strings.Contains(err.Error(), "are in use; give a larger range with -ports") {
				t.Errorf("after %d listeners: %v", want, err)
			}
			return
		}
		defer ln.Close()
		if p := ln.Addr().(*net.TCPAddr).Port; p <= first || p > r.Last {
			t.Errorf("port %d, want one of %v above %d", p, r, first)
		}
	}
	t.Error("more listeners than ports")
}

// TestListenElsewhere: an address of another host is a different error.
func TestListenElsewhere(t *testing.T) {
	if _, err := (Range{20000, 20100}).Listen("192.0.2.1"); err == nil || strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
}
