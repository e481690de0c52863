package write

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Column is a column of a table.
type Column struct {
	Name string
	Kind value.Kind // of all values; None: no values, written as Text
	Many bool       // records have lists of values
	// Truth means that every string is true or false. Formats with such a type use it.
	Truth bool
	// Time, if it is set, says that texts are written as these dates or times. Kind is Int.
	Time Time
	// Words means that the strings of Layout.Missing are values of this column.
	Words bool
}

// Layout configures the format.
type Layout struct {
	Format    string   // one of Formats
	Delimiter byte     // of csv and tsv; 0: the default of the format
	NoHeader  bool     // of csv and tsv
	Codec     string   // in the file, if IsPackedInside: one of Packings; default snappy, zstd of Arrow, gzip of Avro
	Missing   []string // strings that mean missing, besides the empty one
}

// Writer writes records.
type Writer interface {
	// Write writes the values of one record, one list per column. Texts in a column of
	// another kind are parsed.
	Write(lists []value.List) error
	// Close flushes the writer. It does not close the file.
	Close() error
}

// Separator separates the values of a list in a line.
const Separator = '|'

// maxLine is the maximum length of a line that package record reads, without its end.
const maxLine = 1 << 20

// Formats returns the formats that can be written.
func Formats() []string {
	return []string{"csv", "tsv", "criteo", "tfrecord", "jsonl", "parquet", "arrow", "avro", "libsvm", "libffm"}
}

// table converts the values of records to the kinds of its columns.
type table struct {
	columns []Column
	missing []string
	typed   []value.List // of the record; its texts may share memory with the lists written
	rows    int64
	texts   []byte // memory of other texts
}

// take converts lists into typed.
func (t *table) take(lists []value.List) error {
	if len(lists) != len(t.columns) {
		panic(fmt.Sprintf("write: a record of %d values for %d columns", len(lists), len(t.columns)))
	}
	t.rows++
	t.texts = t.texts[:0]
	for i := range lists {
		if err := t.convert(i, &lists[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) convert(i int, from *value.List) error {
	c, to := &t.columns[i], &t.typed[i]
	to.Reset()
	if n := from.Places(); n > 1 && !c.Many {
		return t.fault(i, fmt.Sprintf("has %d values, it is not a column of lists", n))
	}
	kind := c.Kind
	if kind == value.None {
		kind = value.Text
	}
	for j := range from.All {
		var text []byte
		if j >= 0 {
			text = t.textOf(from, j)
		}
		if len(text) == 0 || !c.Words && t.isMissing(text) {
			if c.Many && from.Places() > 1 {
				to.AddNull()
			}
			continue
		}
		to.Begin(kind)
		switch kind {
		case value.Text:
			to.Texts = append(to.Texts, text)
		case value.Int:
			if c.Time != (Time{}) {
				n, ok := c.Time.parse(text)
				if !ok {
					return t.fault(i, fmt.Sprintf("holds %q, which is no %s", text, c.Time.Type))
				}
				to.Ints = append(to.Ints, n)
				break
			}
			n, err := strconv.ParseInt(string(text), 10, 64)
			if err != nil {
				return t.fault(i, fmt.Sprintf("holds %q, which is not an integer", text))
			}
			to.Ints = append(to.Ints, n)
		default:
			x, err := strconv.ParseFloat(string(text), 64)
			if err != nil {
				return t.fault(i, fmt.Sprintf("has the value %q, which is not a number", text))
			}
			to.Reals = append(to.Reals, x)
		}
	}
	return nil
}

// checkNulls returns an error if lists of the current record have nulls, for a format that
// cannot write them.
func (t *table) checkNulls() error {
	var names []string
	for i := range t.typed {
		if len(t.typed[i].Nulls) > 0 {
			names = append(names, t.columns[i].Name)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("write: record %d: lists with a null, which this format cannot hold: %s; write jsonl, parquet or csv, or name the other columns in -fields", t.rows, strings.Join(names, ", "))
	}
	return nil
}

// textOf returns value j of a list as text, which is valid until the next record.
func (t *table) textOf(l *value.List, j int) []byte {
	if l.Kind == value.Text {
		return l.Texts[j]
	}
	at := len(t.texts)
	t.texts = l.Append(t.texts, j)
	return t.texts[at:len(t.texts):len(t.texts)]
}

// isMissing reports whether text means that a value is missing.
func (t *table) isMissing(text []byte) bool {
	if len(text) == 0 {
		return true
	}
	for _, m := range t.missing {
		if string(text) == m {
			return true
		}
	}
	return false
}

// fault returns an error about a column of the current record.
func (t *table) fault(i int, what string) error {
	return fmt.Errorf("write: record %d: column %s: it %s", t.rows, t.columns[i].Name, what)
}

// names returns the names of the columns.
func (t *table) names() []string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.Name
	}
	return names
}
