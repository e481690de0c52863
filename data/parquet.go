package data

import (
	"fmt"

	"github.com/wdlrun/wdlrun/data/table"
	"github.com/wdlrun/wdlrun/data/value"
)

// parquetFormat is Parquet. A block is a row group; offsets are numbers of rows.
// Files are read as streams: a page of a column must be unpacked as a whole.
type parquetFormat struct{}

func (parquetFormat) look(f *file, s source) ([]string, error) {
	if f.packing != nil {
		return nil, fmt.Errorf("data: open: %s: a Parquet file in a %s file; unpack it first, its columns are packed already", f.name, f.packing.name)
	}
	t, err := table.Open(s, f.size)
	if err != nil {
		return nil, fmt.Errorf("data: open: %s: no Parquet file, or a damaged one: %w", f.name, err)
	}
	f.groups = append([]int64{}, t.Groups()...)
	if len(t.Columns()) == 0 {
		return nil, fmt.Errorf("data: open: %s: it has no column of plain values or lists of them", f.name)
	}
	return t.Columns(), nil
}

func (parquetFormat) place(f *file, offset int64) (Fault, error) {
	return Fault{File: f.name, Row: offset + 1}, nil
}

func (parquetFormat) records(names []string) records { return &tableRecords{names: names} }

func (parquetFormat) decoder(_, _ []string) (decoder, error) { return tableDecoder{}, nil }

type tableDecoder struct{}

func (tableDecoder) decode(record []byte, lists []value.List) *flaw {
	if err := table.Decode(record, lists); err != nil {
		return &flaw{field: -1, want: err.Error()}
	}
	return nil
}

// tableRecords reads the rows of row groups.
type tableRecords struct {
	names  []string
	src    source
	file   *table.File
	rows   *table.Reader
	row    []byte
	offset int64
	number int32
}

func (r *tableRecords) begin(s source, f *file, b block, offset int64, _ int32) (err error) {
	if r.src != s {
		r.Close()
		if r.file, err = table.Open(s, f.size); err != nil {
			return err
		}
		r.src = s
	}
	r.Close()
	group, first := 0, int64(0)
	for first != b.lo || first+f.groups[group] != b.hi {
		first += f.groups[group]
		group++
	}
	if r.rows, err = r.file.Rows(group, r.names); err != nil {
		return err
	}
	for r.offset, r.number = b.lo, 0; r.offset < offset; {
		if _, err := r.next(); err != nil {
			return err
		}
	}
	return nil
}

func (r *tableRecords) next() (u unit, err error) {
	u = unit{offset: r.offset, end: r.offset + 1, number: r.number}
	if r.row, err = r.rows.Append(r.row[:0]); err != nil {
		return u, err
	}
	r.offset++
	r.number++
	u.record = r.row
	return u, nil
}

// Close frees the pages that are held.
func (r *tableRecords) Close() error {
	if r.rows != nil {
		r.rows.Close()
		r.rows = nil
	}
	return nil
}
