package write

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// New returns a Writer of a table with these columns.
func New(w io.Writer, l Layout, columns []Column) (Writer, error) {
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.Name] {
			return nil, fmt.Errorf("write: two columns are named %q", c.Name)
		}
		seen[c.Name] = true
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("write: a table needs a column")
	}
	t := table{columns: slices.Clone(columns), missing: l.Missing, typed: make([]value.List, len(columns))}
	switch l.Format {
	case "csv", "tsv", "criteo":
		return newLines(w, l, t)
	case "tfrecord":
		return newExamples(w, t), nil
	case "jsonl":
		return newObjects(w, t)
	case "libsvm", "libffm":
		return newPairs(w, l.Format == "libffm", t)
	case "parquet":
		return newParquet(w, l.Codec, t)
	case "arrow":
		return newArrow(w, l.Codec, t)
	case "avro":
		return newAvro(w, l.Codec, t)
	}
	return nil, fmt.Errorf("write: there is no format %q; there are %s", l.Format, strings.Join(Formats(), ", "))
}
