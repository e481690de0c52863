package step

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/trace"
)

// rowSource generates microbatches.
type rowSource struct {
	rank, size, rows int
	held             map[int64]*encode.Batch
}

func (s *rowSource) Batch(n int64) (*encode.Batch, error) {
	if s.held[n] == nil {
		b := &encode.Batch{Rows: s.rows, Sparse: emptyBatch(parityFeatures).Sparse, Dense: make([]float32, 2*s.rows)}
		for i := range s.rows {
			id := uint64((int(n)*s.size+s.rank)*s.rows + i)
			b.RowID = append(b.RowID, id)
			b.Label = append(b.Label, float32(id%2))
			for f := range b.Sparse {
				j := &b.Sparse[f]
				j.Values, j.Offsets = append(j.Values, id%parityVocabulary), append(j.Offsets, int32(i+1))
			}
		}
		s.held[n] = b
	}
	return s.held[n], nil
}

func (s *rowSource) Done(n int64) { delete(s.held, n) }

// TestEveryRowCountsOnce stalls ranks at random in two epochs. In every mode, every row is in
// exactly one commit set per epoch.
func TestEveryRowCountsOnce(t *testing.T) {
	const size, rows, steps = 4, 6, 25
	for _, how := range []Tolerance{
		{Mode: slots.Drop, Backup: 1}, {Mode: slots.Drop, Backup: 2}, {Mode: slots.Drop, Backup: 1, Auto: true}, {Mode: slots.Speculate},
	} {
		t.Run(fmt.Sprintf("%v b=%d auto=%v", how.Mode, how.Backup, how.Auto), func(t *testing.T) {
			t.Parallel()
			counted, late, told := map[int64]int{}, 0, int64(0)
			onRanks(t, size, func(comm *collective.Comm) error {
				c, columns := parityConfig("sgd")
				trainer, err := NewTrainer(comm, trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
				if err != nil {
					return err
				}
				defer trainer.Close()
				rng := rand.New(rand.NewPCG(3, uint64(comm.Rank())))
				trainer.SimulateDelay(func(int64, time.Duration) time.Duration {
					if rng.IntN(5) == 0 {
						return time.Duration(rng.IntN(5)) * time.Millisecond
					}
					return 0
				})
				source := func() Source {
					return &rowSource{comm.Rank(), size, rows, map[int64]*encode.Batch{}}
				}
				x, err := trainer.Tolerate(how, slots.Record{Queue: Microbatches(0, steps, size)}, source(), nil)
				if err != nil {
					return err
				}
				defer x.Close()
				for n := int64(1); ; n++ {
					out, err := trainer.Step(Input{N: n, Rate: 1})
					if err != nil {
						return err
					}
					if comm.Rank() == 0 {
						told += out.Rows
						late += len(x.Record().Queue.Late)
						for _, p := range x.Record().Pieces {
							counted[p.Batch.First]++
						}
					}
					if x.Ended() && x.Record().Queue.Epoch == 1 {
						return nil
					}
					if x.Ended() {
						x.Resume(source())
					}
				}
			})
			if told != 2*size*rows*steps || len(counted) != size*steps {
				t.Errorf("%d rows of %d microbatches were summed, want %d of %d", told, len(counted), 2*size*rows*steps, size*steps)
			}
			for item, n := range counted {
				if n != 2 {
					t.Errorf("microbatch %d counted %d times in 2 epochs", item, n)
				}
			}
			if how.Mode == slots.Drop && late == 0 {
				t.Error("no microbatch was late")
			}
		})
	}
}
