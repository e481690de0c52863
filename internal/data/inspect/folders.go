package inspect

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/record"
)

// addFolders adds a column for each field that folders NAME=VALUE give to records. rows is the
// number of records of each file, in whose order the values of other columns are.
func (in *Inspection) addFolders(s *record.Sample, rows []int) {
	for _, name := range record.PartitionNames(s.Files) {
		if slices.ContainsFunc(in.Columns, func(c Column) bool { return c.Name == name }) {
			continue // the files have it too
		}
		var all cells
		for i := range s.Files {
			text, ok := s.Files[i].Partition(name)
			for range rows[i] {
				if ok {
					all.add(text)
				} else {
					all.add()
				}
			}
		}
		c := lookAt(name, all, "")
		c.Folder = true
		in.Columns = append(in.Columns, c)
	}
}

// widen changes the type of columns that folders give to records to one that fits the names of
// all folders, not only of those in the sample.
func (in *Inspection) widen(files []record.File) {
	for i := range in.Columns {
		c := &in.Columns[i]
		if !c.Folder || c.Kind == "string" {
			continue
		}
		for j := range files {
			text, ok := files[j].Partition(c.Name)
			if !ok {
				continue
			}
			if kind := kindOf([]string{text}); kind == "string" || kind == "float" && c.Kind == "int" {
				c.Kind = kind
			}
			if c.Kind == "string" {
				break
			}
		}
	}
}
