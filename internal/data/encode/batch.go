package encode

// Jagged holds a list of keys per row: row i has Values[Offsets[i]:Offsets[i+1]]. Offsets
// has one entry more than there are rows and starts with 0; features of a batch may share
// its memory. Weights, if not nil, has one entry per value.
type Jagged struct {
	Values  []uint64
	Offsets []int32
	Weights []float32
}

// Batch holds rows of input, ready for the model. B is Rows, D the number of dense inputs,
// F the number of sparse features and crosses.
type Batch struct {
	Rows   int
	Dense  []float32 // B × D, row by row
	Sparse []Jagged  // F
	Label  []float32 // B, each 0 or 1 unless the label is a number
	RowID  []uint64  // B: number of each record in the order of the source

	Weight []float32   // B, one per sample; nil if the schema has none
	Labels [][]float32 // B each, one slice per label after the first

	Owner any // reuses the memory; may be nil

	// Memory of offsets. steps is 0, 1, 2 and so on, shared by all features with one key in
	// each row. own has one slice per feature, for a batch with rows of lists.
	steps []int32
	own   [][]int32
	lists bool

	targets [][]float32 // memory of Weight and Labels
	hidden  int         // entries behind Sparse, which hold its memory
}

// reset empties the batch and allocates memory for the given number of rows.
func (b *Batch) reset(rows, dense, sparse int) {
	b.Rows = 0
	b.Sparse, b.hidden = b.Sparse[:len(b.Sparse)+b.hidden], 0
	if cap(b.Dense) < rows*dense {
		b.Dense = make([]float32, 0, rows*dense)
	}
	if cap(b.Label) < rows {
		b.Label = make([]float32, 0, rows)
		b.RowID = make([]uint64, 0, rows)
	}
	b.Dense, b.Label, b.RowID = b.Dense[:0], b.Label[:0], b.RowID[:0]
	b.Weight, b.Labels = nil, b.Labels[:0]
	if len(b.Sparse) != sparse {
		b.Sparse, b.own, b.lists = make([]Jagged, sparse), make([][]int32, sparse), false
	}
	for i := range b.Sparse {
		j := &b.Sparse[i]
		if cap(j.Values) < rows {
			j.Values = make([]uint64, 0, rows)
		}
		if b.lists {
			b.own[i] = j.Offsets // may have grown
		}
		j.Values, j.Weights, j.Offsets = j.Values[:0], j.Weights[:0], append(b.own[i][:0], 0)
		b.own[i] = j.Offsets
	}
	b.lists = false
}

// offsetSteps returns the offsets of n rows with one key each.
func (b *Batch) offsetSteps(n int) []int32 {
	for len(b.steps) <= n {
		b.steps = append(b.steps, int32(len(b.steps)))
	}
	return b.steps[: n+1 : n+1]
}

// beginLists gives each feature separate offsets, for the rows so far.
func (b *Batch) beginLists() {
	for i := range b.Sparse {
		b.Sparse[i].Offsets = append(b.own[i][:0], b.offsetSteps(b.Rows)...)
	}
	b.lists = true
}

// MemoryBytes returns the approximate memory of a batch.
func (b *Batch) MemoryBytes() int {
	n := 4*cap(b.Dense) + 12*cap(b.RowID) + 4*cap(b.steps)
	for _, t := range b.targets {
		n += 4 * cap(t)
	}
	for i := range b.Sparse {
		j := &b.Sparse[i]
		n += 8*cap(j.Values) + 4*(cap(b.own[i])+cap(j.Weights))
	}
	return n
}
