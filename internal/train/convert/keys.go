package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/arrays"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// The usual names of rows that stand for no value of the data.
var (
	unknownNames = []string{"__OOV__", "[UNK]", "<unk>", "<UNK>", "__UNK__", "OOV"}
	missingNames = []string{"__PAD__", "[PAD]", "<pad>", "<PAD>", "__NULL__", "PAD"}
)

// keys returns the keys of the rows of an array, ascending by row.
func (x *matcher) keys(n config.Named, a *arrays.Array, features []*schema.Feature) (all []rowKey, err error) {
	if len(features) == 0 {
		return nil, errors.New("it is a table of crosses, whose keys another program does not have: give the entry no array")
	}
	f := features[0]
	for _, o := range features {
		if o.Encode != f.Encode || o.Buckets != f.Buckets {
			return nil, fmt.Errorf("features %s and %s of one table have different encodings", f.Name, o.Name)
		}
	}
	if f.Encode == "hash" && f.Buckets > 0 {
		return nil, fmt.Errorf("feature %s has hash buckets, whose numbers differ between programs: use encode: vocabulary, or hash without buckets, with a file of values", f.Name)
	}
	values, err := x.values(n, a, f)
	if err != nil {
		return nil, err
	}
	seen, special := map[uint64]string{}, map[uint64]bool{}
	for _, v := range values {
		key, text := encode.KeyMissing, string(v.Text)
		switch {
		case v.Row < 0 || v.Row >= a.Rows():
			return nil, fmt.Errorf("value %q has row %d, the array %s has %d rows", text, v.Row, a.Name, a.Rows())
		case isNamed(text, n.Unknown, unknownNames):
			key = encode.KeyUnknown
			x.Lines = append(x.Lines, fmt.Sprintf("table %s: row %d (%s) is the row of unknown values", n.Name, v.Row, text))
		case v.Text == nil || isNamed(text, n.Missing, missingNames):
			x.Lines = append(x.Lines, fmt.Sprintf("table %s: row %d (%s) is the row of missing values", n.Name, v.Row, cmp.Or(text, "null")))
		default:
			var ok bool
			if key, ok = encode.ValueKey(f, v.Text); !ok {
				return nil, fmt.Errorf("value %q of row %d is no integer, which encode: %s needs", text, v.Row, f.Encode)
			}
			if f.Encode == "vocabulary" {
				for _, o := range features {
					x.words[o.Name] = append(x.words[o.Name], text)
				}
			}
		}
		if first, again := seen[key]; again {
			return nil, fmt.Errorf("the values %q and %q have one key: give each value once", first, text)
		}
		seen[key], special[key] = text, key == encode.KeyMissing || key == encode.KeyUnknown
		all = append(all, rowKey{key, v.Row})
	}
	for _, key := range []uint64{encode.KeyMissing, encode.KeyUnknown} {
		if !special[key] && (key == encode.KeyMissing || f.Encode == "vocabulary") {
			all = append(all, rowKey{key, -1}) // in other programs, they add nothing
		}
	}
	slices.SortStableFunc(all, func(a, b rowKey) int { return cmp.Compare(a.row, b.row) })
	return all, nil
}

func isNamed(text, given string, usual []string) bool {
	if given != "" {
		return text == given
	}
	return slices.Contains(usual, text)
}

// values returns the values of the rows of an array.
func (x *matcher) values(n config.Named, a *arrays.Array, f *schema.Feature) (all []arrays.Value, err error) {
	switch {
	case a.Values != nil:
		for i, v := range a.Values {
			all = append(all, arrays.Value{Text: []byte(v), Row: i})
		}
		return all, nil
	case x.folder.Texts[n.Values] != nil || n.Values != "" && x.folder.Find(n.Values) != nil:
		return x.lookup(n, a, f)
	case n.Values != "":
		return arrays.ReadValues(n.Values, f.Name, f.Field, f.Table)
	case f.Encode == "vocabulary" || f.Encode == "hash":
		return nil, fmt.Errorf("which value does a row of %s stand for? Name a file with the values in train.from.names, such as {name: %s, array: %s, values: %s.json}", a.Name, n.Name, a.Name, n.Name)
	}
	x.Lines = append(x.Lines, fmt.Sprintf("table %s: the number of a row is the value", n.Name))
	for i := range a.Rows() {
		all = append(all, arrays.Value{Text: fmt.Append(nil, i), Row: i})
	}
	return all, nil
}

// lookup returns the values that a lookup table in the source stands for: NAME-keys with the rows in
// NAME-values, as hash tables of TensorFlow are saved, or a list in the order of the rows. Row 0 of such a
// table, if no value has it, is the row of unknown values, as in the lookup layers of Keras.
func (x *matcher) lookup(n config.Named, a *arrays.Array, f *schema.Feature) (all []arrays.Value, err error) {
	texts := x.folder.Texts[n.Values]
	if keys := x.folder.Find(n.Values); texts == nil {
		ids := make([]uint64, keys.Rows())
		if err := keys.Ints(ids, 0); err != nil {
			return nil, err
		}
		for _, id := range ids {
			texts = append(texts, strconv.FormatInt(int64(id), 10))
		}
	}
	for i, text := range texts {
		all = append(all, arrays.Value{Text: []byte(text), Row: i})
	}
	name, paired := strings.CutSuffix(n.Values, "-keys")
	places := x.folder.Find(name + "-values")
	if !paired || places == nil {
		return all, nil
	}
	rows := make([]uint64, places.Rows())
	if err := places.Ints(rows, 0); err != nil || len(rows) != len(all) {
		return nil, errors.Join(err, fmt.Errorf("%s has %d keys, %s-values has %d rows", n.Values, len(all), name, len(rows)))
	}
	zero := false
	for i, row := range rows {
		all[i].Row, zero = int(row), zero || row == 0
	}
	if !zero && f.Encode == "vocabulary" && n.Unknown == "" && !slices.ContainsFunc(texts, func(t string) bool { return slices.Contains(unknownNames, t) }) {
		all = append(all, arrays.Value{Text: []byte(unknownNames[0]), Row: 0})
	}
	return all, nil
}

// rowsAtOnce is the number of rows that are read together.
const rowsAtOnce = 1 << 14

// each calls put with the rows of a table.
func (t tableRows) each(put putter) error {
	for _, p := range t.parts {
		width := p.array.Width()
		keys, zero := p.keys, make([]float32, width)
		for len(keys) > 0 && keys[0].row < 0 {
			if err := put(keys[0].key, p.at, zero); err != nil {
				return err
			}
			keys = keys[1:]
		}
		for first := 0; len(keys) > 0; first += rowsAtOnce {
			rows := make([]float32, width*min(rowsAtOnce, p.array.Rows()-first))
			if err := p.array.Read(rows, first); err != nil {
				return err
			}
			for len(keys) > 0 && keys[0].row < first+len(rows)/width {
				i := keys[0].row - first
				if err := put(keys[0].key, p.at, rows[i*width:(i+1)*width]); err != nil {
					return err
				}
				keys = keys[1:]
			}
		}
	}
	return nil
}
