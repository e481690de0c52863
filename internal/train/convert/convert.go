// Package convert writes models of other programs, and exported models, as checkpoints, with which
// a training can begin.
//
// A source is an exported model, or arrays (package arrays) with a configuration. Tables and layers
// are matched with arrays by name, by the list train.from.names, or by shape; a match by shape has
// to be confirmed. A checkpoint of a conversion has no states of optimizers.
package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/arrays"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Section is the section of a checkpoint that a conversion adds: JSON, an Origin.
const Section = "converted"

// Origin describes what a checkpoint was converted from.
type Origin struct {
	Path       string   `json:"path"`
	Statistics bool     `json:"statistics"` // the source has means, quantiles and dates of features
	Lines      []string `json:"lines"`      // what was taken
}

// Model is an open source.
type Model struct {
	Origin
	Guess string // YAML of matches by shape, which have to be confirmed; "": none

	config  *config.Config // of the checkpoint, without what only affects training
	trained *config.Config // of the training of an exported model; nil for arrays
	encoder *encode.Encoder
	layout  layout.Layout
	params  *step.Parameters
	rows    func(i int, put putter) error // calls put with the rows of table i

	exported *export.Model
	folder   *arrays.Folder
}

// putter inserts a part of a row: its values from column at on.
type putter func(key uint64, at int, values []float32) error

// Is reports whether a path is an exported model or has arrays, rather than a run or a checkpoint.
func Is(path string) bool {
	if isExported(path) {
		return true
	}
	return !checkpoint.IsCheckpoint(path) && !isRun(path) && arrays.Readable(path)
}

func isRun(path string) bool {
	_, err := os.Stat(filepath.Join(path, checkpoint.Folder))
	return err == nil
}

func isExported(path string) bool {
	for _, name := range []string{"MANIFEST.json", "dense.bin"} { // a checkpoint has the first one too
		if _, err := os.Stat(filepath.Join(path, name)); err != nil {
			return false
		}
	}
	return true
}

// Config returns the configuration of the model. That of an exported model has the settings of its
// training, with which another one begins if it has no configuration. The caller must not change it.
func (m *Model) Config() *config.Config {
	if m.trained != nil {
		return m.trained
	}
	return m.config
}

// Close closes the files.
func (m *Model) Close() {
	if m.exported != nil {
		m.exported.Close()
	}
	if m.folder != nil {
		m.folder.Close()
	}
}

// withoutTraining returns a configuration without what only affects training: its rows have no states.
func withoutTraining(c *config.Config) *config.Config {
	b := c.Clone()
	none := optim.Rule{Kind: "sgd", LearningRate: 1}
	for _, r := range []*optim.Rule{&b.Train.Optimizer.Dense, &b.Train.Optimizer.Deep, &b.Train.Optimizer.Wide} {
		if r.Kind != "" {
			*r = none
		}
	}
	b.Train.From, b.Train.L2 = config.From{}, config.L2{}
	b.Train.Gate, b.Train.Export, b.Train.Retain = config.Gate{}, config.Export{}, config.Retain{}
	for i := range b.Tables {
		t := &b.Tables[i]
		t.Deep, t.Wide, t.L2, t.Admit, t.Evict, t.Tier = nil, nil, config.TableL2{}, config.Admit{}, config.Evict{}, config.Tier{}
	}
	for i := range b.Features {
		b.Features[i].Was, b.Features[i].Init = "", ""
	}
	b.Fill()
	return b
}

// openExported opens an exported model.
func (m *Model) openExported(path string) (err error) {
	if m.exported, err = export.Open(path); err != nil {
		return err
	}
	x := m.exported
	m.trained = x.Config().Clone()
	for i := range m.trained.Features {
		m.trained.Features[i].Was = "" // names features of its own source
	}
	m.config, m.encoder, m.params, m.Statistics = withoutTraining(m.trained), x.Encoder(), x.Parameters(), true
	m.layout = layout.New(m.config, m.encoder.Sparse(), m.encoder.Dense())
	m.Lines = append(m.Lines, "the states of the optimizers start again: an exported model has none")
	if rows := x.Manifest().Rows; rows != "float32" {
		m.Lines = append(m.Lines, "the rows of the exported model are rounded to "+rows)
	}
	m.rows = func(i int, put putter) error {
		return x.EachRow(i, func(key uint64, values []float32) error { return put(key, 0, values) })
	}
	return nil
}

