package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse"
)

// Types of arrays.
const (
	typeF32 = "F32"
	typeU64 = "U64"
	typeI64 = "I64"
)

// array is one exported array.
type array struct {
	name  string
	kind  string
	shape []int
	data  func() ([]byte, error) // little-endian
}

func (a *array) bytes() int {
	n := map[string]int{typeF32: 4, typeU64: 8}[a.kind]
	for _, d := range a.shape {
		n *= d
	}
	return n
}

// sorted is a table in memory, by ascending key.
type sorted struct {
	of   sparse.Table
	keys []uint64
	rows []float32
	half []f32.BF16
}

// load reads a table of a checkpoint; values are as the training reads them. Keys are
// sorted by compare.
func (s *sorted) load(c *checkpoint.Checkpoint, compare func(a, b uint64) int) error {
	s.keys, s.rows = nil, nil
	if err := step.EachRow(c, s.of, func(_ int, key uint64, values []float32) error {
		s.keys, s.rows = append(s.keys, key), append(s.rows, values...)
		return nil
	}); err != nil {
		return err
	}
	if s.of.Wire.Rows == sparse.BF16 {
		s.half = roundBF16(s.half, s.rows)
	}
	n, width := len(s.keys), widthOf(s.of)
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return compare(s.keys[a], s.keys[b]) })
	keys, rows := make([]uint64, 0, n), make([]float32, 0, n*width)
	for _, i := range order {
		keys, rows = append(keys, s.keys[i]), append(rows, s.rows[int(i)*width:(int(i)+1)*width]...)
	}
	s.keys, s.rows = keys, rows
	return nil
}

func widthOf(t sparse.Table) (n int) {
	for _, p := range t.Parts {
		n += p.Dim
	}
	return n
}

// arrays lists the arrays of a model: the dense parameters, the running statistics, and
// the keys and rows of each table. A table is loaded between its keys and its rows.
func arrays(src Source) (all []array, meta map[string]string, err error) {
	c, _, l, err := parse(src.Config, src.Encoder)
	if err != nil {
		return nil, nil, err
	}
	p, err := step.NewParameters(c, l)
	if err == nil {
		err = p.Load(src.Checkpoint)
	}
	if err != nil {
		return nil, nil, err
	}
	floats := func(x []float32) func() ([]byte, error) { return func() ([]byte, error) { return raw.Bytes(x), nil } }
	for _, x := range p.Params() {
		a := array{"dense/" + x.Name, typeF32, []int{x.Rows, x.Cols}, floats(x.Value)}
		if x.Rows == 1 {
			a.shape = a.shape[1:]
		}
		all = append(all, a)
	}
	for _, x := range p.Statistics() {
		all = append(all, array{"dense/" + x.Name, typeF32, []int{len(x.Value)}, floats(x.Value)})
	}
	meta = map[string]string{"format": "wdlrun arrays", "step": strconv.FormatInt(src.Checkpoint.Step(), 10), "model": c.Model.Kind}
	for _, t := range l.Tables {
		name, n := "table/"+t.Name, 0
		if err := step.EachRow(src.Checkpoint, t, func(int, uint64, []float32) error { n++; return nil }); err != nil {
			return nil, nil, err
		}
		s, loaded := sorted{of: t}, false
		take := func(part func() []byte, last bool) func() ([]byte, error) {
			return func() ([]byte, error) {
				if !loaded {
					if err := s.load(src.Checkpoint, cmp.Compare); err != nil {
						return nil, err
					}
				}
				b := part()
				if loaded = !last; last {
					s.keys, s.rows = nil, nil
				}
				return b, nil
			}
		}
		all = append(all,
			array{name + "/keys", typeU64, []int{n}, take(func() []byte { return raw.Bytes(s.keys) }, false)},
			array{name + "/rows", typeF32, []int{n, widthOf(t)}, take(func() []byte { return raw.Bytes(s.rows) }, true)})
		meta[name+"/parts"] = partsText(t)
	}
	return all, meta, nil
}

// partsText lists the parts of a row with their widths: "deep:8 wide:1".
func partsText(t sparse.Table) string {
	var parts []string
	for _, p := range t.Parts {
		parts = append(parts, fmt.Sprintf("%s:%d", p.Name, p.Dim))
	}
	return strings.Join(parts, " ")
}

