package collective_test

import (
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestMade: the last calls of a rank in the group and in its subsets are recorded, and can be
// read while calls begin.
func TestMade(t *testing.T) {
	err := mem.Run(2, 2, func(c *collective.Comm) error {
		if made, ok := c.Made(0); len(made) != 0 || !ok {
			t.Errorf("%v, %v before any call", made, ok)
		}
		part, err := c.Split(0, 0)
		if err != nil {
			return err
		}
		for n := range 5 {
			if err := collective.AllReduce(c, make([]float32, n), collective.Max); err != nil {
				return err
			}
		}
		made, ok := c.Made(0)
		if !ok || len(made) != 5 {
			t.Fatalf("%v, %v", made, ok)
		}
		for i, m := range made[:4] { // the last four of six calls
			if m.Tag.Describe() != []string{"AllReduce(max) of 1 float32", "AllReduce(max) of 2 float32", "AllReduce(max) of 3 float32", "AllReduce(max) of 4 float32"}[i] ||
				m.Tag.Seq != uint64(3+i) || m.Tag.Group != 0 || m.Last != (i == 3) {
				t.Errorf("%d: %+v", i, m)
			}
		}
		if m := made[4]; m.Tag.Group == 0 || m.Tag.Seq != 0 || m.Last {
			t.Errorf("call in the subset: %+v", m)
		}
		if err := collective.Barrier(part); err != nil {
			return err
		}
		made, ok = c.Made(0)
		if !ok || len(made) != 2 || made[0].Last || !made[1].Last || made[1].Tag.Describe() != "Barrier" || made[1].Tag.Seq != 1 {
			t.Errorf("%+v, %v", made, ok)
		}
		if made, ok := c.Made(1); len(made) != 0 || !ok {
			t.Errorf("%v, %v on a channel without calls", made, ok)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestMadeIsNoMixture reads the record of a rank while it makes calls. Each record must belong
// to one call, which its count identifies.
func TestMadeIsNoMixture(t *testing.T) {
	c, x := collective.New(mem.New(1, 1)[0]), make([]uint8, 1<<10)
	var done sync.WaitGroup
	begun, quit := make(chan struct{}), make(chan struct{})
	done.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-quit:
				return
			default:
			}
			if err := collective.AllReduce(c, x[:n%len(x)], collective.Max); err != nil {
				t.Error(err)
			}
			if n == 1 {
				close(begun)
			}
			if n%5 == 0 { // otherwise each read overlaps a call
				time.Sleep(time.Microsecond)
			}
		}
	})
	<-begun
	read := 0
	for range 20_000 {
		made, ok := c.Made(0)
		if !ok {
			continue
		}
		for i, m := range made {
			if read++; m.Tag.Count != m.Tag.Seq%(1<<10) || m.Tag.Seq != made[0].Tag.Seq+uint64(i) {
				t.Fatalf("%+v", made)
			}
		}
	}
	close(quit)
	done.Wait()
	if read == 0 {
		t.Error("no record was read")
	}
}

// BenchmarkRecord measures a call in a group of one rank, which is mostly the record.
func BenchmarkRecord(b *testing.B) {
	c := collective.New(mem.New(1, 1)[0])
	for range b.N {
		fatal.If(b, collective.Barrier(c))
	}
}
