package step

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
)

// Embeddings gives the embeddings of a feature values before the first step.
type Embeddings struct {
	t     *Trainer
	table int
	part  sparse.Part
	at    place

	Put, Held int // keys of this rank that got values, and that had a row
}

// NewEmbeddings returns the embeddings of a feature that is part of the deep model.
func NewEmbeddings(t *Trainer, feature string) *Embeddings {
	l := &t.model.layout
	f := l.Features[slices.IndexFunc(l.Features, func(f layout.Feature) bool { return f.Name == feature })]
	parts := l.Tables[f.Table].Parts
	return &Embeddings{t: t, table: f.Table, part: parts[f.DeepPart], at: places(parts)[f.DeepPart]}
}

// Check returns an error if a vector has another width.
func (e *Embeddings) Check(vector []float32) error {
	if len(vector) != e.part.Dim {
		return WidthError(len(vector), e.t.model.layout.Tables[e.table].Name, e.part.Dim)
	}
	return nil
}

// WidthError is the error about vectors of another width than the embeddings of a table.
func WidthError(width int, table string, dim int) error {
	return fmt.Errorf("its vectors have %d numbers, the embeddings of table %s have %d: set embedding_dim or tables[].dim", width, table, dim)
}

// Set sets the embedding of a key that has no row, on the rank that owns it. Every rank calls it
// for every key.
func (e *Embeddings) Set(key uint64, vector []float32) error {
	if err := e.Check(vector); err != nil {
		return err
	}
	parts := e.t.model.layout.Tables[e.table].Parts
	return e.t.model.store.Files().Put(e.table, key, func(rec []float32, held bool) {
		if held {
			e.Held++
			return
		}
		e.Put++
		copy(e.at.value.of(rec), vector)
		for i, at := range places(parts) {
			parts[i].Rule.InitState(at.value.of(rec), at.state.of(rec))
		}
	})
}

// End makes the copies of the rows. Every rank calls it after the last Set.
func (e *Embeddings) End() error { return copyLoaded(e.t) }
