package runs

import (
	"errors"
	"net"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestReachable: the address printed of a page can be opened, also from other machines.
func TestReachable(t *testing.T) {
	named := func() (string, error) { return "node7", nil }
	for at, want := range map[string]string{"127.0.0.1:6060": "127.0.0.1:6060", "[::1]:6060": "[::1]:6060", "0.0.0.0:6060": "node7:6060", "[::]:6060": "node7:6060"} {
		addr, err := net.ResolveTCPAddr("tcp", at)
		fatal.If(t, err)
		if got := Reachable(addr, named); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	nameless := func() (string, error) { return "", errors.New("no name") }
	if got := Reachable(&net.TCPAddr{Port: 6060}, nameless); got != ":6060" {
		t.Errorf("without a name of the host: %s", got)
	}
}
