package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Piece is the changes in the tables of one rank.
type Piece struct{ tables []mapped }

// Add adds the changes of the next table. Rows that are sent as bfloat16 are rounded in
// place to what the training reads.
func (p *Piece) Add(of sparse.Table, x *table.Taken) error {
	c := newCodec(float32s, of)
	if i := f32.FirstNonFinite(x.Values); i >= 0 {
		return fmt.Errorf("table %q: the row of key %d has the value %v: train with a smaller learning rate or clip_norm", of.Name, x.Keys[i/c.width], x.Values[i])
	}
	if of.Wire.Rows == sparse.BF16 {
		roundBF16(nil, x.Values)
	}
	salt, n := table.Salt(of.Name), len(x.Keys)
	hashes := make([]uint64, n+len(x.Removed))
	table.Hashes(hashes[:n], x.Keys, salt)
	table.Hashes(hashes[n:], x.Removed, salt)
	order := make([]int32, len(hashes))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(hashes[a], hashes[b]), cmp.Compare(a, b)) })
	order = slices.CompactFunc(order, func(a, b int32) bool { return hashes[a] == hashes[b] }) // a row sorts before a removal
	gone := make([]float32, c.width)
	table.FillUnknown(gone)
	p.tables = append(p.tables, tableOf(c, salt, len(order), nil, func(f func(hash, key uint64, row []float32) error) error {
		for _, i := range order {
			key, row := uint64(0), gone
			if int(i) < n {
				key, row = x.Keys[i], x.Values[int(i)*c.width:(int(i)+1)*c.width]
			} else {
				key = x.Removed[int(i)-n]
			}
			if err := f(hashes[i], key, row); err != nil {
				return err
			}
		}
		return nil
	}))
	return nil
}

// joined merges the changes of all ranks. Their keys differ.
func joined(pieces []Piece) Piece {
	if len(pieces) == 1 {
		return pieces[0]
	}
	var all Piece
	of := make([]mapped, len(pieces)) // one table of each piece
	for t := range pieces[0].tables {
		for i := range pieces {
			of[i] = pieces[i].tables[t]
		}
		all.tables = append(all.tables, mergeLayers(of, nil))
	}
	return all
}

// writeDelta writes the tables of a piece as one file.
func (p *Piece) writeDelta(d disk, dir, name string, of []sparse.Table) (all []Table, f file, err error) {
	w := newWriter(d, dir, name)
	for i := range p.tables {
		t, table := &p.tables[i], of[i].Name
		_ = w.put(t.records) // the writer keeps the error
		w.end(table+"/rows", align)
		_ = w.put(t.index)
		w.end(table+"/index", align)
		all = append(all, Table{Name: table, File: name, Rows: int64(t.n), Width: t.codec.width, Lines: int64(t.index.lines())})
	}
	f, err = w.close()
	return all, f, err
}

// Files of a part: the changes of a rank other than 0. All ranks count parts, so that a part of a
// version that failed is not mistaken for a later one.
const (
	partPrefix = ".part-"
	maxPart    = 1 << 24 // bytes of the description of a part
)

// part describes the file of a part.
type part struct {
	Version int64   `json:"version"`
	Tables  []Table `json:"tables"`
	File    file    `json:"file"`
}

func partDir(root string, version int64) string {
	return filepath.Join(root, fmt.Sprint(partPrefix, version))
}

// PartName returns the name of the part of a rank.
func PartName(rank int) string { return fmt.Sprintf("part-%04d", rank) }

// WritePart writes a rank's piece of a version for rank 0 to read.
func (p *Piece) WritePart(root string, version int64, rank int, of []sparse.Table) (err error) {
	dir, name, d := partDir(root, version), PartName(rank), system{}
	if err = makeDirs(d, root); err == nil {
		err = ownFolder(root, filepath.Base(dir), true)
	}
	if err != nil {
		return fmt.Errorf("export: part of rank %d: %w", rank, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("export: part of rank %d: %w", rank, errors.Join(err, os.RemoveAll(filepath.Join(dir, name+".bin"))))
		}
	}()
	text, err := p.describe(d, dir, name, version, of)
	if err != nil {
		return err
	}
	if _, err := whole(d, dir, name+".tmp", content(text)); err != nil {
		return err
	}
	// Rank 0 reads the part as soon as it has this name, and then removes the folder. The
	// part need not survive a crash, because the version would not be published then.
	return d.Rename(filepath.Join(dir, name+".tmp"), filepath.Join(dir, name+".json"))
}

