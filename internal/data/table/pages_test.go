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
		claim               int64 // bytes of the column beyond the present ones
		want                string
	}{
		{"right", 4, 100, 10, 0, ""},
		{"longer than its column", 5, 100, 10, 0, "4 are left of its column"},
		{"two gigabytes", 1<<31 - 1, 100, 10, 0, "2147483647 bytes"},
		{"negative", -1, 100, 10, 0, "-1 bytes"},
		{"unpacks to two gigabytes", 4, 1<<31 - 1, 10, 0, "2147483647 bytes unpacked"},
		{"unpacks to less than nothing", 4, -5, 10, 0, "-5 bytes unpacked"},
		{"two billion values", 4, 100, 1<<31 - 1, 0, "2147483647 values"},
		{"a column past the file", 4, 100, 10, 1, "of a file of"},
		{"a column of negative length", 4, 100, 10, -1 << 40, "of a file of"},
	} {
		h := format.PageHeader{Type: format.DataPage, UncompressedPageSize: c.plain, CompressedPageSize: c.packed}
		h.DataPageHeader.V.NumValues, h.DataPageHeader.Valid = c.rows, true
		b, err := thrift.Marshal(new(thrift.CompactProtocol), h)
		fatal.If(t, err)
		b = append(b, 1, 2, 3, 4)
		err = checkPages(bytes.NewReader(b), int64(len(b)), &format.ColumnMetaData{TotalCompressedSize: int64(len(b)) + c.claim})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestRowsChecksPages: a column that would extend beyond the file is an error.
func TestRowsChecksPages(t *testing.T) {
	b := small(t)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	fatal.If(t, err)
	f.file.Metadata().RowGroups[0].Columns[f.found["text"].index].MetaData.TotalCompressedSize = 1 << 40
	if _, err := f.Rows(0, []string{"i32", "text"}); err == nil || !strings.Contains(err.Error(), "column text") {
		t.Errorf("a column of a terabyte: %v", err)
	}
}
