package arrays

import (
	"archive/zip"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// values returns all elements of an array, read in pieces of some rows.
func values(t *testing.T, a *Array, rows int) []float32 {
	t.Helper()
	all := make([]float32, a.Rows()*a.Width())
	for i := 0; i < a.Rows(); i += rows {
		n := min(rows, a.Rows()-i)
		fatal.If(t, a.Read(all[i*a.Width():(i+n)*a.Width()], i))
	}
	return all
}

func counted(n int) (all []float32) {
	for i := range n {
		all = append(all, float32(i))
	}
	return all
}

// TestFilesOfOtherPrograms reads what torch, safetensors and numpy have written: slices and turned
// tensors, parts of two ranks, byte orders and compressed archives.
func TestFilesOfOtherPrograms(t *testing.T) {
	for _, c := range []struct {
		path, name string
		shape      []int
		want       []float32
	}{
		{"views.pt", "slice", []int{2, 3}, []float32{8, 9, 10, 14, 15, 16}},
		{"views.pt", "turned", []int{6, 4}, []float32{0, 6, 12, 18, 1, 7, 13, 19, 2, 8, 14, 20, 3, 9, 15, 21, 4, 10, 16, 22, 5, 11, 17, 23}},
		{"views.pt", "half", []int{4, 6}, counted(24)},
		{"views.pt", "whole", []int{4, 6}, counted(24)},
		{"views.pt", "one", nil, []float32{5}},
		{"sharded", "emb", []int{5, 4}, counted(20)},
		{"two.npz", "a", []int{2, 3}, counted(6)},
		{"two.npz", "b", []int{2, 3}, counted(6)},
		{"packed.npz", "a", []int{2, 3}, counted(6)},
		{"tensorflow", "model/item", []int{6, 4}, counted(24)},
		{"tensorflow/ckpt", "model/kernel", []int{2, 3}, counted(6)},
		{"tensorflow/ckpt.index", "model/half", []int{2, 3}, counted(6)},
		{"tensorflow", "model/step", nil, []float32{5}},
	} {
		f, err := Open(filepath.Join("testdata", c.path))
		fatal.If(t, err)
		a := f.Find(c.name)
		if a == nil || !slices.Equal(a.Shape, c.shape) {
			t.Fatalf("%s: %s: %+v", c.path, c.name, a)
		}
		for _, rows := range []int{1, 2, 100} {
			if got := values(t, a, rows); !slices.Equal(got, c.want) {
				t.Errorf("%s: %s: %v, want %v", c.path, c.name, got, c.want)
			}
		}
		fatal.If(t, f.Close())
	}
}

// TestTensorFlow: a partitioned variable has the elements of its slices; what is no number is counted, and
// each damage is found.
func TestTensorFlow(t *testing.T) {
	f, err := Open("testdata/partitioned")
	fatal.If(t, err)
	defer f.Close()
	want, err := Open("testdata/model.safetensors")
	fatal.If(t, err)
	defer want.Close()
	for _, name := range []string{"item", "user"} {
		a, b := f.Find(name+"/weight"), want.Find(name+".weight")
		if got := values(t, a, 3); !slices.Equal(got, values(t, b, 100)) || name == "item" && len(a.parts) != 3 {
			t.Errorf("%s: %v in %d parts", name, got, len(a.parts))
		}
	}
	other, err := Open("testdata/tensorflow")
	fatal.If(t, err)
	defer other.Close()
	if len(other.Notes) != 0 {
		t.Errorf("notes %q", other.Notes)
	}
	index, err := os.ReadFile("testdata/partitioned/model.ckpt.index")
	fatal.If(t, err)
	data, err := os.ReadFile("testdata/partitioned/model.ckpt.data-00000-of-00001")
	fatal.If(t, err)
	read := func(index, data []byte) error {
		_, _, _, err := bundle(index, func(int, int) (io.ReaderAt, int64, error) { return bytes.NewReader(data), int64(len(data)), nil })
		return err
	}
	fatal.If(t, read(index, data))
	unused, _, err := handle(index[len(index)-bundleFooter:])
	fatal.If(t, err)
	for i := range uint64(len(index) - bundleFooter) {
		damaged := bytes.Clone(index)
		damaged[i] ^= 1
		if used := i < unused[0] || i >= unused[0]+unused[1]+5; used && read(damaged, data) == nil {
			t.Errorf("byte %d of the index is damaged: no error", i)
		}
	}
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1
		if err := read(index, damaged); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Fatalf("byte %d of the data is damaged: %v", i, err)
		}
	}
	if err := read(index, data[:len(data)-1]); err == nil {
		t.Error("the data is cut short: no error")
	}
}

