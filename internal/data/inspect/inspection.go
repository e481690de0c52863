package inspect

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Stored is about the files as a whole.
type Stored struct {
	Packed  bool  // a file is compressed: only its beginning was read
	Records int64 // estimate of the records of all files
	All     bool  // every record was read
}

// Inspection describes some records of files.
type Inspection struct {
	Path string
	Stored
	More      []string // further paths
	Names     []string // files that were read, the first of all first; for a topic, ranges
	Files     int      // number of files of the paths; for a topic, of partitions
	Format    string   // one of Formats
	Delimiter string
	Header    bool   // the first line names the fields
	Comment   string // mark of comment lines, "" if none was seen
	Rows      int    // records read
	Ragged    int    // lines with another number of fields, left out
	Multiline bool   // fields contain line breaks, in quotes or escaped
	Escape    string // what a backslash escapes, one of schema.Escapes; "": nothing
	Missing   []string
	Notes     []string // oddities of the files, with advice
	Columns   []Column
	Unread    []string // fields that cannot be read, with reasons
	Label     string   // column that is probably the label
	Sure      bool     // Label has a usual name of labels
	Rejected  []string // columns that may be a better label, with the reason why they are not Label
	Positive  []string // values of Label that probably mean 1
	Negative  []string // values of Label that mean 0, if both classes have several formats
	Threshold *float64 // for a numeric label, instead of Positive: from this value on it is 1
	Certain   bool     // Positive are common words for 1
}

// Source returns the source settings to read the file.
func (in *Inspection) Source() schema.Source {
	s := schema.Source{Format: in.Format, Missing: in.Missing}
	if !s.HasLayout() {
		return s
	}
	s.Delimiter, s.Header, s.Comment, s.Multiline = in.Delimiter, in.Header, in.Comment, in.Multiline
	s.Escape = in.Escape
	if !in.Header {
		for _, c := range in.Columns {
			if !c.Folder {
				s.Fields = append(s.Fields, c.Name)
			}
		}
	}
	return s
}

// isOne reports whether a value of the label means 1.
func (in *Inspection) isOne(label string) bool {
	if in.Threshold != nil {
		x, why := value.ParseNumber([]byte(label))
		return why == "" && x >= *in.Threshold
	}
	return slices.Contains(in.Positive, label)
}

// column returns the first column of that name, nil if there is none.
func (in *Inspection) column(name string) *Column {
	i := slices.IndexFunc(in.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &in.Columns[i]
}
