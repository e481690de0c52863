package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/model/layout"
)

// fitted is a feature in a feature index.
type fitted struct {
	Name       string    `json:"name"`
	Field      string    `json:"field"`
	Encode     string    `json:"encode"`
	Separator  string    `json:"separator"`
	Weights    string    `json:"weights"`
	Log        bool      `json:"log"`
	Boundaries []float64 `json:"boundaries"`
	Mean       float64   `json:"mean"`
	Deviation  float64   `json:"deviation"`
	Limits     []float64 `json:"limits"`
	Vocabulary []string  `json:"vocabulary"`
	Bytes      [][]byte  `json:"vocabulary_base64"`
	Buckets    uint64    `json:"buckets"`

	Pairs       string    `json:"pairs"`
	Padding     string    `json:"padding"`
	MaxLen      int64     `json:"max_len"`
	Size        int64     `json:"size"` // of a vector
	Standardise bool      `json:"standardise"`
	Means       []float64 `json:"means"`
	Deviations  []float64 `json:"deviations"`
	Least       []float64 `json:"least"` // bounds to which numbers are clipped; nil: none
	Most        []float64 `json:"most"`
}

func (f *fitted) encoding() schema.Encoding {
	e, _ := schema.EncodingOf(f.Encode)
	return e
}

// edges returns the limits between the intervals of a number.
func (f *fitted) edges() []float64 {
	if f.encoding() == schema.Boundaries {
		return f.Boundaries
	}
	return f.Limits
}

// features parses the features of a feature index.
func features(index []byte) ([]fitted, error) {
	var x struct {
		Features []fitted `json:"features"`
	}
	err := json.Unmarshal(index, &x)
	return x.Features, err
}

// missingKey returns the key of a missing value, which also ends a list.
func missingKey() int64 {
	k := encode.KeyMissing
	return int64(k)
}

// OnnxInput is an input of an ONNX model.
type OnnxInput struct {
	Name    string `json:"name"`
	Type    string `json:"type"` // double, float, int32, int64 or string
	List    bool   `json:"list,omitempty"`
	Size    int64  `json:"size,omitempty"`    // of a vector, which is a row of this many numbers
	Missing string `json:"missing"`           // value of a missing input, and of the end of a list
	Unknown string `json:"unknown,omitempty"` // of encode: rate and of rows, the number of a value that training has not seen
	Key     string `json:"key,omitempty"`     // feature whose keys or rows it takes, which ONNX cannot compute
	Rows    string `json:"rows,omitempty"`    // file with the row of each word, or of each key
}

// inputSet declares the inputs of a graph, each once.
type inputSet struct {
	g        *graph
	e        *encode.Encoder
	fits     []fitted
	all      []OnnxInput
	multi    map[string]bool       // features and crosses with several values in a row
	features map[string][]string   // by input: the features that read it
	tables   map[string]*onnxTable // by feature
}

// add declares an input and returns its name: the field's, or the feature's if the field
// is already an input of another type.
func (s *inputSet) add(in OnnxInput, feature string) string {
	if in.Name == onnxLogit || in.Name == onnxScore {
		in.Name += ":input" // outputs have these names
	}
	same := func(x OnnxInput) bool { return x.Name == in.Name }
	if i := slices.IndexFunc(s.all, same); i >= 0 {
		if s.all[i] == in {
			s.features[in.Name] = append(s.features[in.Name], feature)
			return in.Name
		}
		in.Name = feature + ":" + in.Type
	}
	s.features[in.Name] = append(s.features[in.Name], feature)
	dims := []any{"N"}
	if in.Size > 0 {
		dims = append(dims, int(in.Size))
	} else if in.List {
		dims = append(dims, "L_"+in.Name)
	}
	kind := map[string]int64{"double": onnxDouble, "float": onnxFloat, "int32": onnxInt32, "int64": onnxInt64, "string": onnxString}[in.Type]
	s.all = append(s.all, in)
	s.g.inputs.bytes(graphInput, valueInfo(in.Name, kind, dims...))
	return in.Name
}

// number declares the input of a numeric field.
func (s *inputSet) number(f *fitted) string {
	return s.add(OnnxInput{Name: f.Field, Type: s.g.numberType(), Missing: "NaN"}, f.Name)
}

// keyed declares the input of the keys of a feature.
func (s *inputSet) keyed(feature string, list bool) string {
	return s.add(OnnxInput{Name: feature + ":key", Type: "int64", List: list, Missing: strconv.FormatInt(missingKey(), 10), Key: feature}, feature)
}

