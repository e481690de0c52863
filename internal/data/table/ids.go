package table

import (
	"errors"

	"github.com/parquet-go/parquet-go/format"
)

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