// put writes an array and checks its announced size.
func (a *array) put(w io.Writer) error {
	b, err := a.data()
	if err == nil && len(b) != a.bytes() {
		err = fmt.Errorf("array %s has %d bytes, %d were announced: the checkpoint has changed", a.name, len(b), a.bytes())
	}
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// WriteSafetensors writes the arrays of a model to one file in the format of safetensors: the
// length of a JSON header, the header, the arrays.
func WriteSafetensors(ctx context.Context, src Source, path string) error {
	all, meta, err := arrays(src)
	if err != nil {
		return fmt.Errorf("export: safetensors: %s: %w", path, err)
	}
	type entry struct {
		Type    string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, at := map[string]any{"__metadata__": meta}, 0
	for _, a := range all {
		header[a.name] = entry{a.kind, a.shape, [2]int{at, at + a.bytes()}}
		at += a.bytes()
	}
	text, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("export: safetensors: %s: %w", path, err)
	}
	text = append(text, bytes.Repeat([]byte(" "), -len(text)&7)...) // arrays are aligned to 8 bytes
	err = publish(path, func(tmp string) error {
		_, err := whole(system{}, filepath.Dir(tmp), filepath.Base(tmp), func(w io.Writer) error {
			if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))); err != nil {
				return err
			}
			if _, err := w.Write(text); err != nil {
				return err
			}
			return each(ctx, all, func(a *array) error { return a.put(w) })
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("export: safetensors: %w", err)
	}
	return nil
}

func each(ctx context.Context, all []array, f func(*array) error) error {
	for i := range all {
		if err := errors.Join(ctx.Err(), f(&all[i])); err != nil {
			return err
		}
	}
	return nil
}

// WriteNPY writes the arrays of a model to a directory, one .npy file each, and
// parts.json. Slashes in names become dots in file names.
func WriteNPY(ctx context.Context, src Source, path string) error {
	all, meta, err := arrays(src)
	if err == nil {
		err = publish(path, func(tmp string) error {
			if err := os.Mkdir(tmp, 0o755); err != nil {
				return err
			}
			err := each(ctx, all, func(a *array) error {
				_, err := whole(system{}, tmp, fileName(a.name)+".npy", func(w io.Writer) error {
					if _, err := w.Write(npyHead(a)); err != nil {
						return err
					}
					return a.put(w)
				})
				return err
			})
			if err != nil {
				return err
			}
			text, err := json.MarshalIndent(meta, "", "  ")
			if err == nil {
				_, err = whole(system{}, tmp, "parts.json", func(w io.Writer) error {
					_, err := w.Write(append(text, '\n'))
					return err
				})
			}
			return errors.Join(err, system{}.Sync(tmp))
		})
	}
	if err != nil {
		return fmt.Errorf("export: npy: %w", err)
	}
	return nil
}

// fileName returns the file name for the name of an array.
func fileName(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, ".")
}

// npyHead returns the header of a .npy file of version 1.0, padded to a multiple of 64
// bytes.
func npyHead(a *array) []byte {
	kind := map[string]string{typeF32: "<f4", typeU64: "<u8", typeI64: "<i8"}[a.kind]
	var shape strings.Builder
	for _, d := range a.shape {
		fmt.Fprintf(&shape, "%d, ", d)
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, strings.TrimSuffix(shape.String(), " "))
	const head = 10
	text += strings.Repeat(" ", -(head+len(text)+1)&63) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(b[8:], uint16(len(text)))
	return append(b, text...)
}

// publish calls write with a temporary name next to path, then renames the file or
// directory. path must not exist. After an error nothing is left.
func publish(path string, write func(tmp string) error) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists: remove it, or choose another name", path)
	}
	parent := filepath.Dir(filepath.Clean(path))
	if err := makeDirs(system{}, parent); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, tmpPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tmp := filepath.Join(dir, filepath.Base(path))
	if err := write(tmp); err != nil {
		return fmt.Errorf("%s: %w; nothing was written", path, err)
	}
	return errors.Join(regular.Rename(tmp, path), system{}.Sync(parent))
}
