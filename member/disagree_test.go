package member_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

// TestRanksThatDisagreeAreNamed: four ranks wait for each other, and no message shows the
// difference. The transport is TCP, shared memory, or partly both. The verdict names the ranks.
func TestRanksThatDisagreeAreNamed(t *testing.T) {
	three := func() []float32 { return make([]float32, 3) }
	for name, k := range map[string]struct {
		body func(c *collective.Comm) error
		want []string
	}{
		"each awaits another root": {
			func(c *collective.Comm) error { return collective.Broadcast(c, three(), (c.Rank()+1)%c.Size()) },
			[]string{"calls differ: rank ", " Broadcast from rank ", " of 3 float32", " on channel 0; every rank must make the same calls"},
		},
		"a part out of order": {
			func(c *collective.Comm) error {
				part, err := c.Split(0, 0)
				if err != nil {
					return err
				}
				first, second := part, c
				if c.Rank() == 1 {
					first, second = c, part
				}
				return errors.Join(collective.Barrier(first), collective.Barrier(second))
			},
			[]string{"calls differ: rank", "rank 1 ", " Barrier", " of a part of the ranks"},
		},
		"the same call": { // no disagreement
			func(c *collective.Comm) error { return collective.Broadcast(c, three(), 1) }, nil,
		},
	} {
		for _, place := range []struct{ transport, hosts string }{{member.TCP, "aaaa"}, {member.Shared, "aaaa"}, {member.Auto, "aabb"}} {
			t.Run(name+"/"+place.transport+"/"+place.hosts, func(t *testing.T) {
				t.Parallel()
				disagree(t, place.transport, place.hosts, k.body, k.want)
			})
		}
	}
}

// disagree runs body on every rank. All ranks must get a verdict with the wanted texts, or no
// verdict if there are none.
func disagree(t *testing.T, transport, hosts string, body func(c *collective.Comm) error, want []string) {
	key, dir := rank.NewKey(), t.TempDir()
	var wg sync.WaitGroup
	for r := range hosts {
		wg.Go(func() {
			m, err := member.Join(context.Background(), env(r, len(hosts), dir, key), member.Options{Transport: transport, Host: hosts[r : r+1]})
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			err = body(m.Comm)
			if want == nil {
				if err := errors.Join(err, m.Done(nil)); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
				return
			}
			if err == nil {
				t.Errorf("rank %d: no error", r)
				return
			}
			var v *rank.Verdict
			if err := m.Fail(err); !errors.As(err, &v) || v.Kind != rank.Disagree {
				t.Errorf("rank %d: %v, want a verdict on ranks that disagree", r, err)
			}
			for _, text := range want {
				if !strings.Contains(v.String(), text) {
					t.Errorf("rank %d: %q does not contain %q", r, v, text)
				}
			}
		})
	}
	wg.Wait()
}

// TestWatchedCallsAreCompared: calls outside Comm that are watched are compared in heartbeats
// like calls of Comm.
func TestWatchedCallsAreCompared(t *testing.T) {
	key, dir := rank.NewKey(), t.TempDir()
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Go(func() {
			o := member.Options{Transport: member.TCP, Control: control.Options{Timeout: patient.Longest}}
			m, err := member.Join(context.Background(), env(r, 2, dir, key), o)
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			m.WatchCalls(func(_ time.Time, room int) []rank.Call {
				if room < 2 || room > rank.MaxCalls {
					t.Errorf("room for %d calls", room)
				}
				return []rank.Call{{Channel: 100, Seq: 7, Hash: 1, Name: "Same"}, {Channel: 100, Seq: 8, Hash: uint64(r), Name: fmt.Sprintf("Call%d", r), Last: true}}
			})
			<-m.Session.Aborted()
			for _, text := range []string{"rank 0 called Call0", "rank 1 called Call1", "as call 8 on channel 100"} {
				if err := m.Session.Err(); !strings.Contains(err.Error(), text) {
					t.Errorf("rank %d: %v does not contain %q", r, err, text)
				}
			}
		})
	}
	wg.Wait()
}
