package data

// Jagged holds a list of keys per row: those of row i are
// Values[Offsets[i]:Offsets[i+1]]. Offsets has one entry more than there are
// rows and begins with 0. Weights, if not nil, has one entry per value.
type Jagged struct {
	Values  []uint64
	Offsets []int32
	Weights []float32
}

// Batch is some rows of input, ready for the model. B is Rows, D the number of
// dense inputs, F that of sparse features and crosses.
type Batch struct {
	Rows   int
	Dense  []float32 // B × D, row by row
	Sparse []Jagged  // F
	Label  []float32 // B, each 0 or 1
	RowID  []uint64  // B: number of each record in the order of the source

	at place // of the first row
}

// place is where a record lies.
type place struct {
	file   *file // nil: nowhere
	offset int64
	row    int64
}

// reset empties the batch for so many rows.
func (b *Batch) reset(rows, dense, sparse int) {
	b.Rows, b.at = 0, place{}
	if cap(b.Dense) < rows*dense {
		b.Dense = make([]float32, 0, rows*dense)
	}
	if cap(b.Label) < rows {
		b.Label = make([]float32, 0, rows)
		b.RowID = make([]uint64, 0, rows)
	}
	b.Dense, b.Label, b.RowID = b.Dense[:0], b.Label[:0], b.RowID[:0]
	if len(b.Sparse) != sparse {
		b.Sparse = make([]Jagged, sparse)
	}
	for i := range b.Sparse {
		j := &b.Sparse[i]
		if cap(j.Offsets) < rows+1 {
			j.Offsets = make([]int32, 0, rows+1)
			j.Values = make([]uint64, 0, rows)
		}
		j.Values, j.Weights, j.Offsets = j.Values[:0], j.Weights[:0], append(j.Offsets[:0], 0)
	}
}
