package convert

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/arrays"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
)

func (x *matcher) match() error {
	if err := x.setUp(nil); err != nil { // the layout does not depend on vocabularies
		return err
	}
	if err := x.checkNames(); err != nil {
		return err
	}
	x.words = map[string][]string{}
	for i := range x.layout.Tables {
		t, err := x.table(i)
		if err != nil {
			return fmt.Errorf("table %s: %w", x.layout.Tables[i].Name, err)
		}
		x.tables = append(x.tables, t)
	}
	if err := x.setUp(x.words); err != nil {
		return err
	}
	if !x.from.Allows("network") {
		if err := x.layers(); err != nil {
			return err
		}
	}
	if len(x.guesses) > 0 {
		x.Guess = "train:\n  from:\n    names:\n" + strings.Join(x.guesses, "")
	}
	for _, a := range x.folder.Arrays {
		if !x.used[a] {
			x.Lines = append(x.Lines, fmt.Sprintf("array %s %v: left out", a.Name, a.Shape))
		}
	}
	x.rows = func(i int, put putter) error { return x.tables[i].each(put) }
	return nil
}

// named returns the entry of train.from.names for a table or layer.
func (x *matcher) named(name string) (n config.Named, given bool) {
	i := slices.IndexFunc(x.from.Names, func(n config.Named) bool { return n.Name == name })
	if i < 0 {
		return config.Named{Name: name}, false
	}
	return x.from.Names[i], true
}

// checkNames rejects entries that name nothing.
func (x *matcher) checkNames() error {
	var known []string
	for _, t := range x.layout.Tables {
		for _, p := range t.Parts {
			known = append(known, partName(t, p))
		}
	}
	for _, p := range x.params.Params() {
		known = append(known, p.Name)
	}
	for _, p := range x.params.Statistics() {
		known = append(known, p.Name)
	}
	for i, n := range x.from.Names {
		if !slices.Contains(known, n.Name) {
			return fmt.Errorf("train.from.names[%d]: %s is no table or layer; there are %s", i, n.Name, strings.Join(known, ", "))
		}
	}
	return nil
}

// partName returns the name of a part of the rows of a table.
func partName(t sparse.Table, p sparse.Part) string {
	if p.Name == "deep" {
		return t.Name
	}
	return t.Name + "/" + p.Name
}

// find returns the array that an entry names; nil: none is named.
func (x *matcher) find(n config.Named) (*arrays.Array, error) {
	if n.Array == "" {
		return nil, nil
	}
	a := x.folder.Find(n.Array)
	if a == nil {
		var all []string
		for _, a := range x.folder.Arrays {
			all = append(all, fmt.Sprintf("%s %v", a.Name, a.Shape))
		}
		return nil, fmt.Errorf("there is no array %s; there are %s", n.Array, strings.Join(all[:min(len(all), 40)], ", "))
	}
	x.used[a] = true
	return a, nil
}

// own returns an array by the name that wdlrun export gives it.
func (x *matcher) own(name string) *arrays.Array {
	for _, a := range x.folder.Arrays {
		if flat(a.Name) == flat(name) {
			x.used[a] = true
			return a
		}
	}
	return nil
}

// table finds the rows of table i.
func (x *matcher) table(i int) (rows tableRows, err error) {
	t := x.layout.Tables[i]
	width := 0
	for _, p := range t.Parts {
		width += p.Dim
	}
	if keys, values := x.own("table/"+t.Name+"/keys"), x.own("table/"+t.Name+"/rows"); keys != nil && values != nil {
		return x.exportedTable(t, keys, values, width)
	}
	at := 0
	var deep []rowKey // of the embeddings, which its wide weights share
	for _, p := range t.Parts {
		part, err := x.part(i, t, p, deep)
		if err != nil {
			return rows, err
		}
		if part.array != nil {
			part.at = at
			rows.parts = append(rows.parts, part)
			x.Lines = append(x.Lines, fmt.Sprintf("table %s: %s %v, %d rows have values", partName(t, p), part.array.Name, part.array.Shape, given(part.keys)))
			deep = part.keys
		} else {
			x.Lines = append(x.Lines, fmt.Sprintf("table %s: zeros", partName(t, p)))
		}
		at += p.Dim
	}
	return rows, nil
}

