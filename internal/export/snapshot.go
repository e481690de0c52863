package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse"
)

// snapshot is a whole model in memory and mapped files.
type snapshot struct {
	yaml, encoder, warmup []byte
	dense                 []byte // parameters as in dense.bin
	of                    []sparse.Table
	base                  *base      // nil: empty tables
	layers                [][]mapped // by table, oldest first
}

// write writes the files of a complete version.
func (c *snapshot) write(ctx context.Context, d disk, dir string, m *Manifest) (err error) {
	if c.base != nil {
		defer c.base.guard(&err, debug.SetPanicOnFault(true))
	}
	m.Tables, m.Files, m.Delta = []Table{}, nil, nil
	for _, x := range []struct {
		name string
		text []byte
	}{{configName, c.yaml}, {encoderName, c.encoder}, {denseName, c.dense}} {
		f, err := whole(d, dir, x.name, content(x.text))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
	}
	for i, of := range c.of {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		tables := []mapped{}
		if c.base != nil {
			tables = append(tables, c.base.tables[i])
		}
		t, f, err := writeMerged(ctx, d, dir, i, of, append(tables, c.layers[i]...))
		if err != nil {
			return err
		}
		m.Tables, m.Files = append(m.Tables, t), append(m.Files, f)
	}
	if c.warmup != nil {
		f, err := whole(d, dir, warmupName, content(c.warmup))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
	}
	return writeManifest(d, dir, m)
}

// writeMerged writes a table with the rows of tables, oldest first.
func writeMerged(ctx context.Context, d disk, dir string, i int, of sparse.Table, tables []mapped) (Table, file, error) {
	n, c := 0, newCodec(float32s, of)
	_ = merge(tables, true, func(uint64, uint64, []float32) error { n++; return nil })
	if n > maxRows {
		return Table{}, file{}, fmt.Errorf("table %q: it has more than %d rows", of.Name, int64(maxRows))
	}
	w := newWriter(d, dir, tableName(i))
	p, left := newPlacer(n, c.record(), w.put), n
	_ = merge(tables, true, func(hash, key uint64, values []float32) error { // the writer keeps the error
		if left--; left%(1<<16) == 0 && w.err == nil {
			w.err = ctx.Err()
		}
		row, err := p.add(hash, key)
		copy(row, raw.Bytes(values))
		return err
	})
	return w.endTable(p, of.Name, c.width)
}

func writeManifest(d disk, dir string, m *Manifest) error {
	text, err := m.encode()
	if err == nil {
		_, err = whole(d, dir, manifestName, content(text))
	}
	return err
}

// fill writes a complete form of a version to tmp, and replaces its files within around.
func fill(ctx context.Context, d disk, root, tmp string, c *snapshot, m *Manifest, around func(func() error) error) error {
	dir := versionDir(root, m.Version)
	if err := ownFolder(root, filepath.Base(dir), false); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // removes the rest after an error
	if err := c.write(ctx, d, tmp, m); err != nil {
		return err
	}
	if err := d.Sync(tmp); err != nil {
		return err
	}
	return around(func() error {
		for _, name := range m.names() { // the manifest last
			if name == manifestName {
				if err := d.Sync(dir); err != nil {
					return err
				}
			}
			if err := d.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return errors.Join(d.Sync(dir), os.Remove(filepath.Join(dir, deltaName)))
	})
}

// snapshot returns the content of an open version with rows of float32, which stays open.
func (m *Model) snapshot() (*snapshot, error) {
	encoder, err := m.base.encoder.Marshal()
	if err != nil {
		return nil, err
	}
	var dense bytes.Buffer
	if err := m.params.Save(&dense); err != nil {
		return nil, err
	}
	return &snapshot{m.base.config.YAML(), encoder, m.base.warmup, dense.Bytes(), m.base.layout.Tables, m.base, m.layers}, nil
}
