package delta

// Table is a version of a table.
type Table struct {
	Version    int64
	Files      []File   // by path
	Columns    []Column // in the order of the schema, without partitions
	Partitions []string // names of the columns whose values the log contains
	// Physical has the names of columns in the files by their field ids, which decide; nil: the
	// names in the files decide.
	Physical map[int32]string
}

// File is a data file.
type File struct {
	Path    string    // of the file
	Values  []*string // by partition; nil: missing
	Deleted []uint32  // rows, ascending
}

// Column is a column of plain values or of lists of them, with the name that package table gives
// it: members of structs, and keys and values of maps, are columns of their own.
type Column struct {
	Name string
	In   string // name in the files
}

// Limits of a log.
const (
	maxFiles      = 1 << 20   // current files of a table
	maxLog        = 1 << 21   // names in the folder of the log
	maxCommit     = 256 << 20 // bytes of a commit
	maxCheckpoint = 4 << 30   // bytes of a part of a checkpoint
	maxSidecars   = 1 << 16   // files of a checkpoint
	maxColumns    = 1 << 16
	maxNesting    = 64 // structs in one another
)
