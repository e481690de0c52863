package launcher

import (
	"io"
	"net"
	"os/exec"
	"reflect"
	"testing"

	"github.com/wdlrun/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/rank"
)

// connected returns the hosts of a plan with one host "a", connected over a pipe, and the end of
// the pipe at the host.
func connected(t *testing.T, ranks int) (*remote, *hosts.Link) {
	t.Helper()
	a := newRemote(Job{Plan: number([]Host{{Name: "a"}}, []int{ranks})}, &console{stderr: io.Discard}, nil, "")
	h := a.of["a"]
	var err error
	if h.process, err = (hosts.Local{Command: []string{"sleep", "60"}, Run: (*exec.Cmd).Start}).Start(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.process.Close(); close(a.forks) })
	here, there := net.Pipe()
	answered := make(chan *hosts.Link, 1)
	go func() {
		l, err := hosts.Answer(there)
		if err != nil {
			t.Error(err)
		}
		answered <- l
	}()
	if h.link, err = hosts.Call(here); err != nil {
		t.Fatal(err)
	}
	return a, <-answered
}

// TestStartOnALostHost loses a host while one of its three ranks runs. The other two, which are
// started later, end at once with the same cause.
func TestStartOnALostHost(t *testing.T) {
	a, there := connected(t, 3)
	h := a.of["a"]
	h.live[0] = &remoteRank{}
	delete(h.waiting, 0)
	there.Close()
	a.receive(h)
	for r := range 3 {
		if r > 0 {
			if pid, err := a.start(order{placed: Placed{Rank: r, Host: "a"}, command: []string{"true"}, world: rank.World{Rank: r, Size: 3}}); pid != 0 || err != nil {
				t.Fatalf("rank %d: process %d, %v", r, pid, err)
			}
		}
		select {
		case e := <-a.exits:
			if want := (&loss{"a", []int{0, 1, 2}}); e.rank != r || e.code != 1 || !reflect.DeepEqual(e.lost, want) {
				t.Errorf("%+v with %+v, want rank %d with %+v", e, e.lost, r, want)
			}
		default:
			t.Errorf("the end of rank %d is not reported", r)
		}
	}
}
