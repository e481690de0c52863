package table

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/wdlrun/wdlrun/internal/raw"
)

const (
	magic         = "WDLSHARD"
	formatVersion = 1
	chunkBytes    = 64 << 10 // of rows read or written at a time
)

// SaveShard writes the rows of a shard, with their state, in the format of the
// package comment. It needs 12 bytes of memory for each row beyond the rows
// themselves.
func (t *Table) SaveShard(w io.Writer, shard int) error {
	if err := t.saveShard(w, shard); err != nil {
		return fmt.Errorf("table %q: shard %d: %w", t.cfg.Name, shard, err)
	}
	return nil
}

func (t *Table) saveShard(w io.Writer, shard int) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), chunkBytes)
	le, desc := binary.LittleEndian, t.describe(shard).encode()
	head := le.AppendUint32([]byte(magic), formatVersion)
	head = le.AppendUint32(head, uint32(len(desc)))
	head = append(head, desc...)
	out.Write(le.AppendUint64(head, uint64(t.ShardRows(shard)))) // the first error stays and Flush returns it
	var number [8]byte
	err := t.Each(shard, func(key uint64, record []float32) error {
		le.PutUint64(number[:], key)
		out.Write(number[:])
		_, err := out.Write(raw.Bytes(record))
		return err
	})
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = w.Write(le.AppendUint32(nil, sum.Sum32()))
	return err
}

// LoadShard reads what SaveShard wrote into a shard that is still empty. It
// reads no byte past the end. On an error the shard is empty again. Memory grows
// with what arrives, not with what the file announces.
func (t *Table) LoadShard(r io.Reader, shard int) error {
	fault := func(err error) error { return fmt.Errorf("table %q: shard %d: %w", t.cfg.Name, shard, err) }
	if n := t.ShardRows(shard); n != 0 {
		return fault(fmt.Errorf("the shard holds %d rows already: Reset first", n))
	}
	before := t.rows.n
	if err := t.loadShard(r, shard); err != nil {
		t.shards[shard] = index{}
		t.rows.n = before
		if t.dense {
			t.stamps = t.stamps[:before]
		}
		return fault(err)
	}
	return nil
}

func (t *Table) loadShard(r io.Reader, shard int) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	in := io.TeeReader(r, sum)
	if err := t.loadHead(in, shard); err != nil {
		return fmt.Errorf("head: %w", err)
	}
	if err := t.loadRows(in, shard); err != nil {
		return err
	}
	return checkSum(r, sum.Sum32())
}

// loadHead reads everything up to the number of rows.
func (t *Table) loadHead(in io.Reader, shard int) error {
	le := binary.LittleEndian
	head := make([]byte, len(magic)+8)
	if err := readFull(in, head); err != nil {
		return err
	}
	if string(head[:len(magic)]) != magic {
		return fmt.Errorf("it begins with %q, not with %q: this is no saved shard", head[:len(magic)], magic)
	}
	if v := le.Uint32(head[len(magic):]); v != formatVersion {
		return fmt.Errorf("format version %d, this program reads %d: use the program that wrote it or a newer one", v, formatVersion)
	}
	n := le.Uint32(head[len(magic)+4:])
	if n > maxDescription {
		return fmt.Errorf("a description of %d bytes, at most %d are possible: the file is damaged", n, maxDescription)
	}
	desc := make([]byte, n)
	if err := readFull(in, desc); err != nil {
		return err
	}
	have, err := decodeDescription(desc)
	if err != nil {
		return fmt.Errorf("description: %w: the file is damaged", err)
	}
	if want := t.describe(shard); !have.equal(want) {
		return fmt.Errorf("the file holds %v; the table has %v: open it with the configuration that was saved", have, want)
	}
	return nil
}

// loadRows reads the number of rows and the rows.
func (t *Table) loadRows(in io.Reader, shard int) error {
	le := binary.LittleEndian
	size := 8 + 4*t.rows.width
	buf := make([]byte, max(1, chunkBytes/size)*size)
	if err := readFull(in, buf[:8]); err != nil {
		return fmt.Errorf("number of rows: %w", err)
	}
	n := le.Uint64(buf)
	if n > uint64(maxRows-t.rows.n) {
		return fmt.Errorf("%d rows beside %d held; one rank can hold %d of a table: use more ranks", n, t.rows.n, maxRows)
	}
	var last uint64
	for i := uint64(0); i < n; {
		chunk := buf[:size*int(min(n-i, uint64(len(buf)/size)))]
		if err := readFull(in, chunk); err != nil {
			return fmt.Errorf("rows from %d of %d: %w", i, n, err)
		}
		for ; len(chunk) > 0; chunk = chunk[size:] {
			key := le.Uint64(chunk)
			if i > 0 && key <= last {
				return fmt.Errorf("row %d of %d: key %d follows key %d, rows must ascend: the file is damaged", i, n, key, last)
			}
			if is := int(hash(t.salt, key) >> t.shift); is != shard {
				return fmt.Errorf("row %d of %d: key %d belongs to shard %d: the file is damaged", i, n, key, is)
			}
			copy(raw.Bytes(t.rows.row(t.insert(key))), chunk[8:size])
			last = key
			i++
		}
	}
	return nil
}

// checkSum reads the checksum, which is not part of the sum.
func checkSum(r io.Reader, is uint32) error {
	var b [4]byte
	if err := readFull(r, b[:]); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if file := binary.LittleEndian.Uint32(b[:]); file != is {
		return fmt.Errorf("the checksum is %08x, the file says %08x: it is damaged", is, file)
	}
	return nil
}

// readFull fills b. Until the checksum more must come, so an end is unexpected
// wherever it falls.
func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
