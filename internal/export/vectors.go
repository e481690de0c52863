package export

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse"
)

// Vectors describes a file of WriteTables, or why a table has none.
type Vectors struct {
	Table  string `json:"table"`
	File   string `json:"file,omitempty"`
	Rows   int64  `json:"rows"`              // with a value
	Others int64  `json:"others"`            // rows whose value is not known, and those of missing and unknown values
	Why    string `json:"why_not,omitempty"` // why a table has no file
}

// WriteTables writes the embeddings of each table whose values are known to a directory: a Parquet
// file with the columns value, a string or with encode: id an int64, and vector, a list of floats.
func WriteTables(ctx context.Context, src Source, path string) (all []Vectors, err error) {
	c, enc, l, err := parse(src.Config, src.Encoder)
	if err != nil {
		return nil, fmt.Errorf("export: table: %w", err)
	}
	err = publish(path, func(tmp string) error {
		if err := os.Mkdir(tmp, 0o755); err != nil {
			return err
		}
		for i, t := range l.Tables {
			v := Vectors{Table: t.Name}
			words, ids := map[uint64]string{}, false
			for _, f := range l.Features {
				if f.Table != i {
					continue
				}
				for _, s := range c.Features {
					switch {
					case s.Name != f.Name:
					case s.Encode == "id":
						ids = true
					case s.Encode == "vocabulary":
						for _, w := range enc.Words(s.Name) {
							words[encode.KeyOf([]byte(w))] = w
						}
					default:
						v.Why = fmt.Sprintf("feature %s has encode: %s, which does not keep its values", s.Name, s.Encode)
					}
				}
			}
			deep := slices.IndexFunc(t.Parts, func(p sparse.Part) bool { return p.Name == "deep" })
			switch {
			case deep < 0:
				v.Why = "it has no embeddings"
			case v.Why == "" && ids == (len(words) > 0):
				v.Why = "its features have different encodings, or no values"
			}
			if v.Why == "" {
				v.File = fileName(t.Name) + ".parquet"
				if err := writeVectors(ctx, src, t, filepath.Join(tmp, v.File), words, ids, &v); err != nil {
					return fmt.Errorf("table %s: %w", t.Name, err)
				}
			}
			all = append(all, v)
		}
		return system{}.Sync(tmp)
	})
	if err != nil {
		return nil, fmt.Errorf("export: table: %w", err)
	}
	return all, nil
}

// vectorRows is the number of rows of a row group.
const vectorRows = 1 << 16

// writeVectors writes the file of a table.
func writeVectors(ctx context.Context, src Source, t sparse.Table, path string, words map[uint64]string, ids bool, v *Vectors) error {
	at, dim := 0, 0
	for _, p := range t.Parts {
		if p.Name == "deep" {
			dim = p.Dim
			break
		}
		at += p.Dim
	}
	value := parquet.String()
	if ids {
		value = parquet.Int(64)
	}
	schema := parquet.NewSchema("vectors", parquet.Group{"value": value, "vector": parquet.List(parquet.Leaf(parquet.FloatType))})
	_, err := whole(system{}, filepath.Dir(path), filepath.Base(path), func(to io.Writer) error {
		w := parquet.NewGenericWriter[any](to, schema, parquet.MaxRowsPerRowGroup(vectorRows), parquet.Compression(&parquet.Snappy))
		row := make(parquet.Row, 0, 1+dim)
		err := step.EachRow(src.Checkpoint, t, func(_ int, key uint64, values []float32) error {
			word, known := words[key]
			if known = known || ids; !known || key == encode.KeyMissing || key == encode.KeyUnknown {
				v.Others++
				return nil
			}
			if v.Rows++; v.Rows%vectorRows == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			first := parquet.ByteArrayValue([]byte(word))
			if ids {
				first = parquet.Int64Value(int64(key))
			}
			row = append(row[:0], first.Level(0, 0, 0))
			for i, x := range values[at : at+dim] {
				row = append(row, parquet.FloatValue(x).Level(min(i, 1), 1, 1))
			}
			_, err := w.WriteRows([]parquet.Row{row})
			return err
		})
		if err != nil {
			return err
		}
		return w.Close()
	})
	return err
}
