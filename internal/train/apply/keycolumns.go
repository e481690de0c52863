package apply

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/train/input"
)

// keyColumn is an input of an exported ONNX model that ONNX cannot compute from fields: the
// keys of a sparse feature or the number of a date.
type keyColumn struct {
	name string
	at   int // index of the feature in Batch.Sparse or among the dense inputs
	kind value.Kind
}

// keyColumns returns the key columns of a filled configuration. Their names are the names of
// export.OnnxInput. lists are fields with lists, although they have no separator.
func keyColumns(c *config.Config, lists map[string]bool) (all []keyColumn) {
	s := input.SchemaOf(c)
	encoding := func(name string) schema.Encoding {
		i := slices.IndexFunc(s.Features, func(f schema.Feature) bool { return f.Name == name })
		if i < 0 {
			return schema.Vector // NAME[0], an element
		}
		e, _ := schema.EncodingOf(s.Features[i].Encode)
		return e
	}
	sparse, dense, err := encode.Outputs(s)
	if err != nil {
		return nil // no such configuration trains
	}
	multi := encode.Multi(s, lists)
	for i, x := range sparse {
		if e := schema.Hash; x.Cross || encoding(x.Name) == e || encoding(x.Name).Date() {
			k := keyColumn{x.Name + ":key", i, value.Int}
			if multi[x.Name] {
				k.kind = value.Text
			}
			all = append(all, k)
		}
	}
	for i, name := range dense {
		of, _, element := strings.Cut(name, "[")
		if encoding(name) == schema.Age || element && encoding(of) == schema.Rate {
			all = append(all, keyColumn{name + ":value", i, value.Float32})
		}
	}
	return all
}

// appendKeys appends the key columns of a batch, row by row: for each column a count and the
// keys, or the bits of the number.
func appendKeys(to []byte, columns []keyColumn, b *encode.Batch) []byte {
	for r := range b.Rows {
		for _, k := range columns {
			if k.kind == value.Float32 {
				to = binary.LittleEndian.AppendUint32(to, math.Float32bits(b.Dense[r*(len(b.Dense)/b.Rows)+k.at]))
				continue
			}
			j := b.Sparse[k.at]
			keys := j.Values[j.Offsets[r]:j.Offsets[r+1]]
			to = binary.LittleEndian.AppendUint32(to, uint32(len(keys)))
			for _, key := range keys {
				to = binary.LittleEndian.AppendUint64(to, key)
			}
		}
	}
	return to
}

// maxKeyBytes bounds the keys of one rank's part of a run.
const maxKeyBytes = 1 << 28

var errCut = errors.New("predict: the predictions that another rank has sent are cut short")

// takeKeys decodes one column of one row, written by appendKeys, from the start of b and
// returns the rest of b. If text is set, numbers are decoded as text.
func (k *keyColumn) takeKeys(to *value.List, b []byte, text bool) ([]byte, error) {
	if len(b) < 4 {
		return nil, errCut
	}
	n := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if k.kind == value.Float32 {
		putNumber(to, math.Float32frombits(n), text)
		return b, nil
	}
	if uint64(len(b)) < 8*uint64(n) {
		return nil, errCut
	}
	to.Begin(value.Int)
	to.Ints = to.Ints[:0]
	for ; n > 0; n-- {
		to.Ints, b = append(to.Ints, int64(binary.LittleEndian.Uint64(b))), b[8:]
	}
	if k.kind == value.Text { // a list
		line := to.Append(nil, 0)
		for i := 1; i < to.Len(); i++ {
			line = to.Append(append(line, write.Separator), i)
		}
		to.SetText(line)
	}
	return b, nil
}

// putNumber sets a list to one number or to its text.
func putNumber(l *value.List, x float32, text bool) {
	if text {
		l.Begin(value.Text)
		if len(l.Texts) == 0 {
			l.Texts = append(l.Texts, nil)
		}
		l.Texts = l.Texts[:1]
		l.Texts[0] = value.AppendNumber(l.Texts[0][:0], float64(x), 32)
		return
	}
	l.Begin(value.Float32)
	l.Reals = l.Reals[:0]
	l.AddFloat32(x)
}
