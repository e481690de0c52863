package export

import (
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// writeJSON writes x as JSON.
func writeJSON(dir, name string, x any) error {
	text, err := json.MarshalIndent(x, "", "  ")
	if err == nil {
		_, err = whole(system{}, dir, name, content(append(text, '\n')))
	}
	return err
}

// lookups writes the files that inputs name: an object of words, or the keys of a table, ascending, whose
// places are their rows.
func (s *inputSet) lookups(dir string) error {
	files := map[string]string{} // a feature of each
	for _, in := range s.all {
		if in.Rows != "" {
			files[in.Rows] = in.Key
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		t := s.tables[files[name]]
		write := func(w io.Writer) error {
			a := array{kind: typeI64, shape: []int{len(t.keys)}}
			_, err := w.Write(append(npyHead(&a), raw.Bytes(t.keys)...))
			return err
		}
		if f := s.vocabulary(files[name]); f != nil {
			words, rows := t.words(f)
			all := map[string]int{}
			for i := range words[1:] { // the first is the missing value
				all[words[1+i]] = rows[1+i]
			}
			if f.Padding != "" {
				all[f.Padding] = noRow
			}
			text, err := json.Marshal(all)
			if err != nil {
				return err
			}
			write = content(append(text, '\n'))
		}
		if _, err := whole(system{}, dir, name, write); err != nil {
			return err
		}
	}
	return nil
}
