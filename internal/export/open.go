package export

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/regular"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/layout"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// Model is a version of a model that is open. Its methods may be called from any goroutine.
// Close it when no scorer of it is used any more.
type Model struct {
	dir      string
	manifest Manifest
	config   *config.Config
	encoder  *encode.Encoder
	layout   layout.Layout
	params   *step.Parameters
	tables   []mapped
	warmup   []byte
	unmap    []func() error
}

// Open opens MODELS/NAME/VERSION. It reads every file, verifies all checksums and checks
// every size, so that no later call can fail because of the files.
func Open(dir string) (*Model, error) {
	m := &Model{dir: dir}
	if err := m.open(); err != nil {
		return nil, fmt.Errorf("export: open: %s: %w", dir, errors.Join(err, m.Close()))
	}
	return m, nil
}

func (m *Model) open() error {
	text, err := regular.ReadFile(filepath.Join(m.dir, manifestName), maxManifest)
	if err != nil {
		return err
	}
	manifest, err := parseManifest(text)
	if err != nil {
		return fmt.Errorf("%s: %w", manifestName, err)
	}
	m.manifest = *manifest
	files := map[string][]byte{}
	for _, f := range m.manifest.Files {
		b, err := m.mapFile(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		files[f.Name] = b
	}
	if m.config, m.encoder, m.layout, err = parse(files[configName], files[encoderName]); err != nil {
		return err
	}
	if m.params, err = step.NewParameters(m.config, m.layout); err != nil {
		return err
	}
	if err := m.params.Read(bytes.NewReader(files[denseName])); err != nil {
		return fmt.Errorf("%s: %w", denseName, err)
	}
	m.warmup = files[warmupName]
	return m.openTables(files)
}

// mapFile maps a file and verifies its checksums.
func (m *Model) mapFile(want file) ([]byte, error) {
	f, err := regular.Open(filepath.Join(m.dir, want.Name))
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != want.size() {
		return nil, fmt.Errorf("%d bytes, the manifest says %d: cut short, or still being copied", info.Size(), want.size())
	}
	b, unmap, err := mapFile(f, info.Size())
	if err != nil {
		return nil, err
	}
	m.unmap = append(m.unmap, unmap)
	offset := int64(0)
	for _, s := range want.Sections {
		if sum := checkpoint.Sum(xxh3.Hash(b[offset : offset+s.Length])); sum != s.Checksum {
			return nil, fmt.Errorf("offset %d: the checksum of section %q (%d bytes) is %v, the manifest says %v: damaged", offset, s.Name, s.Length, sum, s.Checksum)
		}
		offset += s.Length
	}
	return b, nil
}

func (m *Model) openTables(files map[string][]byte) error {
	as, err := precisionOf(m.manifest.Rows)
	if err != nil {
		return err
	}
	if len(m.layout.Tables) != len(m.manifest.Tables) {
		return fmt.Errorf("%s: %d tables, the configuration has %d", manifestName, len(m.manifest.Tables), len(m.layout.Tables))
	}
	for i, t := range m.manifest.Tables {
		of := m.layout.Tables[i]
		if t.Name != of.Name {
			return fmt.Errorf("%s: table %d is %q, the configuration has %q", manifestName, i, t.Name, of.Name)
		}
		x, err := newMapped(newCodec(as, of), t, m.manifest.Files[firstTable+i], files[t.File])
		if err != nil {
			return fmt.Errorf("%s: %w", t.File, err)
		}
		m.tables = append(m.tables, x)
	}
	return nil
}

// Close unmaps the files. No scorer may be used afterwards.
func (m *Model) Close() error {
	var errs []error
	for _, unmap := range m.unmap {
		errs = append(errs, unmap())
	}
	m.unmap, m.tables, m.warmup = nil, nil, nil
	return errors.Join(errs...)
}

// Dir is the directory that the model was opened from.
func (m *Model) Dir() string { return m.dir }

// Manifest describes the model: name, version, inputs, outputs, tables. The caller must not
// change what it points to.
func (m *Model) Manifest() Manifest { return m.manifest }

// Version is the number of the version.
func (m *Model) Version() int64 { return m.manifest.Version }

// Config is the configuration of the training, filled. The caller must not change it.
func (m *Model) Config() *config.Config { return m.config }

// Encoder turns records into batches as training did.
func (m *Model) Encoder() *encode.Encoder { return m.encoder }

// Layout says where the inputs of the model are.
func (m *Model) Layout() layout.Layout { return m.layout }

// Parameters are the dense parameters.
func (m *Model) Parameters() *step.Parameters { return m.params }

// Warmup returns some records of the training data, a TFRecord file of tf.Example that have the
// fields of the manifest's inputs; nil if there are none. It is valid until Close.
func (m *Model) Warmup() []byte { return m.warmup }

// Read implements step.Rows.
func (m *Model) Read(table int, keys []uint64, dst []float32) { m.tables[table].read(keys, dst) }

// NewScorer makes a scorer for one goroutine.
func (m *Model) NewScorer() (*step.Scorer, error) {
	return step.NewScorer(m.config, m.layout, m.params, m)
}

// Bytes is the size of the files that are mapped.
func (m *Model) Bytes() (n int64) {
	for _, f := range m.manifest.Files {
		n += f.size()
	}
	return n
}
