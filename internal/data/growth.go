package data

// Growth lets the batch of a training begin small and grow to its full size: a
// step takes one record for each Share that were trained on before, but at least
// Least and at most the global batch. Gradients are large and alike in the
// beginning, when many small steps get further than few large ones; later their
// noise dominates (Smith et al. 2018; McCandlish et al. 2018, §2). For a global
// batch B that takes about Share·ln(B/Least) steps more than whole batches do.
// The zero value makes every batch whole.
type Growth struct{ Least, Share int }

// Batch returns the records of a step after so many were trained on.
func (g Growth) Batch(trained int64, batch int) int {
	if g.Share == 0 {
		return batch
	}
	return int(min(int64(batch), max(int64(g.Least), trained/int64(g.Share))))
}

// Steps returns how many steps are left of some epochs of rows records, from record
// start of the first one on, before which so many were trained on.
func (g Growth) Steps(trained, start, rows, epochs int64, batch int) (steps int64) {
	for ; epochs > 0; epochs-- {
		for x := start; x < rows; steps++ {
			n := g.Batch(trained+x, batch)
			if n == batch { // it stays
				return steps + Steps(rows-x, batch) + (epochs-1)*Steps(rows, batch)
			}
			x += int64(n)
		}
		trained, start = trained+rows, 0
	}
	return steps
}
