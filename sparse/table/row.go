package table

// Row refers to a row of a table; 0 is no row. It is valid until Epoch changes.
type Row uint32

const (
	maxRows = 1<<31 - 1 // rows of one table on one rank
	onDisk  = Row(1) << 31
)

// onDisk reports whether r is the number of a row on disk. Find never returns one.
func (r Row) onDisk() bool { return r&onDisk != 0 }
