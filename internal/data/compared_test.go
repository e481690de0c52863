package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestStatisticsAreComparedOnce: a reader compares the first row group with its statistics unless
// the scan has. The statistics here become wrong after the scan.
func TestStatisticsAreComparedOnce(t *testing.T) {
	const least = 0x0102030405060708
	rows := make([]tableRow, 50)
	for i := range rows {
		n := least + int64(i)
		rows[i] = tableRow{Y: int64(i % 2), B: &n}
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[tableRow](&out)
	_, err := w.Write(rows)
	fatal.If(t, err)
	fatal.If(t, w.Close())
	path := datatest.Write(t, "t.parquet", out.String())
	d, fit := prepare(t, schema.Source{Format: "parquet"}, schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "b", Encode: "hash"}}}, 1, path)

	was, err := os.Stat(path)
	fatal.If(t, err)
	content, number := out.Bytes(), binary.LittleEndian.AppendUint64(nil, least)
	at := bytes.LastIndex(content, number) // in the footer
	copy(content[at:], binary.LittleEndian.AppendUint64(nil, least+9))
	copy(content[bytes.LastIndex(content, number):], binary.LittleEndian.AppendUint64(nil, least+9))
	fatal.If(t, os.WriteFile(path, content, 0o644))
	fatal.If(t, os.Chtimes(path, was.ModTime(), was.ModTime()))
	for _, shuffle := range []bool{false, true} {
		for _, compared := range []bool{true, false} {
			d.compared[0], d.memory = compared, new(memory)
			r, err := NewReader(d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 50, Shuffle: shuffle})
			fatal.If(t, err)
			b, err := r.Next(t.Context())
			if compared {
				fatal.If(t, err)
				if b.Rows != 50 {
					t.Errorf("%d rows", b.Rows)
				}
				_, err = r.Next(t.Context())
			}
			if compared != errors.Is(err, io.EOF) || !compared && !strings.Contains(err.Error(), "its statistics state") && !strings.Contains(err.Error(), "by its statistics") {
				t.Errorf("shuffled %v, compared %v: %v", shuffle, compared, err)
			}
			r.Close()
		}
	}
}
