package sparse

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/internal/raw"
)

const (
	magic         = "WDLSHARD"
	formatVersion = 1
	chunkBytes    = 64 << 10 // of rows read or written at a time
)

// Section is one saved unit: the rows of one table in one shard.
type Section struct {
	Name         string // SectionName of the two
	Table, Shard int
	Rows         int
}

// SectionName is the name under which a checkpoint keeps a table's shard.
func SectionName(table string, shard int) string { return fmt.Sprintf("sparse/%s/%05d", table, shard) }

// Sections lists what this rank has to save: its shards that hold rows, by table
// and shard. A checkpoint without a section stands for a shard without rows.
func (s *Store) Sections() (all []Section) {
	for i, t := range s.tables {
		for shard := range t.shards {
			if n := t.shards[shard].n; n > 0 {
				all = append(all, Section{SectionName(t.Name, shard), i, shard, n})
			}
		}
	}
	return all
}

// SaveShard writes the rows of a table in one shard of this rank, with their
// state, in the format of the package comment. Staged gradients are not saved:
// save between Apply and the next Push. It needs 12 bytes of memory for each
// row beyond the rows themselves.
func (s *Store) SaveShard(w io.Writer, table, shard int) error {
	if err := s.saveShard(w, table, shard); err != nil {
		return fmt.Errorf("sparse: save: rank %d of %d: shard %d%s: %w", s.rank, s.size, shard, s.tableName(table), err)
	}
	return nil
}

func (s *Store) saveShard(w io.Writer, table, shard int) error {
	if err := s.checkPlace(table, shard); err != nil {
		return err
	}
	t := s.tables[table]
	used := make([]indexSlot, 0, t.shards[shard].n)
	for _, slot := range t.shards[shard].slots {
		if slot.row != 0 {
			used = append(used, slot)
		}
	}
	slices.SortFunc(used, func(a, b indexSlot) int { return cmp.Compare(a.key(), b.key()) })

	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), chunkBytes)
	le, desc := binary.LittleEndian, s.describe(t, shard).encode()
	head := le.AppendUint32([]byte(magic), formatVersion)
	head = le.AppendUint32(head, uint32(len(desc)))
	head = append(head, desc...)
	out.Write(le.AppendUint64(head, uint64(len(used)))) // the first error stays and Flush returns it
	var key [8]byte
	for _, slot := range used {
		le.PutUint64(key[:], slot.key())
		out.Write(key[:])
		out.Write(raw.Bytes(t.rows.row(slot.row)))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(le.AppendUint32(nil, sum.Sum32()))
	return err
}

// LoadShard reads what SaveShard wrote, on any number of ranks, into a shard of
// this rank that is still empty (see Reset). It reads no byte past the end. On
// an error the shard is empty again. Memory grows with what arrives, not with
// what the file announces.
func (s *Store) LoadShard(r io.Reader, table, shard int) error {
	fault := func(err error) error {
		return fmt.Errorf("sparse: load: rank %d of %d: shard %d%s: %w", s.rank, s.size, shard, s.tableName(table), err)
	}
	if err := s.checkPlace(table, shard); err != nil {
		return fault(err)
	}
	t := s.tables[table]
	if n := t.shards[shard].n; n != 0 {
		return fault(fmt.Errorf("the shard holds %d rows already: Reset the store first", n))
	}
	if n := len(t.staged.rows); n != 0 {
		return fault(fmt.Errorf("the gradients of %d keys wait: Apply them or Reset the store first", n))
	}
	before := t.rows.n
	if err := s.loadShard(r, t, shard); err != nil {
		t.shards[shard] = index{}
		t.rows.n = before
		if t.dense {
			t.stamps = t.stamps[:before]
		}
		return fault(err)
	}
	return nil
}

// checkPlace returns why this rank cannot save or load a table's shard.
func (s *Store) checkPlace(table, shard int) error {
	if table < 0 || table >= len(s.tables) {
		return fmt.Errorf("table %d: there are %d", table, len(s.tables))
	}
	if shard < 0 || shard >= len(s.owner) {
		return fmt.Errorf("there are %d shards", len(s.owner))
	}
	if owner := int(s.owner[shard]); owner != s.rank {
		return fmt.Errorf("rank %d owns it", owner)
	}
	return nil
}

func (s *Store) loadShard(r io.Reader, t *table, shard int) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	in := io.TeeReader(r, sum)
	if err := s.loadHead(in, t, shard); err != nil {
		return fmt.Errorf("head: %w", err)
	}
	if err := t.loadRows(in, shard); err != nil {
		return err
	}
	return checkSum(r, sum)
}

// loadHead reads everything up to the number of rows.
func (s *Store) loadHead(in io.Reader, t *table, shard int) error {
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
	if want := s.describe(t, shard); !have.equal(want) {
		return fmt.Errorf("the file holds %v; the store has %v: open the store with the configuration that was saved", have, want)
	}
	return nil
}

// loadRows reads the number of rows and the rows.
func (t *table) loadRows(in io.Reader, shard int) error {
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
			if is := int(hashKey(t.salt, key) >> t.shift); is != shard {
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
func checkSum(r io.Reader, sum hash.Hash32) error {
	var b [4]byte
	if err := readFull(r, b[:]); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if file, is := binary.LittleEndian.Uint32(b[:]), sum.Sum32(); file != is {
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
