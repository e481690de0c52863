package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// System is the disk of the operating system, and On replaces it.
type System = system

func On(d disk, o Options) Options {
	o.disk = d
	return o
}

// OnPublish replaces the disk of a publisher.
func OnPublish(d disk, o PublishOptions) PublishOptions {
	o.disk = d
	return o
}

// WideModel returns an ONNX model whose logit is its float input x, N×1: a wide part with a bias of 0.
func WideModel(t testing.TB) []byte {
	c, err := config.Parse("wide.yaml", []byte("data: {train: [x.csv], header: true}\nlabel: {field: y, positive: [a]}\nfeatures: [{field: f, encode: hash}]\nmodel: {deep: false}\n"))
	fatal.If(t, err)
	c.Fill()
	p, err := step.NewParameters(c, layout.Layout{})
	fatal.If(t, err)
	g := &graph{consts: map[string]string{}}
	g.inputs.bytes(graphInput, valueInfo("x", onnxFloat, "N", 1))
	fatal.If(t, g.networks(c, layout.Layout{}, p, onnxBody{wide: [][]string{{"x"}}}))
	return g.model("wide", nil)
}

func shape(dims ...int) (t sparse.Table) {
	t.Name = "t"
	for i, d := range dims {
		t.Parts = append(t.Parts, sparse.Part{Name: fmt.Sprint(i), Dim: d})
	}
	return t
}

// TestCodecs: values are read back within the error of their precision, parts of one value
// exactly.
func TestCodecs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dims := range [][]int{{1}, {8, 1}, {1, 3, 1, 1}, {7}, {16, 16}} {
		for as := range precision(3) {
			c := newCodec(as, shape(dims...))
			row, values, got := make([]byte, c.stride), make([]float32, c.width), make([]float32, c.width)
			for n := range 200 {
				for i := range values {
					values[i] = float32(rng.NormFloat64() * math.Pow(10, float64(n%60-30)))
				}
				if n == 0 {
					clear(values)
				}
				c.encode(row, values)
				c.decode(got, row)
				at := 0
				for _, dim := range dims {
					var most float64
					for _, v := range values[at : at+dim] {
						most = max(most, math.Abs(float64(v)))
					}
					for i := at; i < at+dim; i++ {
						limit := map[precision]float64{bfloat16s: math.Abs(float64(values[i])) / 256, int8s: most/254*1.0001 + 1e-44}[as]
						if dim == 1 {
							limit = 0
						}
						if d := math.Abs(float64(got[i] - values[i])); d > limit {
							t.Fatalf("%v of %v: %v became %v", Precisions()[as], dims, values[i], got[i])
						}
					}
					at += dim
				}
			}
		}
	}
}

// openKeys returns a table of keys, as writeTable and newMapped do, and its sections in one slice.
func openKeys(t testing.TB, keys []uint64, as precision, of sparse.Table) (mapped, []byte) {
	c, salt := newCodec(as, of), table.Salt(of.Name)
	hashes := make([]uint64, len(keys))
	slices.SortFunc(keys, func(a, b uint64) int { return cmp.Compare(hashOf(a, salt), hashOf(b, salt)) })
	table.Hashes(hashes, keys, salt)
	var all []byte
	p := newPlacer(len(keys), c.record(), func(b []byte) error { all = append(all, b...); return nil })
	values := make([]float32, c.width)
	for i, k := range keys {
		row, err := p.add(hashes[i], k)
		fatal.If(t, err)
		for j := range values {
			values[j] = float32(k%1000) + float32(j)/8
		}
		c.encode(row, values)
	}
	fatal.If(t, p.end())
	all = append(all, make([]byte, padded(int64(len(all)))-int64(len(all)))...)
	sections := []section{{Length: int64(len(all))}, {Length: int64(len(p.index))}}
	all = append(all, p.index...)
	m, err := newMapped(c, Table{Name: of.Name, Rows: int64(len(keys)), Width: c.width, Lines: int64(p.lines)}, sections, all, nil)
	fatal.If(t, err)
	return m, all
}

func hashOf(key, salt uint64) uint64 {
	h := [1]uint64{}
	table.Hashes(h[:], []uint64{key}, salt)
	return h[0]
}

// modelOf returns a model of one table.
func modelOf(of mapped, layers ...mapped) *Model {
	return &Model{base: &base{tables: []mapped{of}}, layers: [][]mapped{layers}}
}

