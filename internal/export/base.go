package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/layout"
)

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

// openBase opens a complete version. It reuses the parsed files of another one, old, which may be
// nil, if they are the same.
func openBase(dir string, m Manifest, old *base, pause Pause) (b *base, err error) {
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
	if old != nil && m.parsesAs(&old.manifest) {
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

// guard turns the fault of reading a mapped file beyond its end into an error that names the
// file. It is deferred. before is the goroutine's previous setting for faults.
func (b *base) guard(err *error, before bool) {
	debug.SetPanicOnFault(before)
	fault := recover()
	if fault == nil {
		return
	}
	if _, is := fault.(interface{ Addr() uintptr }); !is {
		panic(fault)
	}
	*err = fmt.Errorf("export: %s: a file cannot be read: %v", b.dir, fault)
	for _, f := range b.manifest.Files {
		path := filepath.Join(b.dir, f.Name)
		if info, serr := os.Stat(path); serr == nil && info.Size() < f.size() {
			*err = fmt.Errorf("export: %s: %w", path, f.checkSize(info.Size()))
		}
	}
}

// parse reads the configuration and the encoder of a model.
func parse(yaml, index []byte) (*config.Config, *encode.Encoder, layout.Layout, error) {
	c, err := config.ParseSaved(configName, yaml)
	if err != nil {
		return nil, nil, layout.Layout{}, err
	}
	c.Fill()
	e, err := encode.LoadEncoder(index)
	if err != nil {
		return nil, nil, layout.Layout{}, err
	}
	return c, e, layout.New(c, e.Sparse(), e.Dense()), nil
}
