package table

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

const (
	shardMagic = "WDLSHARD"
	deltaMagic = "WDLDELTA"
	magicBytes = 8
	chunkBytes = 64 << 10 // bytes of rows read at a time
	fileBytes  = 16 << 10 // bytes of rows written at a time
)

// noteWords returns the number of words saved after each record: the stamp and the score,
// in tables that need them to decide which rows to remove.
func (t *shape) noteWords() int {
	switch e := t.cfg.Evict; {
	case e.HalfLife > 0:
		return 2
	case e != (Evict{}):
		return 1
	}
	return 0
}

// version returns the format version of saved shards. Version 1 has no notes.
func (t *shape) version() uint32 { return uint32(1 + min(1, t.noteWords())) }

// newFile begins a file. It uses memory of the table, because most shards are far smaller.
func (t *Table) newFile(w io.Writer) *file {
	t.buffer()
	t.file.to, t.file.sum = w, 0
	t.file.out.Reset(&t.file)
	return &t.file
}

// buffer allocates the memory for files.
func (t *Table) buffer() {
	if t.file.out == nil {
		t.file.out = bufio.NewWriterSize(nil, fileBytes)
		t.description(0)
	}
}

// SaveShard writes the rows of a shard, with their state, in the format of the package
// comment. It needs 16 bytes of memory per row in addition to the rows.
func (t *Table) SaveShard(w io.Writer, shard int) error {
	v := t.asItIs()
	all, _ := v.entries(shard, Everything, nil)
	return v.saveShard(w, shard, all)
}

func (v view) saveShard(w io.Writer, shard int, rows []entry) error {
	t := v.t
	f := t.newFile(w)
	t.head(f, shardMagic, shard)
	f.number64(uint64(len(rows)))
	err := v.write(f, rows)
	if err == nil {
		err = f.end()
	}
	if err != nil {
		return fmt.Errorf("table %q: shard %d: %w", t.cfg.Name, shard, err)
	}
	return nil
}

// description returns the encoded description of a shard. It is valid until the next call.
func (t *Table) description(shard int) []byte {
	if t.desc == nil {
		t.desc = t.describe(0).encode()
	}
	binary.LittleEndian.PutUint32(t.desc, uint32(shard)) // it begins with the shard
	return t.desc
}

// head writes the header of a file of rows of a shard.
func (t *Table) head(f *file, magic string, shard int) {
	f.head(magic, t.version(), t.description(shard))
	if notes := t.noteWords(); notes > 0 {
		f.number32(uint32(notes))
	}
}

// write writes the rows of all with their notes.
func (v view) write(f *file, all []entry) error {
	const together = 32 // rows whose memory is asked for at once
	notes := v.t.noteWords()
	for i, e := range all {
		if i%together == 0 {
			v.t.touch(all[i:min(i+together, len(all))])
		}
		if e.isGone() {
			continue
		}
		rec, stamp, score, err := v.read(e)
		if err != nil {
			return err
		}
		f.number64(e.key)
		f.out.Write(raw.Bytes(rec))
		if notes > 0 {
			f.number32(stamp)
		}
		if notes > 1 {
			f.number32(math.Float32bits(score))
		}
	}
	return nil
}

// touch reads a word of each row in memory, so that the waits for rows that are in no cache overlap.
func (t *Table) touch(all []entry) {
	sum := float32(0)
	for _, e := range all {
		if !e.isGone() && e.item == 0 && !e.row.onDisk() {
			rec := t.at(e.row)
			sum += rec[0] + rec[len(rec)-1]
		}
	}
	t.touched = sum
}

// LoadShard reads the output of SaveShard into a shard, which must be empty. It reads no
// byte past the end of the data. On an error the shard is empty again. Memory grows with
// the bytes that arrive, not with the size that the file announces.
func (t *Table) LoadShard(r io.Reader, shard int) error {
	t.endObservers()
	fault := func(err error) error { return fmt.Errorf("table %q: shard %d: %w", t.cfg.Name, shard, err) }
	if n := t.ShardRows(shard); n != 0 {
		return fault(fmt.Errorf("the shard holds %d rows already: Reset first", n))
	}
	sum := crc32.New(castagnoli)
	in := io.TeeReader(r, sum)
	notes, err := t.readHead(in, shardMagic, shard)
	if err == nil {
		err = t.loadRows(in, shard, notes)
	}
	if err == nil {
		err = checkSum(r, sum.Sum32())
	}
	if err != nil {
		t.drop(shard)
		return fault(err)
	}
	return nil
}

// Discard removes the rows of a shard as if they had never been loaded. It serves
// readers that process a large table shard by shard.
func (t *Table) Discard(shard int) {
	t.endObservers()
	t.drop(shard)
}

// drop removes the rows of a shard without recording removals.
func (t *tiered) drop(shard int) {
	t.index.each(shard, func(_ uint64, row Row) {
		if row.onDisk() {
			t.tier.forget(row)
		} else {
			t.free = append(t.free, row)
		}
	})
	t.index.drop(shard)
	t.epoch++
}