// TestKeysAreFound, and others are not, in tables of many sizes.
func TestKeysAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 3, 4, 5, 17, 1000, 20000} {
		for _, sequential := range []bool{false, true} {
			var keys []uint64
			held := map[uint64]bool{}
			for i := range n {
				k := uint64(i)
				if !sequential {
					k = rng.Uint64()
				}
				keys, held[k] = append(keys, k), true
			}
			m, _ := openKeys(t, keys, float32s, shape(2, 1))
			var ask []uint64
			for range 500 {
				k := rng.Uint64N(uint64(2*n + 1))
				if !sequential && n > 0 && k%2 == 0 {
					k = keys[k%uint64(n)]
				}
				ask = append(ask, k)
			}
			dst := make([]float32, 3*len(ask))
			modelOf(m).Read([]step.Query{{Keys: ask, Values: dst}})
			for i, k := range ask {
				row := dst[3*i : 3*i+3]
				if table.IsUnknown(row) == held[k] || held[k] && row[2] != float32(k%1000)+0.25 {
					t.Fatalf("%d keys: key %d, held %v, is %v", n, k, held[k], row)
				}
			}
		}
	}
}

// TestReadLooksUpManyTables: queries of any number and size, in any order, read what a lookup
// of each key alone reads, also from changed rows and from tables without rows.
func TestReadLooksUpManyTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	m := &Model{base: &base{}}
	var want []map[uint64]float32 // by table: first value of a row
	for i := range 40 {
		keys, held := []uint64{}, map[uint64]float32{}
		for k := range uint64(i * i) {
			keys, held[k] = append(keys, k), float32(k%1000)
		}
		of := shape(1+i%5, 1)
		x, _ := openKeys(t, keys, precision(i%3), of)
		m.base.tables = append(m.base.tables, x)
		var layers []mapped
		for l := range i % 3 { // keys 0 to 9 lose their rows, others get other ones
			layer := tableOf(newCodec(float32s, of), x.salt, 0, nil, func(func(hash, key uint64, row []float32) error) error { return nil })
			if l == 0 {
				layer = changesOf(x.salt, of, 50, func(key uint64, row []float32) {
					if held[key] = float32(key) + .5; key < 10 {
						delete(held, key)
						table.FillUnknown(row)
					} else {
						row[0] = held[key]
					}
				})
			}
			layers = append(layers, layer)
		}
		m.layers, want = append(m.layers, layers), append(want, held)
	}
	for range 30 {
		var all []step.Query
		for range rng.IntN(3 * groupSpans) {
			i := rng.IntN(len(want))
			q := step.Query{Table: i, Keys: make([]uint64, rng.IntN(8))}
			if rng.IntN(20) == 0 {
				q.Keys = make([]uint64, rng.IntN(3*groupKeys))
			}
			for k := range q.Keys {
				q.Keys[k] = rng.Uint64N(uint64(i*i + 60))
			}
			q.Values = make([]float32, len(q.Keys)*m.base.tables[i].codec.width)
			all = append(all, q)
		}
		m.Read(all)
		for _, q := range all {
			width := m.base.tables[q.Table].codec.width
			for k, key := range q.Keys {
				row := q.Values[k*width : (k+1)*width]
				first, held := want[q.Table][key]
				if table.IsUnknown(row) == held || held && math.Abs(float64(row[0]-first)) > .01*float64(first)+.01 {
					t.Fatalf("table %d: key %d: %v, want %v, %v", q.Table, key, row, first, held)
				}
			}
		}
	}
}

