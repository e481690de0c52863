package wdl

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/rank/chaos"
	"github.com/wdlrun/wdlrun/rank/commit"
	"github.com/wdlrun/wdlrun/trace"
)

// rowSource makes microbatches out of nothing.
type rowSource struct {
	rank, size, rows int
	held             map[int64]*data.Batch
}

func (s *rowSource) Batch(n int64) (*data.Batch, error) {
	if s.held[n] == nil {
		b := &data.Batch{Rows: s.rows, Sparse: emptyBatch(parityFeatures).Sparse, Dense: make([]float32, 2*s.rows)}
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

// TestEveryRowCountsOnce lets ranks stall at random through two epochs: every row
// is in exactly one commit set of each, in every mode.
func TestEveryRowCountsOnce(t *testing.T) {
	const size, rows, steps = 4, 6, 25
	for _, how := range []Tolerance{
		{Mode: commit.Drop, Backup: 1}, {Mode: commit.Drop, Backup: 2}, {Mode: commit.Drop, Backup: 1, Auto: true}, {Mode: commit.Speculate},
	} {
		t.Run(fmt.Sprintf("%v b=%d auto=%v", how.Mode, how.Backup, how.Auto), func(t *testing.T) {
			t.Parallel()
			counted, late, told := map[int64]int{}, 0, int64(0)
			onRanks(t, size, func(comm *collective.Comm) error {
				c, columns := parityConfig("sgd")
				trainer, err := NewTrainer(comm, trace.New(0), c, columns, []string{"d0", "d1"})
				if err != nil {
					return err
				}
				defer trainer.Close()
				rng := rand.New(rand.NewPCG(3, uint64(comm.Rank())))
				trainer.Hold(func(int64, time.Duration) time.Duration {
					if rng.IntN(5) == 0 {
						return time.Duration(rng.IntN(5)) * time.Millisecond
					}
					return 0
				})
				source := func() Source {
					return &rowSource{comm.Rank(), size, rows, map[int64]*data.Batch{}}
				}
				x, err := trainer.Tolerate(how, commit.Record{Queue: Microbatches(0, steps, size)}, source(), nil)
				if err != nil {
					return err
				}
				defer x.Close()
				for n := int64(1); ; n++ {
					out, err := x.Step(n, 1, Wish{})
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
			if how.Mode == commit.Drop && late == 0 {
				t.Error("no microbatch was late")
			}
		})
	}
}

// TestSpeculateGivesTheBitsOfWait: whoever computes a microbatch, and whenever,
// the checkpoint is the same.
func TestSpeculateGivesTheBitsOfWait(t *testing.T) {
	const size = 3
	path := clicks(t, 900)
	slow, err := chaos.Parse("slow:300x@1,stop:20ms@2@step5")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range recipes {
		if name == "regular" {
			continue // batch normalisation waits for all
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clicksConfig(t, path, r[0], r[1])
			wait := runJob(t, size, Options{Config: c})
			again := runJob(t, size, Options{Config: c, Tolerance: Tolerance{Mode: commit.Speculate}, Chaos: slow})
			sameModel(t, size, wait, again)
		})
	}
}

func sameModel(t *testing.T, size int, a, b Result) {
	t.Helper()
	if a.Steps != b.Steps || a.Samples != b.Samples || *a.TestAUC != *b.TestAUC {
		t.Errorf("%+v and %+v", a, b)
	}
	for rank := range size {
		part := fmt.Sprintf("rank-%04d-of-%04d.wck", rank, size)
		of := func(r Result) []byte {
			return read(t, filepath.Join(checkpoint.Dir(filepath.Join(r.RunDir, checkpoint.Folder), r.Steps), part))
		}
		if !slices.Equal(of(a), of(b)) {
			t.Errorf("%s differs", part)
		}
	}
}

// TestDropLeavesASlowRankBehind trains with one rank that is far slower and must
// neither wait for it nor lose its samples.
func TestDropLeavesASlowRankBehind(t *testing.T) {
	const size = 3
	path := clicks(t, 1500)
	slow, err := chaos.Parse("slow:100x@1")
	if err != nil {
		t.Fatal(err)
	}
	c := clicksConfig(t, path, "", "")
	backup := Tolerance{Mode: commit.Drop, Backup: 1}
	usual := runJob(t, size, Options{Config: c, Tolerance: backup}) // steps of the same size
	drop := runJob(t, size, Options{Config: c, Tolerance: backup, Chaos: slow})
	if drop.Samples != usual.Samples || math.Abs(*drop.TestAUC-*usual.TestAUC) > 0.02 {
		t.Errorf("with a slow rank %d samples and an AUC of %.4f, usually %d and %.4f", drop.Samples, *drop.TestAUC, usual.Samples, *usual.TestAUC)
	}
	records, err := readCommits(drop.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	times := map[commit.Batch]int{}
	late := 0
	for _, r := range records {
		for _, p := range r.Pieces {
			times[p.Batch]++
		}
		late += len(r.Queue.Late)
	}
	for b, n := range times {
		if n != 1 {
			t.Errorf("microbatch %v counted %d times", b, n)
		}
	}
	if late == 0 || int64(len(records)) != drop.Steps+1 {
		t.Errorf("%d late microbatches in %d of %d steps", late, len(records)-1, drop.Steps)
	}
}

// TestResumeWithLateMicrobatches goes on from a checkpoint inside an epoch.
func TestResumeWithLateMicrobatches(t *testing.T) {
	const size = 3
	path := clicks(t, 1500)
	how := Tolerance{Mode: commit.Drop, Backup: 1}
	whole := runJob(t, size, Options{Config: clicksConfig(t, path, "", ""), Tolerance: how})
	middle := checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), 20)
	again := runJob(t, size, Options{Resume: middle, Tolerance: how})
	if again.Samples != whole.Samples || math.Abs(*again.TestAUC-*whole.TestAUC) > 0.02 {
		t.Errorf("resumed %d samples, AUC %.4f; uninterrupted %d, %.4f", again.Samples, *again.TestAUC, whole.Samples, *whole.TestAUC)
	}
}

// TestReplayGivesTheSameBits repeats a training whose commit sets depended on
// timing.
func TestReplayGivesTheSameBits(t *testing.T) {
	const size = 3
	path := clicks(t, 900)
	slow, err := chaos.Parse("slow:20x@1,stop:20ms@2@step5,stop:10ms@0@step9")
	if err != nil {
		t.Fatal(err)
	}
	c := clicksConfig(t, path, "", ", schedule: {kind: cosine, warmup: 10}")
	run := runJob(t, size, Options{Config: c, Tolerance: Tolerance{Mode: commit.Drop, Backup: 1}, Chaos: slow})
	sameModel(t, size, run, runJob(t, size, Options{Replay: run.RunDir}))
}
