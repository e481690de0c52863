package sparse

import (
	"fmt"
	"math"
)

// RowNorms calls f with the Euclidean norm of one part of the rows of a table, in those of
// the first shards that this rank owns. The shard of a key is a hash, so the first shards
// are a random sample. All ranks together report each row once. Call it between steps.
func (s *Store) RowNorms(table, part, shards int, f func(norm float64)) error {
	s.pipeline.wait()
	t := s.tables[table]
	lo, hi := t.Part(part)
	for shard := range min(shards, t.Shards()) {
		if int(s.shards.owner[shard]) != s.rank {
			continue
		}
		err := t.Each(shard, func(_ uint64, record []float32) error {
			f(norm(record[lo:hi]))
			return nil
		})
		if err != nil {
			return fmt.Errorf("sparse: norms: rank %d of %d: %w", s.rank, s.size, err)
		}
	}
	return nil
}

// ObserveGradients makes Apply call f in every k-th step from now on, with the norm of the
// first part of each gradient, times the scale of the step. The owner of a row reports its
// gradient. Calls for different tables may be concurrent. With k = 0 nothing is reported.
func (s *Store) ObserveGradients(k int64, f func(table int, norm float64)) {
	s.norms = norms{k, f}
}

func norm(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return math.Sqrt(sum)
}