// changesOf returns a table of the keys 0 to n-1, whose rows fill fills.
func changesOf(salt uint64, of sparse.Table, n int, fill func(key uint64, row []float32)) mapped {
	c := newCodec(float32s, of)
	keys, hashes := make([]uint64, n), make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(i)
	}
	table.Hashes(hashes, keys, salt)
	slices.SortFunc(keys, func(a, b uint64) int { return cmp.Compare(hashes[a], hashes[b]) })
	slices.Sort(hashes)
	return tableOf(c, salt, n, nil, func(f func(hash, key uint64, row []float32) error) error {
		for i, key := range keys {
			row := make([]float32, c.width)
			fill(key, row)
			if err := f(hashes[i], key, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// FuzzTable: any file of a table is rejected, or reading it stays in range.
func FuzzTable(f *testing.F) {
	m, b := openKeys(f, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, bfloat16s, shape(2, 1))
	for _, x := range indexSeeds(b) {
		f.Add(x, int64(8), int64(1))
		f.Add(x, int64(9), int64(1))
	}
	f.Add(make([]byte, 64), int64(0), int64(1))
	f.Fuzz(func(t *testing.T, b []byte, rows, lines int64) {
		of := Table{Name: "t", Rows: rows, Width: m.codec.width, Lines: lines}
		sections, aligned, ok := fuzzed(b, of, m.codec)
		if !ok {
			return
		}
		got, err := newMapped(m.codec, of, sections, aligned, nil)
		if err != nil {
			return
		}
		keys := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, math.MaxUint64, 1 << 40}
		modelOf(got).Read([]step.Query{{Keys: keys, Values: make([]float32, len(keys)*m.codec.width)}})
	})
}

// indexSeeds returns a table of one line as it is, and with other pilots.
func indexSeeds(b []byte) [][]byte {
	search, other := slices.Clone(b), slices.Clone(b)
	for i := len(b) - 2*linePilots; i < len(b); i++ {
		search[i], other[i] = 0xff, byte(i)
	}
	return [][]byte{b, search, other}
}

// fuzzed returns the sections of a table of small sizes that fit b, and a copy of b.
func fuzzed(b []byte, of Table, c codec) (sections []section, aligned []byte, ok bool) {
	if !of.sized() || of.Rows > 1000 || of.Lines > 100 || len(b) > 1<<16 {
		return nil, nil, false
	}
	rows, index := padded(of.Rows*int64(c.record())), of.Lines*lineBytes
	if rows+index != int64(len(b)) {
		return nil, nil, false // the manifest has the sizes of the files
	}
	aligned = raw.Bytes(make([]uint64, len(b)/8))
	copy(aligned, b)
	return []section{{Length: rows}, {Length: index}}, aligned, true
}

// FuzzDelta: any table of changes is rejected, or merging and reading it stay in range.
func FuzzDelta(f *testing.F) {
	of := shape(2, 1)
	older, b := openKeys(f, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, float32s, of)
	for _, x := range indexSeeds(b) {
		f.Add(x, int64(8), int64(1))
		f.Add(x, int64(9), int64(1))
	}
	f.Add(make([]byte, 64), int64(0), int64(1))
	f.Fuzz(func(t *testing.T, b []byte, rows, lines int64) {
		x := Table{Name: "t", Rows: rows, Width: 3, Lines: lines}
		sections, aligned, ok := fuzzed(b, x, older.codec)
		if !ok {
			return
		}
		got, _, err := deltaTable(x, of, sections, aligned, nil)
		if err != nil {
			return
		}
		keys := []uint64{0, 1, 2, 3, math.MaxUint64, 1 << 40}
		ask := []step.Query{{Keys: keys, Values: make([]float32, len(keys)*3)}}
		modelOf(older, addLayer([]mapped{older}, got, nil)...).Read(ask)
		modelOf(mergeLayers([]mapped{got, older}, nil)).Read(ask)
	})
}

// FuzzManifest: an accepted manifest has an entry for each file, and encodes to itself.
func FuzzManifest(f *testing.F) {
	one := []section{{"content", 5, 1}}
	m := Manifest{
		Format: formatName, FormatVersion: formatVersion, Name: "ctr", Version: 3, Step: 3, Rows: "int8",
		Outputs: []Output{{"click", "probability"}}, Inputs: []Input{{"color", []string{"color"}, typeText, false}},
		Tables: []Table{{"color", tableName(0), 4, 3, 1}},
		Files:  []file{{configName, one}, {encoderName, one}, {denseName, one}, {tableName(0), []section{{"rows", 64, 1}, {"index", 64, 2}}}},
	}
	text, err := m.encode()
	fatal.If(f, err)
	if _, err := parseManifest(text); err != nil {
		f.Fatal(err)
	}
	f.Add(text[len(sumPrefix)+18:])
	m.Delta, m.Rows, m.Tables[0].File = &Delta{Previous: 2, Taken: 7, Base: 1}, "float32", deltaName
	m.Files = []file{{denseName, one}, {deltaName, []section{{"color/rows", 64, 1}, {"color/index", 64, 2}}}}
	if text, err = m.encode(); err != nil {
		f.Fatal(err)
	}
	if _, err := parseManifest(text); err != nil {
		f.Fatal(err)
	}
	f.Add(text[len(sumPrefix)+18:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Manifest
		if json.Unmarshal(append([]byte("{"), b...), &m) != nil || m.Format != formatName || m.FormatVersion != formatVersion || m.check() != nil {
			return
		}
		for _, x := range m.Files {
			if x.size() < 0 {
				t.Fatalf("%+v", x)
			}
		}
		text, err := m.encode()
		if err != nil {
			return // too long
		}
		if _, err := parseManifest(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

// TestNewerFormat: a version of a newer format, such as changes that a later program has published, is an error that names
// both formats.
func TestNewerFormat(t *testing.T) {
	dir := t.TempDir()
	m := Manifest{Format: formatName, FormatVersion: formatVersion + 1, Name: "ctr", Version: 8, Delta: &Delta{Base: 7, Previous: 7}}
	if err := writeManifest(system{}, dir, &m); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("version %d, this program reads %q version %d", formatVersion+1, formatName, formatVersion)
	for _, read := range []func() error{
		func() error { _, err := readManifest(dir); return err },
		func() error { _, err := OpenAfter(dir, nil, nil); return err },
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