// dense computes a dense input as package encode does, N×1.
func (s *inputSet) dense(f *fitted) string {
	g, last := s.g, s.g.ints(1)
	if f.encoding() == schema.Age { // computed from a date
		x := s.add(OnnxInput{Name: f.Name + ":value", Type: "float", Missing: "0", Key: f.Name}, f.Name)
		return g.on("Unsqueeze", x, last)
	}
	if f.encoding() == schema.Vector {
		return s.vector(f)
	}
	if f.encoding() == schema.Rate { // computed from the counts of the training data
		var both []string
		missing, unknown := s.e.RateOf(f.Name)
		for k := range schema.RateWidth {
			name := fmt.Sprintf("%s[%d]", f.Name, k)
			in := OnnxInput{Name: name + ":value", Type: "float", Missing: fmt.Sprint(missing[k]), Unknown: fmt.Sprint(unknown[k]), Key: f.Name}
			both = append(both, g.on("Unsqueeze", s.add(in, name), last))
		}
		return g.node("Concat", both, attr{"axis", 1})
	}
	in := s.number(f)
	x := in
	if len(f.Least) > 0 {
		x = g.on("Clip", x, g.scalarNumber(f.Least[0]), g.scalarNumber(f.Most[0]))
	}
	if f.Log || f.encoding() == schema.Log {
		x = g.on("Mul", g.on("Sign", x), g.on("Log", g.on("Add", g.on("Abs", x), g.scalarNumber(1))))
	}
	if f.encoding() == schema.Standardise {
		inverse := 0.0
		if f.Deviation > 0 {
			inverse = 1 / f.Deviation
		}
		x = g.on("Mul", g.on("Sub", x, g.scalarNumber(f.Mean)), g.scalarNumber(inverse))
	}
	x = g.on("Clip", x, g.scalarNumber(-math.MaxFloat32), g.scalarNumber(math.MaxFloat32))
	x = g.on("Where", g.on("IsNaN", in), g.scalar(0), g.node("Cast", []string{x}, attr{"to", onnxFloat}))
	return g.on("Unsqueeze", x, last)
}

// vector computes the dense inputs of a vector, N × its size.
func (s *inputSet) vector(f *fitted) string {
	g := s.g
	in := s.add(OnnxInput{Name: f.Field, Type: g.numberType(), Size: f.Size, Missing: "NaN"}, f.Name)
	x := in
	if f.Standardise {
		inverses := make([]float64, len(f.Deviations))
		for i, d := range f.Deviations {
			if d > 0 {
				inverses[i] = 1 / d
			}
		}
		row := []int{1, len(f.Means)}
		if len(f.Least) > 0 {
			x = g.on("Max", x, g.numbers(row, f.Least))
			x = g.on("Min", x, g.numbers(row, f.Most))
		}
		x = g.on("Sub", x, g.numbers(row, f.Means))
		x = g.on("Mul", x, g.numbers(row, inverses))
	}
	x = g.on("Clip", x, g.scalarNumber(-math.MaxFloat32), g.scalarNumber(math.MaxFloat32))
	return g.on("Where", g.on("IsNaN", in), g.scalar(0), g.node("Cast", []string{x}, attr{"to", onnxFloat}))
}

// found locates the rows of a feature's values.
type found struct {
	keys    string // int64 N, or N×L; "" if at is known without them
	at      string // int64 N, or N×L: row numbers
	mask    string // bool N×L: valid values; "" if each sample has one
	weights string // float N×L; "" if there are none
}

// locate returns the rows of all features.
func (s *inputSet) locate(l layout.Layout, fits []fitted, columns []encode.SparseColumn, tables []*onnxTable) []found {
	all, sharing := make([]found, len(l.Features)), make([][]int, len(tables))
	for i, ft := range l.Features {
		if j := slices.IndexFunc(fits, func(f fitted) bool { return f.Name == ft.Name && f.encoding().Sparse() }); j >= 0 {
			all[i] = s.sparse(&fits[j], tables[ft.Table])
		} else {
			all[i] = s.cross(columns[i])
		}
		if all[i].keys != "" {
			sharing[ft.Table] = append(sharing[ft.Table], i)
		}
	}
	for t, features := range sharing {
		var keys []string
		for _, i := range features {
			keys = append(keys, all[i].keys)
		}
		for k, at := range s.g.find(tables[t], keys) {
			all[features[k]].at = at
		}
	}
	return all
}

