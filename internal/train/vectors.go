package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/arrays"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

// errFirst ends the reading of a file of vectors after the first.
var errFirst = errors.New("the first vector is enough")

// checkVectors is CheckVectors for a training that does not resume, which alone reads the files.
func checkVectors(from *checkpoint.Checkpoint, c *config.Config) error {
	if from != nil {
		return nil
	}
	return CheckVectors(c)
}

// CheckVectors returns an error if a file of features[].init cannot be read, lacks a column, or has vectors
// of another width than the embeddings. It reads the first vector of each.
func CheckVectors(c *config.Config) error {
	var faults []error
	for i := range c.Features {
		f := &c.Features[i]
		if f.Init == "" {
			continue
		}
		tables := c.TablesInUse()
		at := slices.IndexFunc(tables, func(t config.Table) bool { return t.Name == f.Table })
		err := arrays.EachVector(f.Init, func(_ []byte, vector []float32) error {
			if at >= 0 && tables[at].Dim != len(vector) {
				return step.WidthError(len(vector), tables[at].Name, tables[at].Dim)
			}
			return errFirst
		})
		if err != nil && !errors.Is(err, errFirst) {
			faults = append(faults, fmt.Errorf("features[%d].init: %w", i, err))
		}
	}
	return permanent(errors.Join(faults...))
}