// describe writes the content of a part and returns its description.
func (p *Piece) describe(d disk, dir, name string, version int64, of []sparse.Table) (text []byte, err error) {
	x := part{Version: version}
	if x.Tables, x.File, err = p.writeDelta(d, dir, name+".bin", of); err != nil {
		return nil, err
	}
	return seal(x)
}

// Part returns the description and the content of the part of a rank, which rank 0 fetches with
// PublishOptions.Fetch.
func (p *Piece) Part(version int64, rank int, of []sparse.Table) (text, content []byte, err error) {
	var m memory
	if text, err = p.describe(&m, "", PartName(rank), version, of); err != nil {
		return nil, nil, fmt.Errorf("export: part of rank %d: %w", rank, err)
	}
	return text, m.Bytes(), nil
}

// memory is a disk that holds one file.
type memory struct{ bytes.Buffer }

func (m *memory) Create(string) (io.WriteCloser, error) { return m, nil }

func (*memory) Sync(string) error { return nil }

func (*memory) Rename(_, _ string) error { return nil }

func (*memory) Close() error { return nil }

// fetchParts gets the pieces of the ranks above 0 by fetch.
func fetchParts(ctx context.Context, fetch Fetch, version int64, size int, of []sparse.Table) (all []Piece, err error) {
	for rank := 1; rank < size; rank++ {
		text, read, err := fetch(ctx, version, rank)
		var p Piece
		if err == nil {
			p, err = parsePart(text, PartName(rank), version, of, func(f file) ([]byte, error) {
				b, err := read(f.size())
				return f.verified(b, err)
			})
		}
		if err != nil {
			return nil, fmt.Errorf("part of rank %d: %w", rank, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// readParts waits for the pieces of the ranks above 0.
func readParts(ctx context.Context, root string, version int64, size int, of []sparse.Table) (all []Piece, err error) {
	for rank := 1; rank < size; rank++ {
		var p Piece
		for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
			p, err = readPart(partDir(root, version), PartName(rank), version, of)
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil, fmt.Errorf("the part of rank %d is missing: %w", rank, context.Cause(ctx))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("part of rank %d: %w", rank, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func readPart(dir, name string, version int64, of []sparse.Table) (p Piece, err error) {
	text, err := regular.ReadFile(filepath.Join(dir, name+".json"), maxPart)
	if err != nil {
		return p, err
	}
	return parsePart(text, name, version, of, func(f file) ([]byte, error) { return readWhole(dir, f) })
}

// parsePart returns the piece of a part with a description. read returns the verified content.
func parsePart(text []byte, name string, version int64, of []sparse.Table, read func(file) ([]byte, error)) (p Piece, err error) {
	var x part
	if err := unseal(text); err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return p, err
	}
	if x.Version != version || len(x.Tables) != len(of) || len(x.File.Sections) != tableSections*len(of) || x.File.Name != name+".bin" || x.File.size() < 0 {
		return p, fmt.Errorf("%s: version %d, %d tables, %d sections; want version %d and %d tables", x.File.Name, x.Version, len(x.Tables), len(x.File.Sections), version, len(of))
	}
	b, err := read(x.File)
	if err != nil {
		return p, err
	}
	for i, t := range x.Tables {
		m, rest, err := deltaTable(t, of[i], x.File.Sections[tableSections*i:][:tableSections], b, nil)
		if err != nil {
			return p, err
		}
		p.tables, b = append(p.tables, m), rest
	}
	return p, nil
}

// Fetch waits for a part of a rank. read returns its content if it has the given size in bytes.
type Fetch func(ctx context.Context, part int64, rank int) (text []byte, read func(size int64) ([]byte, error), err error)