// Write writes the model as a checkpoint below root, which it creates, and returns its directory.
// The rows of one table at a time are held in memory. Without rows, its tables are empty.
func (m *Model) Write(ctx context.Context, root string, rows bool) (dir string, err error) {
	w, err := checkpoint.Create(root, 0, 0, 1)
	if err != nil {
		return "", err
	}
	defer w.Discard() // does nothing after a Close without error
	encoded, err := m.encoder.Marshal()
	if err != nil {
		return "", err
	}
	for i, t := range m.layout.Tables {
		if !rows {
			break
		}
		if err := m.writeTable(ctx, w, i, t); err != nil {
			return "", fmt.Errorf("from %s: table %s: %w", m.Path, t.Name, err)
		}
	}
	origin, err := json.Marshal(m.Origin)
	if err != nil {
		return "", err
	}
	for _, s := range []struct {
		name string
		b    []byte
	}{{save.SectionConfig, m.config.YAML()}, {save.SectionEncoder, encoded}, {save.SectionCursor, []byte("{}")}, {Section, origin}} {
		if err := w.Section(s.name, func(to io.Writer) error { _, err := to.Write(s.b); return err }); err != nil {
			return "", err
		}
	}
	if err := w.Section(step.SectionDense, m.params.Save); err != nil {
		return "", err
	}
	file, err := w.Close()
	if err == nil {
		err = checkpoint.Commit(root, checkpoint.Manifest{Files: []checkpoint.File{file}})
	}
	return checkpoint.Dir(root, 0), err
}

// writeTable writes the rows of a table.
func (m *Model) writeTable(ctx context.Context, w *checkpoint.Writer, i int, of sparse.Table) error {
	t, err := table.Open(table.Config{Name: of.Name, Parts: of.Parts, Values: table.Float32}, 0, layout.Shards)
	if err != nil {
		return err
	}
	defer t.Close()
	record, n := make([]float32, t.RecordLen()), 0
	err = m.rows(i, func(key uint64, at int, values []float32) error {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		for _, x := range values {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return fmt.Errorf("row %d has the value %v: correct or remove this row", n-1, x)
			}
		}
		clear(record)
		if _, err := t.Get(key, record); err != nil {
			return err
		}
		copy(record[at:], values)
		return t.Put(key, record)
	})
	if err != nil {
		return err
	}
	for shard := range layout.Shards {
		if t.ShardRows(shard) == 0 {
			continue
		}
		if err := w.Section(sparse.SectionName(of.Name, shard), func(to io.Writer) error { return t.SaveShard(to, shard) }); err != nil {
			return err
		}
	}
	return nil
}

// ReadOrigin returns the origin of a checkpoint; nil: it has not been converted.
func ReadOrigin(c *checkpoint.Checkpoint) (*Origin, error) {
	if !c.Has(Section) {
		return nil, nil
	}
	o := new(Origin)
	return o, save.ReadJSON(c, Section, o)
}

// setUp makes the encoder, the layout and the parameters from vocabularies by feature.
func (m *Model) setUp(words map[string][]string) (err error) {
	s := input.SchemaOf(m.config).Fill()
	if m.encoder, err = encode.WithVocabularies(s, words); err != nil {
		return err
	}
	m.layout = layout.New(m.config, m.encoder.Sparse(), m.encoder.Dense())
	m.params, err = step.NewParameters(m.config, m.layout)
	return err
}

// flat returns the form of a name in which slashes and dots are equal: .npy files have dots.
func flat(name string) string { return strings.ReplaceAll(name, "/", ".") }
