package step

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/trace"
)

// TestAheadGivesTheSameBits trains on batches that share keys with the previous ones, with
// and without preparing batches ahead.
func TestAheadGivesTheSameBits(t *testing.T) {
	for _, size := range []int{2, 3} {
		want := trainedRows(t, size, false)
		got := trainedRows(t, size, true)
		for r := range want {
			if !bytes.Equal(got[r], want[r]) {
				t.Errorf("rank %d of %d: rows or parameters differ", r, size)
			}
		}
	}
}

// trainedRows returns each rank's dense parameters and saved shards after some steps.
func trainedRows(t *testing.T, size int, ahead bool) [][]byte {
	all := make([][]byte, size)
	onRanks(t, size, func(comm *collective.Comm) error {
		c, columns := parityConfig("adam")
		c.Train.ClipNorm = 0.5
		tr, err := NewTrainer(comm, trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
		if err != nil {
			return err
		}
		defer tr.Close()
		if !tr.ahead {
			return fmt.Errorf("ranks that are linked do not work ahead")
		}
		tr.ahead = ahead
		var batches []*encode.Batch
		for i := range 8 {
			whole := [][2]int{{0, 6}, {1, 4}, {2, 6}, {0, 3}}[i%4]
			lo, hi := collective.Chunk(whole[1]-whole[0], size, comm.Rank())
			batches = append(batches, loadParity(t).batch(whole[0]+lo, whole[0]+hi))
		}
		for i, b := range batches {
			var next *encode.Batch
			if i+1 < len(batches) && i != 4 { // one batch is not announced
				next = batches[i+1]
			}
			if _, err := tr.Step(coming(int64(i+1), b, next)); err != nil {
				return err
			}
		}
		var out bytes.Buffer
		if err := tr.model.arena.Save(&out); err != nil {
			return err
		}
		store := tr.model.store
		for _, s := range store.Files().Sections() {
			if err := store.Files().SaveShard(&out, s.Table, s.Shard); err != nil {
				return err
			}
		}
		all[comm.Rank()] = out.Bytes()
		return nil
	})
	return all
}
