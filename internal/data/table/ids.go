package table

import (
	"errors"
	"io"

	"github.com/parquet-go/parquet-go/format"
)

// OpenByID is Open of a file whose columns are found by their field ids: they have the names that
// names gives to their ids, whatever their names in the file are.
func OpenByID(r io.ReaderAt, size int64, names map[int32]string) (*File, error) {
	return open(r, size, names)
}

// rename names the elements of a schema by their ids. An element without a known id gets a name that
// no column has; those within lists and maps need none.
func rename(schema []format.SchemaElement, names map[int32]string) error {
	found := false
	for i := 1; i < len(schema); i++ {
		e := &schema[i]
		found = found || e.FieldID != 0
		if name, known := names[e.FieldID]; known && e.FieldID != 0 {
			e.Name = name
		} else {
			e.Name = absentName + e.Name
		}
	}
	if !found && len(schema) > 1 {
		return errors.New("the table finds columns by field ids, and the file has none")
	}
	return nil
}

// absentName begins names of columns that the table does not have.
const absentName = "\x00"
