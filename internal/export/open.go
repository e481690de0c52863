package export

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
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

// Pause is called between pieces of work of about 0.1 ms, so that requests run while a
// version is opened. nil: never.
type Pause func()

func (p Pause) call() {
	if p != nil {
		p()
	}
}

// base is a complete version. Versions that change it share it.
type base struct {
	dir      string
	manifest Manifest
	config   *config.Config
	encoder  *encode.Encoder
	layout   layout.Layout
	dense    []byte
	tables   []mapped
	warmup   []byte
	texts    [][]byte // the contents of the files of the manifest
	unmap    []func() error
	users    atomic.Int32
}

// Open opens MODELS/NAME/VERSION. It reads every file, verifies all checksums and checks
// every size, so that later calls fail only if a file is cut short meanwhile. If the version changes
// another one, it also opens those that it builds upon.
func Open(dir string) (*Model, error) { return OpenAfter(dir, nil, nil) }

// OpenAfter is Open, but shares what it can with an open version, before, if that is not
// nil.
func OpenAfter(dir string, before *Model, pause Pause) (m *Model, err error) {
	for range openTries {
		m = &Model{dir: dir, pause: pause}
		if err = m.open(before); err == nil {
			return m, nil
		}
		err = errors.Join(err, m.Close())
		if m.manifest.Delta == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("export: open: %s: %w", dir, err)
}

// openTries is the maximum number of attempts to open a version: the versions that it
// builds upon may become complete, and lose their changes, meanwhile.
const openTries = 3

func (m *Model) open(before *Model) error {
	manifest, err := readManifest(m.dir)
	if err != nil {
		return err
	}
	m.manifest = *manifest
	if m.manifest.Delta != nil {
		return m.openChain(before)
	}
	if m.base, err = openBase(m.dir, m.manifest, before, m.pause); err != nil {
		return err
	}
	m.layers = make([][]mapped, len(m.base.tables))
	return m.readDense(m.base.dense)
}

func readManifest(dir string) (*Manifest, error) {
	text, err := regular.ReadFile(filepath.Join(dir, manifestName), maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	return m, nil
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

// openBase opens a complete version. It reuses the parsed files of before, which may be
// nil, if they are the same.
func openBase(dir string, m Manifest, before *Model, pause Pause) (b *base, err error) {
	b = &base{dir: dir, manifest: m}
	b.users.Store(1)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.release())
		}
	}()
	defer b.guard(&err, debug.SetPanicOnFault(true))
	files := map[string][]byte{}
	for _, f := range m.Files {
		text, err := b.mapFile(dir, f, pause)
		if err != nil {
			return b, fmt.Errorf("%s: %w", f.Name, err)
		}
		files[f.Name], b.texts = text, append(b.texts, text)
	}
	if old := before.parsed(); old != nil && m.parsesAs(&old.manifest) {
		b.config, b.encoder, b.layout = old.config, old.encoder, old.layout
	} else if b.config, b.encoder, b.layout, err = parse(files[configName], files[encoderName]); err != nil {
		return b, err
	}
	b.dense, b.warmup = files[denseName], files[warmupName]
	return b, b.openTables(files, pause)
}

// parsesAs reports whether configuration and encoder of two complete versions are equal.
func (m *Manifest) parsesAs(o *Manifest) bool {
	return slices.EqualFunc(m.Files[:firstTable-1], o.Files[:firstTable-1], func(a, b file) bool { return slices.Equal(a.Sections, b.Sections) })
}

// parsed returns the complete version that m builds upon. m may be nil.
func (m *Model) parsed() *base {
	if m == nil {
		return nil
	}
	return m.base
}

// release closes the base when its last user releases it.
func (b *base) release() error {
	if b == nil || b.users.Add(-1) > 0 {
		return nil
	}
	var errs []error
	for _, unmap := range b.unmap {
		errs = append(errs, unmap())
	}
	b.unmap, b.tables, b.warmup, b.dense, b.texts = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// verify verifies the checksums of the mapped files again.
func (b *base) verify() (err error) {
	defer b.guard(&err, debug.SetPanicOnFault(true))
	for i, f := range b.manifest.Files {
		if err := verify(b.texts[i], f.Sections, 0, func([]byte) error { return nil }); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// mapFile maps a file and verifies its checksums.
func (b *base) mapFile(dir string, want file, pause Pause) ([]byte, error) {
	f, err := regular.Open(filepath.Join(dir, want.Name))
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping remains
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := want.checkSize(info.Size()); err != nil {
		return nil, err
	}
	text, unmap, err := mapFile(f, info.Size())
	if err != nil {
		return nil, err
	}
	b.unmap = append(b.unmap, unmap)
	touched := int64(0)
	return text, verify(text, want.Sections, 0, func(piece []byte) error {
		pause.call()
		populate(text, touched, int64(len(piece)))
		touched += int64(len(piece))
		return nil
	})
}

func (f *file) checkSize(n int64) error {
	if n != f.size() {
		return fmt.Errorf("%d bytes, the manifest has %d: cut short, or still being copied", n, f.size())
	}
	return nil
}

// verify verifies the checksums of sections in b; offset is their place in the file. It
// calls before with each piece of b before hashing it.
func verify(b []byte, sections []section, offset int64, before func(piece []byte) error) error {
	hash := xxh3.New()
	for _, s := range sections {
		hash.Reset()
		for piece := range slices.Chunk(b[:s.Length], pieceBytes) {
			if err := before(piece); err != nil {
				return err
			}
			_, _ = hash.Write(piece) // a hash never fails
		}
		if sum := checkpoint.Sum(hash.Sum64()); sum != s.Checksum {
			return fmt.Errorf("offset %d: the checksum of section %q (%d bytes) is %v, the manifest has %v: damaged", offset, s.Name, s.Length, sum, s.Checksum)
		}
		offset, b = offset+s.Length, b[s.Length:]
	}
	return nil
}

// pieceBytes is the number of bytes read, verified or unmapped at a time.
const pieceBytes = 1 << 18

// checkTables compares the tables of a manifest with the configuration's.
func (b *base) checkTables(m *Manifest) error {
	if len(b.layout.Tables) != len(m.Tables) {
		return fmt.Errorf("%s: %d tables, the configuration has %d", manifestName, len(m.Tables), len(b.layout.Tables))
	}
	for i, t := range m.Tables {
		if of := b.layout.Tables[i]; t.Name != of.Name {
			return fmt.Errorf("%s: table %d is %q, the configuration has %q", manifestName, i, t.Name, of.Name)
		}
	}
	return nil
}

func (b *base) openTables(files map[string][]byte, pause Pause) error {
	m := &b.manifest
	as, err := precisionOf(m.Rows)
	if err == nil {
		err = b.checkTables(m)
	}
	if err != nil {
		return err
	}
	for i, t := range m.Tables {
		x, err := newMapped(newCodec(as, b.layout.Tables[i]), t, m.Files[firstTable+i].Sections, files[t.File], pause)
		if err != nil {
			return fmt.Errorf("%s: %w", t.File, err)
		}
		b.tables = append(b.tables, x)
	}
	return nil
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