// TestHugeCTR: the files key and emb_vector of a folder, or of its folders, are a table with its values.
func TestHugeCTR(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "0_sparse_9.model")
	put := func(name string, b []byte) { fatal.If(t, os.WriteFile(filepath.Join(table, name), b, 0o644)) }
	fatal.If(t, os.Mkdir(table, 0o755))
	var keys, vectors []byte
	for i := range 2000 {
		keys = le.AppendUint64(keys, uint64(int64(i*3-5)))
		for k := range 3 {
			vectors = le.AppendUint32(vectors, math.Float32bits(float32(3*i+k)))
		}
	}
	put("key", keys)
	put("emb_vector", vectors)
	for _, path := range []string{dir, table} {
		f, err := Open(path)
		fatal.If(t, err)
		if a := f.Find("0_sparse_9.model"); !Readable(path) || a == nil || !slices.Equal(a.Shape, []int{2000, 3}) || len(a.Values) != 2000 || a.Values[0] != "-5" || a.Values[1999] != "5992" || !slices.Equal(values(t, a, 7), counted(6000)) {
			t.Errorf("%s: %+v", path, a)
		}
		fatal.If(t, f.Close())
	}
	for name, b := range map[string][]byte{"key": keys[:len(keys)-1], "emb_vector": vectors[:len(vectors)-4]} {
		put("key", keys)
		put("emb_vector", vectors)
		put(name, b)
		if _, err := Open(table); err == nil || !strings.Contains(err.Error(), name+" has") {
			t.Errorf("%s is cut short: %v", name, err)
		}
	}
	put("key", nil)
	if _, err := Open(dir); err == nil {
		t.Error("no keys: no error")
	}
}

// TestStateDict: nested dicts give names with dots, and the tensors equal those of safetensors.
func TestStateDict(t *testing.T) {
	a, err := Open("testdata/model.pt")
	fatal.If(t, err)
	defer a.Close()
	b, err := Open("testdata/model.safetensors")
	fatal.If(t, err)
	defer b.Close()
	if len(a.Arrays) != 8 || len(b.Arrays) != 8 || len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "4 values that are no tensors") {
		t.Errorf("%d and %d arrays, %v", len(a.Arrays), len(b.Arrays), a.Notes)
	}
	for _, y := range b.Arrays {
		x := a.Find("model." + y.Name)
		if x == nil || !slices.Equal(x.Shape, y.Shape) || !slices.Equal(values(t, x, 3), values(t, y, 5)) {
			t.Errorf("%s differs", y.Name)
		}
	}
}