// sparse returns the rows of a vocabulary in a table, and the keys of another feature.
func (s *inputSet) sparse(f *fitted, t *onnxTable) found {
	g, list := s.g, s.multi[f.Name]
	var x found
	var in string
	switch e := f.encoding(); {
	case g.rows && e.Number():
		x.at = s.intervalRow(f, t)
	case g.rows:
		x = s.row(f.Name, list)
	case e == schema.Vocabulary:
		in = s.add(OnnxInput{Name: f.Field, Type: "string", List: list, Missing: ""}, f.Name)
		x.at = s.words(f, t, in)
	case e.Number():
		in = s.interval(s.number(f), f.edges())
	case e == schema.ID:
		in = s.add(OnnxInput{Name: f.Field, Type: "int64", List: list, Missing: strconv.FormatInt(missingKey(), 10)}, f.Name)
		if n, err := strconv.ParseInt(f.Padding, 10, 64); err == nil {
			in = g.on("Where", g.on("Equal", in, g.scalarInt(n)), g.scalarInt(missingKey()), in)
		}
	default:
		in = s.keyed(f.Name, list)
	}
	if x.at == "" {
		x.keys = in
	}
	if !list {
		return x
	}
	switch {
	case g.rows:
	case f.encoding() == schema.Vocabulary:
		x.mask = g.first(s.notEmpty(f, in))
	default:
		x.mask = g.first(g.on("Not", g.on("Equal", in, g.scalarInt(missingKey()))))
	}
	if name := f.Weights; name != "" || f.Pairs != "" {
		if name == "" {
			name = f.Field + ":weights"
		}
		x.weights = s.add(OnnxInput{Name: name, Type: "float", List: true, Missing: "1"}, f.Name)
	}
	return x
}

// cross returns the keys of a cross, which are an input.
func (s *inputSet) cross(c encode.SparseColumn) found {
	if s.g.rows {
		return s.row(c.Name, s.multi[c.Name])
	}
	x := found{keys: s.keyed(c.Name, s.multi[c.Name])}
	if s.multi[c.Name] {
		x.mask = s.g.first(s.g.on("Not", s.g.on("Equal", x.keys, s.g.scalarInt(missingKey()))))
	}
	return x
}

// words maps the words of a vocabulary to rows.
func (s *inputSet) words(f *fitted, t *onnxTable, in string) string {
	keys, rows := t.words(f)
	return s.g.node("LabelEncoder", []string{in}, attr{"keys_strings", keys}, attr{"values_int64s", rows}, attr{"default_int64", t.row(encode.KeyUnknown)})
}

// words lists the words of a vocabulary, the empty one first, with their rows.
func (t *onnxTable) words(f *fitted) ([]string, []int) {
	keys, rows, known := []string{""}, []int{t.row(encode.KeyMissing)}, map[string]bool{}
	add := func(w string, row int) {
		if !known[w] {
			keys, rows, known[w] = append(keys, w), append(rows, row), true
		}
	}
	words := slices.Clone(f.Vocabulary)
	for _, w := range f.Bytes {
		words = append(words, string(w))
	}
	if f.Padding != "" {
		add(f.Padding, t.row(encode.KeyMissing))
	}
	slices.Sort(words) // of several spellings, the first counts
	for _, w := range words {
		add(w, t.row(encode.KeyOf([]byte(w))))
	}
	for _, w := range words {
		for _, other := range encode.Spellings([]byte(w)) {
			add(other, t.row(encode.KeyOf([]byte(w))))
		}
	}
	return keys, rows
}

// notEmpty returns which elements of a list are words.
func (s *inputSet) notEmpty(f *fitted, in string) string {
	empty, zeros := []string{""}, []int{0}
	if f.Padding != "" {
		empty, zeros = append(empty, f.Padding), append(zeros, 0)
	}
	n := s.g.node("LabelEncoder", []string{in}, attr{"keys_strings", empty}, attr{"values_int64s", zeros}, attr{"default_int64", 1})
	return s.g.on("Equal", n, s.g.scalarInt(1))
}

// interval returns the number of limits that are at most x, or the key of a missing value.
func (s *inputSet) interval(x string, limits []float64) string {
	g := s.g
	return g.on("Where", g.on("IsNaN", x), g.scalarInt(missingKey()), s.count(x, limits))
}

// count returns the number of limits that are at most x.
func (s *inputSet) count(x string, limits []float64) string {
	g := s.g
	if len(limits) == 0 {
		limits = []float64{math.Inf(1)}
	}
	of := g.numbers([]int{1, len(limits)}, limits)
	below := g.on("LessOrEqual", of, g.on("Unsqueeze", x, g.ints(1)))
	return g.node("ReduceSum", []string{g.node("Cast", []string{below}, attr{"to", onnxInt64}), g.ints(1)}, attr{"keepdims", 0})
}

// first makes the first value of an empty list valid: it is the missing one.
func (g *graph) first(mask string) string {
	most := g.node("ReduceMax", []string{g.node("Cast", []string{mask}, attr{"to", onnxInt64})}, attr{"axes", []int{1}})
	length := g.on("Gather", g.on("Shape", mask), g.scalarInt(1))
	isFirst := g.on("Equal", g.on("Range", g.scalarInt(0), length, g.scalarInt(1)), g.scalarInt(0))
	none := g.on("Equal", most, g.scalarInt(0))
	return g.on("Or", mask, g.on("And", none, isFirst))
}

