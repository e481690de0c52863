package table

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of a page, which is read and decompressed as a whole.
const (
	maxPage       = 256 << 20 // bytes, decompressed
	maxPageValues = 1 << 26
	maxPageHeader = 16 << 20 // bytes
	headerBytes   = 8 << 10  // read at first
)

type pageHeader struct {
	Type       format.PageType             `thrift:"1,required"`
	Plain      int32                       `thrift:"2,required"` // bytes, decompressed
	Packed     int32                       `thrift:"3,required"` // bytes
	CRC        int32                       `thrift:"4,optional"` // 0: none
	V1         thrift.Null[dataPage]       `thrift:"5,optional"`
	Dictionary thrift.Null[dictionaryPage] `thrift:"7,optional"`
	V2         thrift.Null[dataPageV2]     `thrift:"8,optional"`
}

type dataPage struct {
	Values     int32                   `thrift:"1,required"` // with nulls
	Encoding   format.Encoding         `thrift:"2,required"`
	Levels     format.Encoding         `thrift:"3,required"`
	Repeats    format.Encoding         `thrift:"4,required"`
	Statistics thrift.Null[statistics] `thrift:"5,optional"`
}

type dictionaryPage struct {
	Values   int32           `thrift:"1,required"`
	Encoding format.Encoding `thrift:"2,required"`
}

// dataPageV2 is the header of a page whose levels are not compressed.
type dataPageV2 struct {
	Values       int32                   `thrift:"1,required"` // with nulls
	Nulls        int32                   `thrift:"2,required"`
	Encoding     format.Encoding         `thrift:"4,required"`
	LevelBytes   int32                   `thrift:"5,required"`
	RepeatBytes  int32                   `thrift:"6,required"`
	IsCompressed thrift.Null[bool]       `thrift:"7,optional"`
	Statistics   thrift.Null[statistics] `thrift:"8,optional"`
}

// pages reads the pages of a column of a row group one after the other.
type pages struct {
	r       io.ReaderAt
	at, end int64 // of the next page, of the column
	window  []byte
	first   int64 // offset of the window
	body    []byte
}

// next returns the next page; io.EOF after the last. What it returns is valid until the next
// call.
func (p *pages) next() (h pageHeader, body []byte, err error) {
	if p.at >= p.end {
		return h, nil, io.EOF
	}
	begin := p.at
	if h, err = p.header(); err != nil {
		return h, nil, fmt.Errorf("no page begins at %d: %w", begin, err)
	}
	if err := h.check(p.end - p.at); err != nil {
		return h, nil, fmt.Errorf("the page at %d %w", begin, err)
	}
	n, skipped := int(h.Packed), p.at-p.first
	if p.at += int64(n); skipped+int64(n) <= int64(len(p.window)) {
		body = p.window[skipped : skipped+int64(n)]
	} else {
		p.body = sized(p.body, n)
		body = p.body
		have := copy(body, p.window[skipped:])
		if err := readAt(p.r, body[have:], p.at-int64(n-have)); err != nil {
			return h, nil, err
		}
	}
	if h.CRC != 0 && crc32.ChecksumIEEE(body) != uint32(h.CRC) {
		return h, nil, fmt.Errorf("the page at %d is damaged: its checksum differs", begin)
	}
	return h, body, nil
}

// header reads a page header and advances to the end of it.
func (p *pages) header() (h pageHeader, err error) {
	var compact thrift.CompactProtocol
	for size := int64(0); ; size = max(4*size, headerBytes) {
		if size > 0 {
			p.first, p.window = p.at, sized(p.window, int(min(size, p.end-p.at)))
			if err := readAt(p.r, p.window, p.at); err != nil {
				return h, err
			}
		}
		skipped := p.at - p.first
		if skipped >= int64(len(p.window)) {
			continue
		}
		h = pageHeader{}
		r := compact.NewReaderFromBytes(p.window[skipped:])
		if err = thrift.NewDecoder(r).Decode(&h); err == nil {
			p.at += int64(r.BytesRead())
			return h, nil
		}
		if size >= maxPageHeader || p.first == p.at && int64(len(p.window)) == p.end-p.at {
			return h, err
		}
	}
}

// check checks a page header against the limits. left is the number of bytes left of the
// column.
func (h *pageHeader) check(left int64) error {
	if h.Packed < 0 || int64(h.Packed) > left {
		return fmt.Errorf("has %d bytes, where %d are left of its column", h.Packed, left)
	}
	if h.Plain < 0 || h.Plain > maxPage || h.Packed > maxPage {
		return fmt.Errorf("has %d bytes unpacked, at most %d are possible; write smaller pages", max(h.Packed, h.Plain), maxPage)
	}
	for _, n := range []int32{h.V1.V.Values, h.V2.V.Values, h.Dictionary.V.Values} {
		if n < 0 || n > maxPageValues {
			return fmt.Errorf("has %d values, at most %d are possible; write smaller pages", n, maxPageValues)
		}
	}
	for _, missing := range []bool{h.Type == format.DataPage && !h.V1.Valid, h.Type == format.DataPageV2 && !h.V2.Valid, h.Type == format.DictionaryPage && !h.Dictionary.Valid} {
		if missing {
			return errors.New("has an incomplete header")
		}
	}
	if n := int64(h.V2.V.LevelBytes) + int64(h.V2.V.RepeatBytes); h.V2.V.LevelBytes < 0 || h.V2.V.RepeatBytes < 0 || n > int64(h.Packed) || n > int64(h.Plain) {
		return fmt.Errorf("has levels of %d bytes in %d", n, min(h.Packed, h.Plain))
	}
	return nil
}
