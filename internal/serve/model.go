package serve

import (
	"io"
	"time"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
)

// Model is an open version of a model.
type Model interface {
	Config() *config.Config
	Encoder() *encode.Encoder
	NewScorer() (Scorer, error)
	io.Closer
}

// Scorer computes logits. It belongs to one goroutine.
type Scorer interface {
	// Score returns the logits of a batch, label by label, valid until the next call.
	Score(b *encode.Batch) ([]float32, error)
	// Unknown returns, by Encoder.Sparse, the number of keys of the last batch without a
	// row.
	Unknown() []int64
	// LookUp returns the time that the last Score took to look up and pool rows.
	LookUp() time.Duration
}

// A Model may implement the following interfaces.

// warm is a model with warm-up records, independent of the files of its version: a
// TFRecord file of tf.Example.
type warm interface{ Warmup() []byte }

// rounded is a model whose scorers may round. Its error is measured with the warm-up records.
type rounded interface {
	// Exact returns a scorer that does not round, or nil if no scorer of the model does.
	Exact() (Scorer, error)
	// Differs receives the greatest difference of the logits of some records. It is called
	// before the version becomes available.
	Differs(records int, most float64)
}

// published is a model published by a training.
type published interface {
	Taken() time.Time // when the training had finished its step; zero if unknown
}

// chosen is a model that somebody may have chosen, by a rollback. The guard does not refuse it.
type chosen interface{ Chosen() bool }
