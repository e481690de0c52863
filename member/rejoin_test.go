package member_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

// launched returns the environment of a rank in a generation.
func launched(r, size, generation int, at string, key rank.Key) func(string) string {
	vars := map[string]string{
		"WDLRUN_RANK": strconv.Itoa(r), "WDLRUN_SIZE": strconv.Itoa(size), "WDLRUN_LOCAL_RANK": strconv.Itoa(r), "WDLRUN_LOCAL_SIZE": strconv.Itoa(size),
		"WDLRUN_GENERATION": strconv.Itoa(generation), "WDLRUN_COORDINATOR": at, "WDLRUN_KEY": key.Hex(), "WDLRUN_LAUNCHER": "1",
	}
	return func(name string) string { return vars[name] }
}

// attended is the host of a coordinator. It signals that a rank has joined.
type attended chan struct{}

func (attended) Formed([]rank.Member)       {}
func (attended) Report(int, string, []byte) {}
func (attended) Ended(*rank.Verdict)        {}

func (a attended) Status(int, rank.Status) {
	select {
	case a <- struct{}{}:
	default:
	}
}

func serve(t *testing.T, at string, size, generation int, key rank.Key, host control.Host) *control.Server {
	t.Helper()
	ln, err := net.Listen("tcp", at)
	fatal.If(t, err)
	s, err := control.Serve(ln, control.Config{Key: key, Size: size, Generation: generation, Timeout: patient.Longest, Host: host})
	fatal.If(t, err)
	return s
}

// launchAgain acts as a launcher after the end of first's group: it serves a coordinator that
// ends at once, and then the next generation.
func launchAgain(t *testing.T, first *control.Server, size int, key rank.Key, begun func()) {
	<-first.Ended()
	time.Sleep(50 * time.Millisecond)
	at := first.Addr()
	first.Close()
	met := make(attended, 1)
	leaves := serve(t, at, size, 1, key, met)
	<-met // by a rank that notices its end while it waits for the others
	leaves.Close()
	second := serve(t, at, size, 1, key, nil)
	begun()
	<-second.Ended()
	second.Close()
}

// TestRejoin loses rank 1 of three. The others join the next generation with its replacement,
// although the old coordinator does not announce it. They retry if a coordinator ends while they
// join.
func TestRejoin(t *testing.T) {
	const size = 3
	key, ctx := rank.NewKey(), context.Background()
	first := serve(t, "127.0.0.1:0", size, 0, key, nil)
	at := first.Addr()
	var again sync.WaitGroup
	next := make(chan struct{})
	again.Go(func() { launchAgain(t, first, size, key, func() { close(next) }) })
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
		return member.Join(ctx, launched(r, size, generation, at, key), member.Options{Control: control.Options{Timeout: patient.Longest}})
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
			case r == 1: // its process ends and is replaced
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
	fatal.If(t, errors.Join(errs...))
}

// TestRejoinLater: ranks that join a group after it has failed join the next generation instead.
func TestRejoinLater(t *testing.T) {
	const size = 2
	key := rank.NewKey()
	first := serve(t, "127.0.0.1:0", size, 0, key, nil)
	var again sync.WaitGroup
	again.Go(func() {
		<-first.Ended()
		first.Close()
		third := serve(t, first.Addr(), size, 3, key, nil)
		<-third.Ended()
		third.Close()
	})
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for r := range size {
		ranks.Go(func() {
			m, err := member.Join(t.Context(), launched(r, size, 0, first.Addr(), key), member.Options{Control: control.Options{Timeout: patient.Longest}})
			if err != nil {
				errs[r] = err
				return
			}
			if err = m.Rejoin(t.Context(), &collective.LostError{Rank: 1 - r, By: r, Cause: errors.New("the link is cut")}); err == nil && m.World.Generation != 3 {
				err = fmt.Errorf("generation %d", m.World.Generation)
			}
			if err == nil {
				err = errors.Join(m.Done(nil), m.Close())
			}
			errs[r] = err
		})
	}
	ranks.Wait()
	fatal.If(t, errors.Join(errs...))
	again.Wait()
}

// TestNoRejoin: a rank that failed itself, and ranks without a launcher, get the verdict instead
// of joining again.
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
			t.Errorf("rank %d continues in a group that has failed", r)
		}
	}
}

// TestCutLink: a rank that was reported lost reports a lost link, not its own failure, and may
// continue with all others.
func TestCutLink(t *testing.T) {
	for _, transport := range []string{member.TCP, member.Shared} {
		t.Run(transport, func(t *testing.T) {
			opt := member.Options{Transport: transport}
			joinAnd(t, rank.NewKey(), []member.Options{opt, opt, opt}, func(m *member.Member) {
				cause := error(&collective.LostError{Rank: 2, By: 1, Cause: errors.New("the link is cut")})
				if m.World.Rank == 1 {
					m.Comm.Abort(cause)
				} else {
					for cause = nil; cause == nil; {
						cause = collective.AllReduce(m.Comm, []float32{1}, collective.Sum)
					}
				}
				var v *rank.Verdict
				if err := m.Fail(fmt.Errorf("sparse: pull 3: %w", cause)); !errors.As(err, &v) || v.Kind != rank.Blamed || v.Rank != 2 || !v.Survived(2) {
					t.Errorf("rank %d: %v", m.World.Rank, err)
				}
			})
		})
	}
}

// TestCutLinkIsReportedOnce: the verdict on a link names its two ranks. The error that one of
// them reports does not name them again.
func TestCutLinkIsReportedOnce(t *testing.T) {
	joinAnd(t, rank.NewKey(), make([]member.Options, 2), func(m *member.Member) {
		cause := fmt.Errorf("sparse: pull 3: %w", &collective.LostError{Rank: 1, By: 0, Cause: errors.New("the link is cut")})
		var v *rank.Verdict
		if err := m.Fail(cause); !errors.As(err, &v) || v.Cause != fmt.Sprintf("rank %d reports: sparse: pull 3: the link is cut", 1-v.Rank) {
			t.Errorf("rank %d: %v", m.World.Rank, err)
		}
	})
}
