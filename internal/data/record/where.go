package record

import (
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/expr"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// OpenSelected is OpenSet without the files whose folders already decide that data.where excludes
// all their records. They are not opened; Unselected is their number.
func OpenSelected(src schema.Source, patterns []string) (*Set, error) {
	return openSelected(src, patterns, func(files []File) []File { return files })
}

// partFiles is the number of files that OpenPart opens.
const partFiles = 128

// OpenPart is OpenSelected of some of the files if there are many: the first, the last, and others
// between them.
func OpenPart(src schema.Source, patterns []string) (*Set, error) {
	return openSelected(src, patterns, func(files []File) []File { return apart(files, partFiles) })
}

// openSelected is OpenSelected of those of the selected files that some returns.
func openSelected(src schema.Source, patterns []string, some func([]File) []File) (*Set, error) {
	unselected := 0
	s, err := openSet(src, patterns, func(files []File) ([]File, error) {
		kept, err := selected(src, files)
		unselected = len(files) - len(kept)
		return some(kept), err
	})
	if s != nil {
		s.Unselected = unselected
	}
	return s, err
}

// OpenFound is OpenSelected of files that were found already.
func OpenFound(src schema.Source, files []File) (*Set, error) {
	if err := schema.Joined("source", src.Validate()); err != nil {
		return nil, err
	}
	kept, err := selected(src, files)
	if err != nil {
		return nil, err
	}
	s, err := openFiles(src, kept)
	if s != nil {
		s.Unselected = len(files) - len(kept)
	}
	return s, err
}

// noneSelected is the fault of a condition that excludes every file. There is no line to read.
type noneSelected string

func (e noneSelected) Error() string        { return string(e) }
func (e noneSelected) Is(target error) bool { return target == ErrNoLine }

// testsMissing finds functions whose result may be defined although a field is not known.
var testsMissing = pattern.Lazy(`\b(missing|if)\s*\(`)

// selected leaves out the files that the condition of src excludes by their partitions.
func selected(src schema.Source, files []File) ([]File, error) {
	partitions := PartitionNames(files)
	if src.Where == "" || len(partitions) == 0 {
		return files, nil
	}
	e, err := expr.Parse(src.Where)
	if err != nil {
		return files, nil // the schema reports it
	}
	of := func(f expr.Field) bool {
		derived := slices.ContainsFunc(src.Derive, func(d schema.Derived) bool { return d.Name() == f.Name })
		return !derived && slices.Contains(partitions, f.Name)
	}
	some, all := slices.ContainsFunc(e.Fields, of), !slices.ContainsFunc(e.Fields, func(f expr.Field) bool { return !of(f) })
	if !some || !all && testsMissing().MatchString(src.Where) {
		return files, nil
	}
	row := expr.Row{Numbers: make([]float64, len(e.Fields)), Texts: make([][]byte, len(e.Fields))}
	kept := slices.DeleteFunc(slices.Clone(files), func(f File) bool {
		for i, field := range e.Fields {
			row.Numbers[i], row.Texts[i] = math.NaN(), nil // a field that is not known, or missing
			text, ok := f.Partition(field.Name)
			if !ok || !of(field) {
				continue
			}
			if row.Texts[i] = []byte(text); !field.Number {
				continue
			}
			x, why := value.ParseNumber(row.Texts[i])
			if why != "" {
				return false // the reader reports it
			}
			row.Numbers[i] = x
		}
		x := e.Value(&row)
		return x == 0 || all && x != 1 // missing
	})
	if len(kept) == 0 {
		return nil, noneSelected(fmt.Sprintf("data.where, %q, excludes every file by the values of its folders, such as %s", src.Where, files[0].Name))
	}
	return kept, nil
}
