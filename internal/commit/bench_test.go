package commit

import (
	"fmt"
	"testing"
)

// BenchmarkStep is the coordinator's work for a step of P slots and P owners: P
// leases, P² staged, P commits and P applied.
func BenchmarkStep(b *testing.B) {
	for _, p := range []int{2, 8, 32, 64} {
		b.Run(fmt.Sprint(p), func(b *testing.B) {
			c := NewCoordinator(Config{Workers: p, Slots: p}, MakeTerm(1, 1, p))
			c.Start(0)
			for r := range p {
				c.Join(0, r)
			}
			record := Record{Queue: Queue{Total: MaxRows, Size: 1 << 10}}
			for r := range p {
				c.Receive(0, Message{Kind: State, From: r, To: Lead, Tag: Tag{Term: c.Term()}, Record: &record})
			}
			b.ReportAllocs()
			for b.Loop() {
				step, tags := c.record.Step+1, make([]Tag, 0, p)
				for _, s := range c.seats {
					tags = append(tags, s.tag)
				}
				for _, t := range tags {
					for o := range p {
						c.Receive(0, Message{Kind: Staged, From: o, To: Lead, Tag: t})
					}
				}
				if c.record.Step != step {
					b.Fatalf("step %d was not decided", step)
				}
				for o := range p {
					c.Receive(0, Message{Kind: Applied, From: o, To: Lead, Tag: Tag{Term: c.Term(), Step: step}})
				}
			}
		})
	}
}