func given(keys []rowKey) (n int) {
	for _, k := range keys {
		if k.row >= 0 {
			n++
		}
	}
	return n
}

// exportedTable returns the rows of a table that wdlrun export has written as arrays.
func (x *matcher) exportedTable(t sparse.Table, keys, values *arrays.Array, width int) (rows tableRows, err error) {
	if values.Width() != width || keys.Rows() != values.Rows() || keys.Width() != 1 {
		return rows, fmt.Errorf("%s %v and %s %v: the configuration has rows of %d values: restore embedding_dim, model.wide and labels", keys.Name, keys.Shape, values.Name, values.Shape, width)
	}
	ids := make([]uint64, keys.Rows())
	if err := keys.Ints(ids, 0); err != nil {
		return rows, err
	}
	all := make([]rowKey, len(ids))
	for i, key := range ids {
		all[i] = rowKey{key, i}
	}
	x.Lines = append(x.Lines, fmt.Sprintf("table %s: %s %v", t.Name, values.Name, values.Shape))
	return tableRows{[]partRows{{array: values, keys: all}}}, nil
}

// part finds the array of one part of the rows of a table, and the keys of its rows.
func (x *matcher) part(i int, t sparse.Table, p sparse.Part, deep []rowKey) (rows partRows, err error) {
	n, listed := x.named(partName(t, p))
	a, err := x.find(n)
	if err != nil {
		return rows, err
	}
	if a == nil && !listed {
		a = x.own(partName(t, p))
	}
	features := x.featuresOf(i)
	if a == nil && !listed && p.Name == "deep" {
		if a, err = x.guessTable(t, p, features); err != nil {
			return rows, err
		}
		x.guess(config.Named{Name: t.Name, Array: a.Name, Values: x.valuesOf(n, t.Name)})
	}
	if a == nil {
		return rows, nil
	}
	if a.Width() != p.Dim {
		return rows, fmt.Errorf("array %s %v has rows of %d values, %s has %d: set embedding_dim or tables[].dim", a.Name, a.Shape, a.Width(), partName(t, p), p.Dim)
	}
	rows.array = a
	if n.Values = x.valuesOf(n, t.Name); n.Values == "" && a.Values == nil && deep != nil {
		rows.keys = deep
		return rows, nil
	}
	rows.keys, err = x.keys(n, a, features)
	return rows, err
}

func (x *matcher) featuresOf(table int) (all []*schema.Feature) {
	for _, f := range x.layout.Features {
		if f.Table != table {
			continue
		}
		for i := range x.config.Features {
			if x.config.Features[i].Name == f.Name {
				all = append(all, &x.config.Features[i])
			}
		}
	}
	return all
}

// valuesOf returns the file with the values of a table; "": there is none.
func (x *matcher) valuesOf(n config.Named, table string) string {
	if n.Values != "" {
		return n.Values
	}
	dir := x.path
	if info, err := os.Stat(dir); err != nil || !info.IsDir() { // or the prefix of several files
		dir = filepath.Dir(dir)
	}
	for _, ext := range []string{".json", ".parquet"} {
		path := filepath.Join(dir, table+ext)
		if _, err := os.Stat(path); err == nil && x.folder.Find(table) == nil {
			return path
		}
	}
	if path := filepath.Join(dir, "feature_vocab.json"); x.folder.Find(table) == nil { // of FuxiCTR
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.folder.Texts)) {
		if parts := nameParts(name); parts[strings.ToLower(table)] {
			return name
		}
	}
	return ""
}

// guessTable returns the only array whose shape fits a table and whose name contains the name of the
// table or of a feature of it, or the only one whose shape fits.
func (x *matcher) guessTable(t sparse.Table, p sparse.Part, features []*schema.Feature) (*arrays.Array, error) {
	var fit, called []*arrays.Array
	for _, a := range x.folder.Arrays {
		if x.used[a] || len(a.Shape) != 2 || a.Width() != p.Dim || a.Whole() {
			continue
		}
		fit = append(fit, a)
		if parts := nameParts(a.Name); parts[strings.ToLower(t.Name)] || slices.ContainsFunc(features, func(f *schema.Feature) bool { return parts[strings.ToLower(f.Name)] }) {
			called = append(called, a)
		}
	}
	if len(called) == 1 {
		fit = called
	}
	if len(fit) != 1 {
		var all []string
		for _, a := range fit {
			all = append(all, fmt.Sprintf("%s %v", a.Name, a.Shape))
		}
		return nil, fmt.Errorf("%d arrays have rows of %d values (%s): name its array in train.from.names, such as {name: %s, array: ARRAY}", len(fit), p.Dim, strings.Join(all, ", "), t.Name)
	}
	x.used[fit[0]] = true
	return fit[0], nil
}

