package member_test

import (
	"context"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

// BenchmarkHeartbeatTraffic measures how long collecting the traffic report of a heartbeat
// takes, without anything to report, while two hosts exchange on both channels.
func BenchmarkHeartbeatTraffic(b *testing.B) {
	key, dir := rank.NewKey(), b.TempDir()
	other := make(chan error, 1)
	work := func(r int, then func(m *member.Member)) error {
		m, err := member.Join(context.Background(), env(r, 2, dir, key), member.Options{Transport: member.TCP, Host: string(rune('a' + r))})
		if err != nil {
			return err
		}
		defer m.Close()
		if err := collective.AllReduce(m.Comm, make([]float32, 1000), collective.Sum); err != nil {
			return err
		}
		then(m)
		return m.Done(nil)
	}
	go func() { other <- work(1, func(*member.Member) {}) }()
	err := work(0, func(m *member.Member) {
		report := member.TrafficOf(m)
		b.ReportAllocs()
		for b.Loop() {
			report(false)
		}
	})
	fatal.If(b, err)
	fatal.If(b, <-other)
}