// onnxTable is a table in a graph: keys and, by part, their rows, followed by a row of zeros
// for other keys.
type onnxTable struct {
	name  string
	keys  []uint64 // ascending as int64
	parts []string // rows+1 × dim
}

// row returns the row number of a key, or the row of zeros if it has none.
func (t *onnxTable) row(key uint64) int {
	i, ok := slices.BinarySearchFunc(t.keys, key, compareSigned)
	if !ok {
		return len(t.keys)
	}
	return i
}

func compareSigned(a, b uint64) int { return cmp.Compare(int64(a), int64(b)) }

// find returns the rows of the keys of several inputs, each in the shape of the input. The keys of
// the table are written once, so the inputs are looked up together.
func (g *graph) find(t *onnxTable, inputs []string) []string {
	if len(inputs) < 2 {
		return g.encode(t, inputs)
	}
	var flat, sizes, rows []string
	for _, in := range inputs {
		x := g.on("Reshape", in, g.ints(-1))
		flat, sizes = append(flat, x), append(sizes, g.on("Shape", x))
		rows = append(rows, g.name())
	}
	at := g.encode(t, []string{g.node("Concat", flat, attr{"axis", 0})})
	g.append("Split", append(at, g.node("Concat", sizes, attr{"axis", 0})), rows, []attr{{"axis", 0}})
	for i, in := range inputs {
		rows[i] = g.node("Reshape", []string{rows[i], g.on("Shape", in)}, attr{"allowzero", 1})
	}
	return rows
}

// encode returns the row of each key of the inputs.
func (g *graph) encode(t *onnxTable, inputs []string) (rows []string) {
	keys, places := make([]int, len(t.keys), len(t.keys)+1), make([]int, len(t.keys), len(t.keys)+1)
	for i, key := range t.keys {
		keys[i], places[i] = int(key), i
	}
	if len(keys) == 0 { // the operator needs a key
		keys, places = append(keys, 0), append(places, 0)
	}
	for _, in := range inputs {
		rows = append(rows, g.node("LabelEncoder", []string{in}, attr{"keys_int64s", keys}, attr{"values_int64s", places}, attr{"default_int64", len(t.keys)}))
	}
	return rows
}

// With OnnxOptions.Rows, the caller looks values up, and the graph takes the numbers of rows: −1 is a
// missing value and the end of a list, and the last row, of zeros, an unknown value.

// noRow is the number of a missing value.
const noRow = -1

// row declares the input of the rows of a feature.
func (s *inputSet) row(feature string, list bool) (x found) {
	g, t := s.g, s.tables[feature]
	in := s.add(OnnxInput{
		Name: feature + ":row", Type: "int32", List: list, Missing: strconv.Itoa(noRow), Unknown: strconv.Itoa(s.unknownRow(feature)),
		Key: feature, Rows: s.lookup(feature),
	}, feature)
	none := g.on("Equal", in, g.scalarRow(noRow))
	x.at = g.on("Where", none, g.scalarRow(t.row(encode.KeyMissing)), in)
	if list {
		x.mask = g.first(g.on("Not", none))
	}
	return x
}

// unknownRow returns the row of a value that training has not seen.
func (s *inputSet) unknownRow(feature string) int {
	t := s.tables[feature]
	if s.vocabulary(feature) != nil {
		return t.row(encode.KeyUnknown)
	}
	return len(t.keys)
}

// vocabulary returns a feature if it has words.
func (s *inputSet) vocabulary(feature string) *fitted {
	i := slices.IndexFunc(s.fits, func(f fitted) bool { return f.Name == feature && f.encoding() == schema.Vocabulary })
	if i < 0 {
		return nil
	}
	return &s.fits[i]
}

// lookup returns the name of the file with the rows of a feature.
func (s *inputSet) lookup(feature string) string {
	if s.vocabulary(feature) != nil {
		return fileName("words/"+feature) + ".json"
	}
	return fileName("keys/"+s.tables[feature].name) + ".npy"
}

// intervalRow returns the row of the interval of a number.
func (s *inputSet) intervalRow(f *fitted, t *onnxTable) string {
	g, in, limits := s.g, s.number(f), f.edges()
	var rows []int32
	for i := range len(limits) + 1 {
		rows = append(rows, int32(t.row(uint64(i))))
	}
	missing := int64(len(rows))
	rows = append(rows, int32(t.row(encode.KeyMissing)))
	at := g.on("Where", g.on("IsNaN", in), g.scalarInt(missing), s.count(in, limits))
	return g.on("Gather", g.constant(onnxInt32, []int{len(rows)}, raw.Bytes(rows)), at)
}