var separators = regexp.MustCompile(`[^\pL\pN]+`)

// nameParts returns the words of a name, and the words joined by underscores.
func nameParts(name string) map[string]bool {
	parts := map[string]bool{}
	for _, p := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '.' || r == '/' || r == ':' }) {
		parts[p] = true
		for _, word := range separators.Split(strings.ReplaceAll(p, "_", " "), -1) {
			parts[word] = true
		}
	}
	return parts
}

// guess records a match that has to be confirmed.
func (x *matcher) guess(n config.Named) {
	line := "      - {name: " + strconv.Quote(n.Name) + ", array: " + strconv.Quote(n.Array)
	if n.Values != "" {
		line += ", values: " + strconv.Quote(n.Values)
	}
	if n.Order != "" {
		line += ", order: " + n.Order
	}
	x.guesses = append(x.guesses, line+"}\n")
}

// layers fills the dense parameters.
func (x *matcher) layers() error {
	sorted := slices.Clone(x.folder.Arrays)
	slices.SortStableFunc(sorted, func(a, b *arrays.Array) int { return natural(a.Name, b.Name) })
	for _, p := range x.params.Params() {
		if err := x.layer(p, sorted); err != nil {
			return fmt.Errorf("layer %s: %w", p.Name, err)
		}
	}
	for _, s := range x.params.Statistics() {
		n, _ := x.named(s.Name)
		a, err := x.find(n)
		if a == nil && err == nil {
			a = x.own("dense/" + s.Name)
		}
		if err == nil && a == nil {
			err = fmt.Errorf("name its array in train.from.names, such as {name: %s, array: ARRAY}", s.Name)
		}
		if err == nil {
			err = read(s.Value, a)
		}
		if err != nil {
			return fmt.Errorf("statistics %s: %w", s.Name, err)
		}
	}
	return nil
}

// layer fills one dense parameter.
func (x *matcher) layer(p *dense.Param, sorted []*arrays.Array) error {
	n, listed := x.named(p.Name)
	a, err := x.find(n)
	ours := false
	if a == nil && err == nil && !listed {
		a = x.own("dense/" + p.Name)
		ours = a != nil
	}
	if err != nil {
		return err
	}
	wide := strings.HasPrefix(p.Name, "wide/")
	if a == nil && !listed && !wide {
		for _, c := range sorted {
			if !x.used[c] && !c.Whole() && fits(p, c) {
				a, x.used[c] = c, true
				n.Array, n.Order = c.Name, order(p, c, n)
				x.guess(n)
				break
			}
		}
	}
	if a == nil {
		if !listed && !wide && p.Rows > 1 {
			return fmt.Errorf("no array of the source has its shape %d×%d: name one in train.from.names, or take the tables only: -set train.from.allow=[network]", p.Rows, p.Cols)
		}
		clear(p.Value)
		x.Lines = append(x.Lines, fmt.Sprintf("layer %s: zeros", p.Name))
		return nil
	}
	if !fits(p, a) {
		return fmt.Errorf("array %s %v does not have its shape %d×%d", a.Name, a.Shape, p.Rows, p.Cols)
	}
	if err := read(p.Value, a); err != nil {
		return err
	}
	how := ""
	if !ours && p.Rows > 1 {
		how = ", " + order(p, a, n)
		if order(p, a, n) == "out_in" {
			transpose(p)
		}
		if err := x.permute(p); err != nil {
			return err
		}
	}
	x.Lines = append(x.Lines, fmt.Sprintf("layer %s: %s %v%s", p.Name, a.Name, a.Shape, how))
	return nil
}

