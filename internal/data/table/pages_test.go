package table

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// A header that asks for more than the column has, or more than the limits, is rejected
// before memory is allocated.
func TestPagesAreBounded(t *testing.T) {
	for _, c := range []struct {
		name                string
		packed, plain, rows int32
		want                string
	}{
		{"right", 4, 100, 10, ""},
		{"longer than its column", 5, 100, 10, "4 are left of its column"},
		{"two gigabytes", 1<<31 - 1, 100, 10, "2147483647 bytes"},
		{"negative", -1, 100, 10, "-1 bytes"},
		{"unpacks to two gigabytes", 4, 1<<31 - 1, 10, "2147483647 bytes unpacked"},
		{"unpacks to less than nothing", 4, -5, 10, "bytes unpacked"},
		{"two billion values", 4, 100, 1<<31 - 1, "2147483647 values"},
	} {
		h := pageHeader{Type: format.DataPage, Plain: c.plain, Packed: c.packed, V1: thrift.New(dataPage{Values: c.rows})}
		b, err := thrift.Marshal(new(thrift.CompactProtocol), h)
		fatal.If(t, err)
		b = append(b, 1, 2, 3, 4)
		p := pages{r: bytes.NewReader(b), end: int64(len(b))}
		_, body, err := p.next()
		if c.want == "" && (err != nil || string(body) != "\x01\x02\x03\x04") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestRowsChecksPages: a column that would extend beyond the file is an error.
func TestRowsChecksPages(t *testing.T) {
	b := small(t)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(t, err)
	for _, bytes := range []int64{1 << 40, -1 << 40, int64(len(b))} {
		f.footer.Groups[0].Chunks[f.found["text"].index].Meta.Bytes = bytes
		if _, err := f.Rows(0, []string{"i32", "text"}, true); err == nil || !strings.HasPrefix(err.Error(), "column text: its pages are at") {
			t.Errorf("a column of %d bytes: %v", bytes, err)
		}
	}
}
