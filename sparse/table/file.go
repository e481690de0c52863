package table

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// file writes through a checksum. It keeps the first error, which end returns.
type file struct {
	to  io.Writer
	sum uint32
	out *bufio.Writer
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write adds b to the checksum and writes it to the destination.
func (f *file) Write(b []byte) (int, error) {
	f.sum = crc32.Update(f.sum, castagnoli, b)
	return f.to.Write(b)
}

func (f *file) number32(x uint32) {
	f.out.Write(binary.LittleEndian.AppendUint32(f.out.AvailableBuffer(), x))
}

func (f *file) number64(x uint64) {
	f.out.Write(binary.LittleEndian.AppendUint64(f.out.AvailableBuffer(), x))
}

// head writes the header of every file.
func (f *file) head(magic string, version uint32, desc []byte) {
	f.out.WriteString(magic)
	f.number32(version)
	f.number32(uint32(len(desc)))
	f.out.Write(desc)
}

// end writes the checksum.
func (f *file) end() error {
	if err := f.out.Flush(); err != nil {
		return err
	}
	_, err := f.to.Write(binary.LittleEndian.AppendUint32(f.out.AvailableBuffer(), f.sum))
	return err
}

// checkSum reads the checksum and compares it with is.
func checkSum(r io.Reader, is uint32) error {
	var b [4]byte
	if err := readFull(r, b[:]); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if file := binary.LittleEndian.Uint32(b[:]); file != is {
		return fmt.Errorf("the checksum is %08x, the file has %08x: it is damaged", is, file)
	}
	return nil
}

// readFull fills b. The checksum is still to come, so the end of the file is always
// unexpected.
func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
