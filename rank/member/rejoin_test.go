package member_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/patient"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/rank/control"
	"github.com/wdlrun/wdlrun/rank/member"
)

// launched is what a launcher gives to a rank of a generation.
func launched(r, size, generation int, at string, key rank.Key) func(string) string {
	vars := map[string]string{
		"WDLRUN_RANK": strconv.Itoa(r), "WDLRUN_SIZE": strconv.Itoa(size), "WDLRUN_LOCAL_RANK": strconv.Itoa(r), "WDLRUN_LOCAL_SIZE": strconv.Itoa(size),
		"WDLRUN_GENERATION": strconv.Itoa(generation), "WDLRUN_COORDINATOR": at, "WDLRUN_KEY": key.Hex(), "WDLRUN_LAUNCHER": "1",
	}
	return func(name string) string { return vars[name] }
}

func serve(t *testing.T, at string, size, generation int, key rank.Key) *control.Server {
	t.Helper()
	ln, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	s, err := control.Serve(ln, control.Config{Key: key, Size: size, Generation: generation, Timeout: patient.Longest})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRejoin loses rank 1 of three: the others meet its successor in the next
// generation, and the coordinator of this one tells nobody of the next.
func TestRejoin(t *testing.T) {
	const size = 3
	key, ctx := rank.NewKey(), context.Background()
	first := serve(t, "127.0.0.1:0", size, 0, key)
	at := first.Addr()
	var again sync.WaitGroup
	next := make(chan struct{})
	again.Go(func() { // what a launcher does
		<-first.Ended()
		time.Sleep(50 * time.Millisecond)
		first.Close()
		second := serve(t, at, size, 1, key)
		close(next)
		<-second.Ended()
		second.Close()
	})
	sum := func(m *member.Member) error {
		x := []float32{float32(m.World.Rank)}
		if err := collective.AllReduce(m.Comm, x, collective.Sum); err != nil {
			return err
		}
		if x[0] != 3 {
			t.Errorf("rank %d: sum %v", m.World.Rank, x[0])
		}
		return nil
	}
	live := func(r, generation int) (*member.Member, error) {
		return member.Join(ctx, launched(r, size, generation, at, key), control.Options{Timeout: patient.Longest})
	}
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for r := range size {
		ranks.Go(func() {
			m, err := live(r, 0)
			if err == nil {
				err = sum(m)
			}
			switch {
			case err != nil:
			case r == 1: // its process ends, and another begins in its place
				m.Close()
				<-next
				if m, err = live(r, 1); err == nil {
					err = sum(m)
				}
			default:
				for err == nil {
					err = sum(m)
				}
				if err = m.Rejoin(ctx, err); err == nil {
					err = sum(m)
				}
			}
			if err == nil && m.World.Generation != 1 {
				err = errors.New("generation " + strconv.Itoa(m.World.Generation))
			}
			if err == nil {
				err = errors.Join(m.Done(nil), m.Close())
			}
			errs[r] = err
		})
	}
	ranks.Wait()
	again.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestNoRejoin: the rank that failed by its own fault, and ranks that nobody launched,
// get the verdict.
func TestNoRejoin(t *testing.T) {
	opt := member.Options{Transport: member.TCP}
	fault := errors.New("the data is damaged")
	_, errs := joinAnd(t, rank.NewKey(), []member.Options{opt, opt}, func(m *member.Member) {
		err := fault
		if m.World.Rank == 0 {
			for err = nil; err == nil; {
				err = collective.AllReduce(m.Comm, []float32{1}, collective.Sum)
			}
		}
		if err = m.Rejoin(context.Background(), err); err == nil || !strings.Contains(err.Error(), fault.Error()) {
			t.Errorf("rank %d: %v", m.World.Rank, err)
		}
	})
	for r, err := range errs {
		if err == nil {
			t.Errorf("rank %d goes on in a group that has failed", r)
		}
	}
}
