package commit

import "testing"

// TestReceiveAllCountsBeforeItLeases: ranks that finish together are not given the
// slot that nobody was free for; fed one by one, the first of them is.
func TestReceiveAllCountsBeforeItLeases(t *testing.T) {
	start := func() (*Coordinator, []Message) {
		cfg := Config{Mode: Drop, Workers: 3, Slots: 3, Backup: 1, Replicas: 3, Owners: []int{0},
			Home: func(b Batch) int { return int(b.First % 3) }}
		c := NewCoordinator(cfg, 1)
		c.Start(0)
		c.Join(0, 2)
		c.Join(0, 1)
		out, _ := c.Receive(0, Message{Kind: State, Tag: Tag{Term: 1}, Record: &Record{Queue: Queue{Total: 30, Size: 1}}})
		var staged []Message
		for _, m := range out {
			if m.Kind != Lease {
				continue
			}
			if home := int(m.Batch.First % 3); home != m.To && m.Batch.First != 0 {
				t.Errorf("microbatch %d of rank %d is leased to rank %d", m.Batch.First, home, m.To)
			}
			staged = append(staged, Message{Kind: Staged, Tag: m.Tag})
		}
		return c, staged
	}
	leases := func(out []Message, step int64) (n int) {
		for _, m := range out {
			if m.Kind == Lease && m.Tag.Step == step {
				n++
			}
		}
		return n
	}
	c, staged := start()
	if len(staged) != 2 {
		t.Fatalf("%d leases for two workers", len(staged))
	}
	out, notes := c.ReceiveAll(1, staged)
	if leases(out, 1) != 0 || leases(out, 2) != 2 || notes[0].Event != Decided {
		t.Errorf("together: %d more leases in the step, %d in the next, %v", leases(out, 1), leases(out, 2), notes)
	}
	c, staged = start()
	if out, _ := c.Receive(0, staged[0]); leases(out, 1) != 1 {
		t.Errorf("one by one: %d more leases in the step", leases(out, 1))
	}
}
