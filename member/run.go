package member

import (
	"context"
	"os"
)

// Run joins the group that the environment describes, calls f and leaves. If f returns
// an error, the whole group ends, and Run returns the verdict, which is the same on
// every rank. An error of a collective call that f ignores also ends the group. A panic
// of f ends the process, and the other ranks get a verdict that names this rank.
//
// The context of f ends when ctx ends or when the group ends. The end of ctx does not
// interrupt collective calls, so f can still save its work with them. To interrupt the
// calls of all ranks, f aborts the group; see the second example.
func Run(ctx context.Context, f func(ctx context.Context, m *Member) error) error {
	m, err := Join(ctx, os.Getenv, Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	return m.run(ctx, f)
}

// run is Run for a rank that has joined.
func (m *Member) run(ctx context.Context, f func(ctx context.Context, m *Member) error) error {
	ctx, stop := m.untilVerdict(ctx)
	defer stop()
	err := f(ctx, m)
	if err == nil {
		err = m.Comm.Err()
	}
	if err != nil {
		return m.Fail(err)
	}
	return m.Done(nil)
}