// fits reports whether an array has the elements of a parameter, in either order.
func fits(p *dense.Param, a *arrays.Array) bool {
	var dims []int // without dimensions of 1
	for _, d := range a.Shape {
		if d != 1 {
			dims = append(dims, d)
		}
	}
	want := slices.DeleteFunc([]int{p.Rows, p.Cols}, func(d int) bool { return d == 1 })
	if p.Rows > 1 && len(a.Shape) != 2 || p.Rows == 1 && len(a.Shape) != 1 {
		return false // a bias is no weight
	}
	turned := slices.Clone(want)
	slices.Reverse(turned)
	return slices.Equal(dims, want) || slices.Equal(dims, turned)
}

// order returns the order of the dimensions of a weight: by the entry, by shape, or by name.
func order(p *dense.Param, a *arrays.Array, n config.Named) string {
	switch {
	case p.Rows == 1:
		return ""
	case n.Order != "":
		return n.Order
	case p.Rows != p.Cols && a.Shape[0] == p.Rows:
		return "in_out"
	case p.Rows == p.Cols && strings.Contains(strings.ToLower(a.Name), "kernel"):
		return "in_out"
	}
	return "out_in"
}

func transpose(p *dense.Param) {
	was := slices.Clone(p.Value)
	for i := range p.Rows {
		for j := range p.Cols {
			p.Value[i*p.Cols+j] = was[j*p.Rows+i]
		}
	}
}

// read reads a whole array.
func read(to []float32, a *arrays.Array) error {
	if a.Rows()*a.Width() != len(to) {
		return fmt.Errorf("array %s %v has not %d elements", a.Name, a.Shape, len(to))
	}
	if err := a.Read(to, 0); err != nil {
		return err
	}
	for i, v := range to {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("array %s: element %d is %v", a.Name, i, v)
		}
	}
	return nil
}

// permute brings the inputs of a parameter from the order of train.from.inputs into that of the
// layout.
func (x *matcher) permute(p *dense.Param) error {
	if len(x.from.Inputs) == 0 || p.Rows != x.layout.Width || p.Name != "deep/linear0/weight" && p.Name != "deep/out/weight" {
		return nil
	}
	columns, err := x.inputs()
	if err != nil {
		return err
	}
	was := slices.Clone(p.Value)
	for to, from := range columns {
		copy(p.Value[to*p.Cols:(to+1)*p.Cols], was[from*p.Cols:(from+1)*p.Cols])
	}
	return nil
}

// inputs returns, by column of the layout, the column of the source.
func (x *matcher) inputs() (columns []int, err error) {
	l := x.layout
	columns = make([]int, l.Width)
	at, seen := 0, 0
	for _, name := range x.from.Inputs {
		first, n := -1, 1
		if i := slices.Index(l.Dense, name); i >= 0 {
			first = l.Width - len(l.Dense) + i
		}
		if i := slices.IndexFunc(l.Features, func(f layout.Feature) bool { return f.Name == name && f.DeepPart >= 0 }); i >= 0 {
			f := l.Features[i]
			first, n = f.DeepCol, l.Tables[f.Table].Parts[f.DeepPart].Dim
		}
		if first < 0 {
			return nil, fmt.Errorf("train.from.inputs: %s is no input of the first layer", name)
		}
		for k := range min(n, l.Width-at) {
			columns[first+k] = at + k
		}
		at += n
		seen++
	}
	if at != l.Width || len(slices.Compact(slices.Sorted(slices.Values(x.from.Inputs)))) != seen {
		return nil, fmt.Errorf("train.from.inputs: its features have %d of the %d inputs of the first layer: name each input once", at, l.Width)
	}
	return columns, nil
}

var digits = regexp.MustCompile(`\d+|\D+`)

// natural compares names with numbers in them by value: 2 comes before 10.
func natural(a, b string) int {
	x, y := digits.FindAllString(a, -1), digits.FindAllString(b, -1)
	for i := range min(len(x), len(y)) {
		m, err1 := strconv.Atoi(x[i])
		n, err2 := strconv.Atoi(y[i])
		c := cmp.Compare(x[i], y[i])
		if err1 == nil && err2 == nil {
			c = cmp.Compare(m, n)
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}
