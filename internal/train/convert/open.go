package convert

import (
	"errors"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/arrays"
)

func (m *Model) open(path string, c *config.Config) (err error) {
	if isExported(path) {
		return m.openExported(path)
	}
	if c == nil {
		return errors.New("arrays have no configuration: give -config FILE too")
	}
	if m.folder, err = arrays.Open(path); err != nil {
		return err
	}
	m.Lines = append(m.Lines, m.folder.Notes...)
	x := &matcher{Model: m, path: path, from: c.Train.From, used: map[*arrays.Array]bool{}}
	m.config = withoutTraining(c)
	return x.match()
}

// Open opens a source and matches it with a configuration. c, which is filled, may be nil for an
// exported model, which has its own.
func Open(path string, c *config.Config) (*Model, error) {
	m := &Model{Origin: Origin{Path: path}}
	err := m.open(path, c)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("from %s: %w", path, err)
	}
	return m, nil
}