// TestWhatIsNotReadIsNamed: each other file is an error that names what it is, with a script that
// converts it.
func TestWhatIsNotReadIsNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
		fatal.If(t, os.WriteFile(path, b, 0o644))
		return path
	}
	model, err := os.ReadFile("testdata/model.safetensors")
	fatal.If(t, err)
	part, err := os.ReadFile("testdata/sharded/shard-00001-model-00001-of-00001.safetensors")
	fatal.If(t, err)
	write("dcp/.metadata", nil)
	write("twice/a.safetensors", model)
	write("twice/b.safetensors", model)
	write("half/a.safetensors", bytes.Replace(part, []byte("[0, 0]"), []byte("[2, 0]"), 1))
	var object bytes.Buffer
	z := zip.NewWriter(&object)
	w, err := z.Create("x/data.pkl")
	fatal.If(t, err)
	fmt.Fprint(w, "\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.")
	fatal.If(t, z.Close())
	for path, want := range map[string]string{
		"testdata/module.pt":                         "__main__.Model: it is a pickled object, not a state dict of tensors. This script",
		write("system.pt", object.Bytes()):           "it contains os.system: it is a pickled object",
		write("old.pt", []byte("\x80\x02\x8a\x0al")): "before version 1.6. This script",
		write("m.h5", nil):                           "numpy.savez",
		filepath.Join(dir, "dcp"):                    "dcp_to_torch_save",
		filepath.Join(dir, "twice"):                  "is in a.safetensors and in b.safetensors, without saved_offsets",
		filepath.Join(dir, "half"):                   "its parts have 12 of 20 elements: a file is missing",
		write("cut.safetensors", model[:900]):        "it is cut short or damaged",
		write("cut2.safetensors", model[:90]):        "it is cut short",
		write("no.npy", []byte("\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, 'shape': (3,), }"+strings.Repeat(" ", 30)+"\n")): "elements of type \"|O\"",
		write("e/x.txt", nil)[:len(dir)+2]: "there are no arrays",
	} {
		f, err := Open(path)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

type vectorRow struct {
	Value  string    `parquet:"value"`
	Vector []float32 `parquet:"vector,list"`
}

// TestVectors: Parquet with a vector for each value, and the faults of its rows.
func TestVectors(t *testing.T) {
	open := func(rows ...vectorRow) (*Folder, error) {
		path := filepath.Join(t.TempDir(), "item.parquet")
		fatal.If(t, parquet.WriteFile(path, rows))
		return Open(path)
	}
	f, err := open(vectorRow{"a", []float32{1, 2}}, vectorRow{"line\nfeed", []float32{3, 4}})
	fatal.If(t, err)
	defer f.Close()
	a := f.Find("item")
	if !slices.Equal(a.Values, []string{"a", "line\nfeed"}) || !slices.Equal(values(t, a, 1), []float32{1, 2, 3, 4}) {
		t.Errorf("%v", a)
	}
	if _, err := open(vectorRow{"a", []float32{1, 2}}, vectorRow{"b", []float32{3}}); err == nil || !strings.Contains(err.Error(), "row 1: its vector has 1 numbers, that of row 0 has 2") {
		t.Error(err)
	}
}

// TestValues: the files that name the value of each row.
func TestValues(t *testing.T) {
	all, err := ReadValues("testdata/item.json")
	fatal.If(t, err)
	if len(all) != 12 || string(all[11].Text) != "line\nfeed" || all[11].Row != 11 {
		t.Errorf("%v", all)
	}
	type row struct {
		Value *string `parquet:"value,optional"`
		Row   int64   `parquet:"row"`
	}
	v, path := "x", filepath.Join(t.TempDir(), "v.parquet")
	fatal.If(t, parquet.WriteFile(path, []row{{&v, 4}, {nil, 2}}))
	all, err = ReadValues(path)
	fatal.If(t, err)
	if len(all) != 2 || string(all[0].Text) != "x" || all[0].Row != 4 || all[1].Text != nil || all[1].Row != 2 {
		t.Errorf("%v", all)
	}
	for text, want := range map[string]string{`["a", null, 7]`: "", `{"a": 1.5}`: "its row is no integer", `[[1]]`: "entry 0 of the list is no value", `3`: "must be an object", `["a"`: "EOF",
		`{"x": {"b": 1}, "item": {"a": 1, "7": 2}}`: "", `{"x": {"a": 1}, "y": {}}`: "it has vocabularies of x, y, and none of user or item"} {
		got, err := valuesIn([]byte(text), "user", "item")
		if want == "" && (err != nil || len(got) != 2 || got[1].Row != 2 || string(got[1].Text) != "7") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestStringsOfTensorFlow: lists of strings of a checkpoint are read, and a damaged byte of one is an error.
func TestStringsOfTensorFlow(t *testing.T) {
	f, err := Open("testdata/tensorflow")
	fatal.If(t, err)
	defer f.Close()
	if got := f.Texts["model/names"]; !slices.Equal(got, []string{"a", "bc"}) || len(f.Notes) != 0 {
		t.Errorf("%q, notes %q", f.Texts, f.Notes)
	}
	index, err := os.ReadFile("testdata/tensorflow/ckpt.index")
	fatal.If(t, err)
	b, err := os.ReadFile("testdata/tensorflow/ckpt.data-00000-of-00001")
	fatal.If(t, err)
	at := bytes.Index(b, []byte("abc"))
	for i := at - 6; i < at+3; i++ { // two lengths, their checksum, and the bytes
		b[i] ^= 1
		if _, _, _, err := bundle(index, func(int, int) (io.ReaderAt, int64, error) { return bytes.NewReader(b), int64(len(b)), nil }); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("byte %d: %v", i-at, err)
		}
		b[i] ^= 1
	}
}

// TestVocabularyOfFuxiCTR: the vocabulary of each feature is found in the file that FuxiCTR has written.
func TestVocabularyOfFuxiCTR(t *testing.T) {
	for name, want := range map[string]string{"seen": "__PAD__0 i11 i22 i33 i94 i85 __OOV__6", "user": "__PAD__0 u11 u22 __OOV__3"} {
		all, err := ReadValues("testdata/fuxictr/feature_vocab.json", "other", name, "item")
		fatal.If(t, err)
		var got []string
		for _, v := range all {
			got = append(got, fmt.Sprint(string(v.Text), v.Row))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestDamagedFiles: a damaged file is an error or has other values; it never panics, and reading is
// bounded by the file.
func TestDamagedFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"model.pt", "views.pt", "model.safetensors", "two.npz", "packed.npz", "sharded/shard-00001-model-00001-of-00001.safetensors"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		fatal.If(t, err)
		for range 850 {
			damaged := slices.Clone(b)
			for range 1 + r.IntN(4) {
				switch i := r.IntN(len(damaged)); r.IntN(3) {
				case 0:
					damaged[i] = byte(r.Uint32())
				case 1:
					damaged = damaged[:i+1]
				default:
					damaged = slices.Insert(damaged, i, byte(r.Uint32()))
				}
			}
			readDamaged(filepath.Ext(name), damaged)
		}
	}
}

func readDamaged(ext string, b []byte) {
	in, n := bytes.NewReader(b), int64(len(b))
	var all []*Array
	var err error
	switch ext {
	case ".pt":
		all, _, err = torch(in, n)
	case ".safetensors":
		all, err = safetensors(in, n)
	default:
		all, err = npz(in, n)
	}
	if err != nil {
		return
	}
	for _, a := range all {
		if a.assemble() != nil {
			continue
		}
		if w, err := elements(a.Shape); err == nil && w < 1<<20 && a.Rows() > 0 {
			_ = a.Read(make([]float32, a.Width()), 0) // an error is as good
		}
	}
}

// eachInBlockOf reads a block with a checksum that fits.
func eachInBlockOf(b []byte) error {
	block := append(bytes.Clone(b), 0)
	sum := crc32.Checksum(block, castagnoli)
	block = le.AppendUint32(block, (sum>>15|sum<<17)+0xa282ead8)
	return eachInBlock(block, [2]uint64{0, uint64(len(b))}, func(key, _ []byte) error {
		if len(key) > 0 {
			sliceOf(key)
		}
		return nil
	})
}

func FuzzArrays(f *testing.F) {
	for _, name := range []string{"model.pt", "views.pt", "model.safetensors", "two.npz", "packed.npz"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, name := range []string{"tensorflow/ckpt.index", "partitioned/model.ckpt.index"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, ext := range []string{".pt", ".safetensors", ".npz"} {
			readDamaged(ext, b)
		}
		_, _ = npy(bytes.NewReader(b), int64(len(b)), "x")
		_, _, _, _ = bundle(b, func(int, int) (io.ReaderAt, int64, error) { return bytes.NewReader(b), int64(len(b)), nil })
		for _, cut := range [][]byte{b, b[len(b)/2:]} { // behind the checksums
			e := &bundleEntry{}
			_, _ = e.parse(cut), eachInBlockOf(cut)
		}
		_, _ = unpickle(b)
		_, _ = valuesIn(b, "item")
	})
}
