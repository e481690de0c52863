package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of a page, which is read and decompressed as a whole.
const (
	maxPage       = 256 << 20 // bytes, decompressed
	maxPageValues = 1 << 26
)

// checkCodec returns an error for compressions that the library does not support.
func checkCodec(c format.CompressionCodec) error {
	switch c {
	case format.Lz4:
		return errors.New("it is compressed with LZ4 in the deprecated framing, which differs between writers; write it with ZSTD, SNAPPY or LZ4_RAW")
	case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd, format.Lz4Raw:
		return nil
	}
	return fmt.Errorf("it is compressed with %v, which is not supported; write it with ZSTD, SNAPPY or LZ4_RAW", c)
}

// checkPages checks the page headers of a column before the library reads them, because
// the library allocates any size in a header. A page must be inside its column and within
// the limits.
func checkPages(r io.ReaderAt, size int64, c *format.ColumnMetaData) error {
	at, end := c.DataPageOffset, int64(0)
	if c.DictionaryPageOffset != 0 {
		at = c.DictionaryPageOffset
	}
	if end = at + c.TotalCompressedSize; at < 0 || c.TotalCompressedSize < 0 || end < at || end > size {
		return fmt.Errorf("its pages are at bytes %d to %d of a file of %d bytes", at, end, size)
	}
	var compact thrift.CompactProtocol
	buffered := bufio.NewReaderSize(nil, 512)
	for at < end {
		section := io.NewSectionReader(r, at, end-at)
		buffered.Reset(section)
		header := new(format.PageHeader)
		if err := thrift.NewDecoder(compact.NewReader(buffered)).Decode(header); err != nil {
			return fmt.Errorf("no page begins at %d: %w", at, err)
		}
		read, _ := section.Seek(0, io.SeekCurrent)
		read -= int64(buffered.Buffered())
		if err := checkPage(header, end-at-read); err != nil {
			return fmt.Errorf("the page at %d %w", at, err)
		}
		at += read + int64(header.CompressedPageSize)
	}
	return nil
}

// checkPage checks a page header against the limits. left is the number of bytes left of
// the column.
func checkPage(h *format.PageHeader, left int64) error {
	if h.CompressedPageSize < 0 || int64(h.CompressedPageSize) > left {
		return fmt.Errorf("has %d bytes, where %d are left of its column", h.CompressedPageSize, left)
	}
	if h.UncompressedPageSize < 0 || h.UncompressedPageSize > maxPage {
		return fmt.Errorf("has %d bytes unpacked, at most %d are possible; write smaller pages", h.UncompressedPageSize, maxPage)
	}
	for _, n := range []int32{h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues} {
		if n < 0 || n > maxPageValues {
			return fmt.Errorf("has %d values, at most %d are possible; write smaller pages", n, maxPageValues)
		}
	}
	return nil
}
