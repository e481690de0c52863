package export

import (
	"bytes"
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

// Model is an open version of a model. Its methods are safe for concurrent use. Close it
// when its scorers are no longer used.
type Model struct {
	dir      string
	manifest Manifest
	base     *base
	params   *step.Parameters
	layers   [][]mapped // by table, oldest first: rows changed since the base
	pause    Pause
}

// readDense reads the dense parameters.
func (m *Model) readDense(b []byte) (err error) {
	if m.params, err = step.NewParameters(m.base.config, m.base.layout); err != nil {
		return err
	}
	if err := m.params.Read(bytes.NewReader(b)); err != nil {
		return fmt.Errorf("%s: %w", denseName, err)
	}
	return nil
}

// parsed returns the complete version that m builds upon. m may be nil.
func (m *Model) parsed() *base {
	if m == nil {
		return nil
	}
	return m.base
}

// Close closes the files. No scorer may be used afterwards.
func (m *Model) Close() error {
	b := m.base
	m.base, m.layers = nil, nil
	return b.release()
}

// Dir returns the directory of the model.
func (m *Model) Dir() string { return m.dir }

// Manifest returns the description of the model: name, version, inputs, outputs, tables.
// The caller must not change what it points to.
func (m *Model) Manifest() Manifest { return m.manifest }

// Chosen reports whether a rollback published the version.
func (m *Model) Chosen() bool { return m.manifest.Rollback != nil }

// Version returns the number of the version.
func (m *Model) Version() int64 { return m.manifest.Version }

// Config returns the configuration of the training, with defaults filled in. The caller
// must not change it.
func (m *Model) Config() *config.Config { return m.base.config }

// Encoder returns the encoder of records, the same as in training.
func (m *Model) Encoder() *encode.Encoder { return m.base.encoder }

// Layout returns the layout of the inputs of the model.
func (m *Model) Layout() layout.Layout { return m.base.layout }

// Parameters returns the dense parameters.
func (m *Model) Parameters() *step.Parameters { return m.params }

// Warmup returns some records of the training data, a TFRecord file of tf.Example with the
// fields of the manifest's inputs; nil if there are none. It is valid until Close.
func (m *Model) Warmup() []byte { return m.base.warmup }

// NewScorer returns a scorer for one goroutine.
func (m *Model) NewScorer() (*step.Scorer, error) {
	return step.NewScorer(m.base.config, m.base.layout, m.params, m)
}

// NewScorerBF16 returns a scorer for one goroutine that multiplies in bfloat16; see package
// step.
func (m *Model) NewScorerBF16() (*step.Scorer, error) {
	return step.NewScorerBF16(m.base.config, m.base.layout, m.params, m)
}

// Base returns the number of the mapped complete version: the model's own, or one that it
// changes.
func (m *Model) Base() int64 { return m.base.manifest.Version }

// Taken returns when the training had finished the step of the model; zero if unknown.
func (m *Model) Taken() time.Time {
	if m.manifest.Taken == 0 {
		return time.Time{}
	}
	return time.Unix(0, m.manifest.Taken)
}

// Bytes returns the size of the mapped files.
func (m *Model) Bytes() (n int64) {
	for _, f := range m.base.manifest.Files {
		n += f.size()
	}
	return n
}