// readHead reads the header of a file of rows and returns the number of words after each
// record.
func (t *Table) readHead(in io.Reader, magic string, shard int) (notes int, err error) {
	version, err := t.readVersion(in, magic, newest, shard)
	if err == nil && version == 2 {
		var b [4]byte
		if err = readFull(in, b[:]); err == nil {
			if notes = int(binary.LittleEndian.Uint32(b[:])); notes < 1 || notes > 2 {
				err = fmt.Errorf("%d words of notes, 1 or 2 are possible: the file is damaged", notes)
			}
		}
	}
	if err != nil {
		return 0, fmt.Errorf("head: %w", err)
	}
	return notes, nil
}

// newest is the latest version of both formats of rows.
const newest = 2

// readVersion reads the header up to the description and returns the version, which is at
// most newest.
func (t *Table) readVersion(in io.Reader, magic string, newest uint32, shard int) (uint32, error) {
	le := binary.LittleEndian
	head := make([]byte, magicBytes+8)
	if err := readFull(in, head); err != nil {
		return 0, err
	}
	if string(head[:magicBytes]) != magic {
		return 0, fmt.Errorf("it begins with %q, not with %q: this is another kind of file", head[:magicBytes], magic)
	}
	version := le.Uint32(head[magicBytes:])
	if version < 1 || version > newest {
		return 0, fmt.Errorf("format version %d, this program reads 1 to %d: use the program that wrote it or a newer one", version, newest)
	}
	n := le.Uint32(head[magicBytes+4:])
	if n > maxDescription {
		return 0, fmt.Errorf("a description of %d bytes, at most %d are possible: the file is damaged", n, maxDescription)
	}
	desc := make([]byte, n)
	if err := readFull(in, desc); err != nil {
		return 0, err
	}
	have, err := decodeDescription(desc)
	if err != nil {
		return 0, fmt.Errorf("description: %w: the file is damaged", err)
	}
	if want := t.describe(shard); !have.equal(want) {
		return 0, fmt.Errorf("the file holds %v; the table has %v: open it with the configuration that was saved", have, want)
	}
	return version, nil
}

// loading holds memory of loadRows between shards, most of which are small.
var loading = sync.Pool{New: func() any { return new([]byte) }}

// loadRows reads the number of rows and the rows.
func (t *Table) loadRows(in io.Reader, shard, notes int) error {
	le := binary.LittleEndian
	var b [8]byte
	if err := readFull(in, b[:]); err != nil {
		return fmt.Errorf("number of rows: %w", err)
	}
	n := le.Uint64(b[:])
	if n > maxRows || t.checkCapacity(int(n)) != nil {
		return fmt.Errorf("%d rows in addition to %d; one rank can hold %d of a table: use more ranks", n, t.Rows(), maxRows)
	}
	size := 8 + 4*(t.RecordLen()+notes)
	memory := loading.Get().(*[]byte)
	defer loading.Put(memory)
	if cap(*memory) < max(chunkBytes, size) {
		*memory = make([]byte, max(chunkBytes, size))
	}
	buf := (*memory)[:max(1, chunkBytes/size)*size]
	order := ascending{t: t, shard: shard, of: n}
	for i := uint64(0); i < n; {
		part := buf[:size*int(min(n-i, uint64(len(buf)/size)))]
		if err := readFull(in, part); err != nil {
			return fmt.Errorf("rows from %d of %d: %w", i, n, err)
		}
		if err := t.enforceLimit(); err != nil {
			return err
		}
		for ; len(part) > 0; part = part[size:] {
			key := le.Uint64(part)
			if err := order.check(key); err != nil {
				return err
			}
			t.load(key, part[8:size], notes)
			i++
		}
	}
	return nil
}

// load inserts a saved row.
func (t *tiered) load(key uint64, b []byte, notes int) {
	row := t.insert(key)
	copy(raw.Bytes(t.record), b)
	t.converted(t.record)
	t.unpack(row, t.record)
	t.restamp(row, b, notes, 0)
}

// Convert makes LoadShard and LoadDelta change each record, which is V values and S of state, with f; nil ends it.
func (t *tiered) Convert(f func(record []float32)) { t.convert = f }

func (t *tiered) converted(record []float32) {
	if t.convert != nil {
		t.convert(record)
	}
}

// restamp sets the notes of a row from the file. A row without saved notes gets stamp none.
func (t *tiered) restamp(row Row, b []byte, notes int, none uint32) {
	stamp, score := none, float32(0)
	b = b[len(b)-4*notes:]
	if notes > 0 {
		stamp = binary.LittleEndian.Uint32(b)
	}
	if notes > 1 {
		score = math.Float32frombits(binary.LittleEndian.Uint32(b[4:]))
	}
	t.stamp(row, stamp, score)
}

// ascending checks the order and shard of the keys of a file.
type ascending struct {
	t     *Table
	shard int
	n, of uint64
	last  uint64
}

func (a *ascending) check(key uint64) error {
	if a.n > 0 && key <= a.last {
		return fmt.Errorf("row %d of %d: key %d follows key %d, rows must ascend: the file is damaged", a.n, a.of, key, a.last)
	}
	if is := a.t.ShardOf(key); is != a.shard {
		return fmt.Errorf("row %d of %d: key %d belongs to shard %d: the file is damaged", a.n, a.of, key, is)
	}
	a.n, a.last = a.n+1, key
	return nil
}
