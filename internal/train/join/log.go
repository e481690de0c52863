package join

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// The log is a sequence of segments, segment-NUMBER. A segment is a sequence of entries:
//
//	kind 1 byte │ length uvarint │ body
//
//	I  key 16 bytes │ time varint │ impression, a JSON object
//	F  key 16 bytes │ time varint │ length of the value uvarint │ value, JSON │ feedback, a JSON object
//	C  CRC-32C 4 bytes, of all bytes since the previous C and of the JSON that follows │ commit, JSON
//
// Integers are little-endian. A segment begins with the C of the commit before it, so that segments
// whose records are all closed can be removed. Entries behind the last C are those of a run that was
// killed; they are removed.
const (
	entryImpression = 'I'
	entryFeedback   = 'F'
	entryCommit     = 'C'

	segmentPrefix = "segment-"
	partSuffix    = ".part"
	segmentBytes  = 64 << 20
	maxEntry      = 128 << 20 // bytes; a record has at most 64 MiB
	offsetBits    = 40        // of a Ref; the others are the number of the segment
	maxSegment    = 1<<(64-offsetBits) - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDamaged = errors.New("it is damaged; restore it, or remove the state directory and the samples, and join everything again")

// segment is a file of the log.
type segment struct {
	number uint64
	file   *os.File
	until  int64 // least watermark that closes all its records
}

// stateLog is the log of a state directory. It belongs to one goroutine.
type stateLog struct {
	dir      string
	segments []segment // the last one is written
	out      *bufio.Writer
	offset   int64  // of the next entry in the last segment
	sum      uint32 // of the bytes since the last commit
	head     []byte
	buffer   []byte
}

// restored receives the entries of a log.
type restored struct {
	record func(kind byte, key Key, time int64, ref Ref)
	commit func(json []byte) error
}

func segmentName(n uint64) string { return fmt.Sprintf("%s%012d", segmentPrefix, n) }

// openLog opens the log of a directory and calls r with its entries up to the last commit. fresh
// reports that there is none.
func openLog(dir string, r restored) (l *stateLog, fresh bool, err error) {
	l = &stateLog{dir: dir}
	numbers, err := segmentsIn(dir)
	if err != nil {
		return nil, false, err
	}
	for i, n := range numbers {
		if i > 0 && n != numbers[i-1]+1 {
			return nil, false, fmt.Errorf("%s is missing: %w", filepath.Join(dir, segmentName(n-1)), errDamaged)
		}
		if err := l.restore(n, i == len(numbers)-1, r); err != nil {
			l.close()
			return nil, false, err
		}
	}
	if len(numbers) > 0 {
		return l, false, l.appendTo()
	}
	return l, true, nil
}

// segmentsIn returns the numbers of the segments of a directory, in order.
func segmentsIn(dir string) (numbers []uint64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), segmentPrefix)
		var n uint64
		if _, err := fmt.Sscanf(digits, "%d", &n); ok && err == nil && e.Name() == segmentName(n) && n <= maxSegment {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// restore reads a segment. Only the last one may end inside a commit.
func (l *stateLog) restore(number uint64, last bool, r restored) error {
	path := filepath.Join(l.dir, segmentName(number))
	f, err := regular.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	l.segments = append(l.segments, segment{number: number, file: f, until: Never})
	s := &scan{in: bufio.NewReaderSize(f, 1<<20), number: number}
	err = s.all(r)
	switch {
	case errors.Is(err, errTorn) && last && s.good > 0:
		err = f.Truncate(s.good)
	case errors.Is(err, errTorn):
		return fmt.Errorf("%s: %w", path, errDamaged)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	l.segments[len(l.segments)-1].until, l.offset = s.until, s.good
	return nil
}

// scan reads the entries of a segment.
type scan struct {
	in     *bufio.Reader
	number uint64
	at     int64 // offset of the next entry
	good   int64 // behind the last commit
	until  int64
	sum    uint32
	group  []entry // since the last commit
	body   []byte
}

// entry is a record of the state.
type entry struct {
	kind byte
	key  Key
	time int64
	ref  Ref
}

// errTorn means that a segment ends inside an entry or a commit.
var errTorn = errors.New("it ends inside a commit")

// all calls r with the entries, as far as they are committed.
func (s *scan) all(r restored) error {
	s.until = Never
	for {
		kind, err := s.next()
		switch {
		case err == io.EOF && s.at == s.good:
			return nil
		case err != nil:
			return errTorn
		case kind != entryCommit:
			continue
		}
		for _, e := range s.group {
			r.record(e.kind, e.key, e.time, e.ref)
			s.until = max(s.until, e.time)
		}
		if err := r.commit(s.body[4:]); err != nil {
			return err
		}
		s.group, s.sum, s.good = s.group[:0], 0, s.at
	}
}

// next reads an entry. Of a commit, body has all bytes; of others, those before the record.
func (s *scan) next() (kind byte, err error) {
	at := s.at
	if kind, err = s.in.ReadByte(); err != nil {
		return 0, err
	}
	n, err := binary.ReadUvarint(s.in)
	if err != nil || n > maxEntry {
		return 0, errTorn
	}
	head := binary.AppendUvarint([]byte{kind}, n)
	s.at += int64(len(head)) + int64(n)
	if cap(s.body) < int(n) { // grows with what is there, not with what the length says
		if s.body, err = readGrowing(s.in, s.body[:0], int(n)); err != nil {
			return 0, errTorn
		}
	} else if _, err = io.ReadFull(s.in, s.body[:n]); err != nil {
		return 0, errTorn
	}
	s.body = s.body[:n]
	if kind == entryCommit {
		if n < 4 {
			return 0, errTorn
		}
		want := binary.LittleEndian.Uint32(s.body)
		if crc32.Update(s.sum, castagnoli, s.body[4:]) != want {
			return 0, errTorn
		}
		return kind, nil
	}
	s.sum = crc32.Update(crc32.Update(s.sum, castagnoli, head), castagnoli, s.body)
	if (kind != entryImpression && kind != entryFeedback) || n < 17 {
		return 0, errTorn
	}
	time, m := binary.Varint(s.body[16:])
	if m <= 0 {
		return 0, errTorn
	}
	s.group = append(s.group, entry{kind, keyAt(s.body), time, refOf(s.number, at)})
	return kind, nil
}

// readGrowing reads n bytes in steps, so that a false length allocates no more than the file has.
func readGrowing(in io.Reader, b []byte, n int) ([]byte, error) {
	for len(b) < n {
		step := min(n-len(b), max(len(b), 1<<16))
		b = slices.Grow(b, step)
		got, err := io.ReadFull(in, b[len(b):len(b)+step])
		if b = b[:len(b)+got]; err != nil {
			return b, err
		}
	}
	return b, nil
}

func keyAt(b []byte) Key {
	return Key{Hi: binary.LittleEndian.Uint64(b), Lo: binary.LittleEndian.Uint64(b[8:])}
}

func refOf(segment uint64, offset int64) Ref { return Ref(segment<<offsetBits | uint64(offset)) }

// begin makes the first segment.
func (l *stateLog) begin(commit []byte) error { return l.roll(1, commit) }

// appendTo prepares writing behind the last commit.
func (l *stateLog) appendTo() error {
	f := l.segments[len(l.segments)-1].file
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return err
	}
	l.out, l.sum = bufio.NewWriterSize(f, 1<<20), 0
	return nil
}

// roll begins a segment with a commit.
func (l *stateLog) roll(number uint64, commit []byte) error {
	if number > maxSegment {
		return fmt.Errorf("%s: there are %d segments; end the join and begin another state", l.dir, maxSegment)
	}
	path := filepath.Join(l.dir, segmentName(number))
	f, err := regular.Create(path+partSuffix, 0o600)
	if err != nil {
		return err
	}
	first := commitEntry(nil, 0, commit)
	_, err = f.Write(first)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = regular.Rename(path+partSuffix, path)
	}
	if err == nil {
		err = syncFolder(l.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.segments = append(l.segments, segment{number, f, Never})
	l.offset = int64(len(first))
	return l.appendTo()
}

// commitEntry appends the entry of a commit.
func commitEntry(dst []byte, sum uint32, commit []byte) []byte {
	dst = binary.AppendUvarint(append(dst, entryCommit), uint64(4+len(commit)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(sum, castagnoli, commit))
	return append(dst, commit...)
}

// next returns the place of the entry that is appended next.
func (l *stateLog) next() Ref { return refOf(l.segments[len(l.segments)-1].number, l.offset) }

// impression appends an impression.
func (l *stateLog) impression(key Key, time int64, object []byte) error {
	return l.append(entryImpression, key, time, nil, object)
}

// feedback appends feedback with its value.
func (l *stateLog) feedback(key Key, time int64, value, object []byte) error {
	l.buffer = append(binary.AppendUvarint(l.buffer[:0], uint64(len(value))), value...)
	return l.append(entryFeedback, key, time, l.buffer, object)
}

func (l *stateLog) append(kind byte, key Key, time int64, before, object []byte) error {
	var fixed [16 + binary.MaxVarintLen64]byte
	binary.LittleEndian.PutUint64(fixed[:], key.Hi)
	binary.LittleEndian.PutUint64(fixed[8:], key.Lo)
	n := 16 + binary.PutVarint(fixed[16:], time)
	l.head = binary.AppendUvarint(append(l.head[:0], kind), uint64(n+len(before)+len(object)))
	l.head = append(append(l.head, fixed[:n]...), before...)
	for _, b := range [][]byte{l.head, object} {
		l.sum = crc32.Update(l.sum, castagnoli, b)
		if _, err := l.out.Write(b); err != nil {
			return err
		}
		l.offset += int64(len(b))
	}
	last := &l.segments[len(l.segments)-1]
	last.until = max(last.until, time)
	return nil
}

// commit makes everything so far durable. Segments whose records have been closed by the watermark are
// removed; window is the time for which a record stays open.
func (l *stateLog) commit(commit []byte, watermark, window int64) error {
	l.head = commitEntry(l.head[:0], l.sum, commit)
	if _, err := l.out.Write(l.head); err != nil {
		return err
	}
	last := l.segments[len(l.segments)-1]
	if err := errors.Join(l.out.Flush(), last.file.Sync()); err != nil {
		return err
	}
	l.offset, l.sum = l.offset+int64(len(l.head)), 0
	if l.offset > segmentBytes {
		if err := l.roll(last.number+1, commit); err != nil {
			return err
		}
	}
	for len(l.segments) > 1 && closed(l.segments[0].until, watermark, window) {
		first := l.segments[0]
		first.file.Close() // it is removed
		if err := os.Remove(filepath.Join(l.dir, segmentName(first.number))); err != nil {
			return err
		}
		l.segments = l.segments[1:]
	}
	return nil
}

// closed reports whether a watermark closes a record of some time.
func closed(time, watermark, window int64) bool {
	return time == Never || watermark == Always || time < math.MaxInt64-window && time+window < watermark
}

// read returns an entry's record, valid until the next call. Of feedback, value is its value.
func (l *stateLog) read(ref Ref) (value, object []byte, err error) {
	number, offset := uint64(ref)>>offsetBits, int64(uint64(ref)&(1<<offsetBits-1))
	i := int(number - l.segments[0].number)
	if i < 0 || i >= len(l.segments) {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(l.dir, segmentName(number)), errDamaged)
	}
	value, object, err = l.readFrom(l.segments[i].file, offset)
	if errors.Is(err, io.EOF) && i == len(l.segments)-1 && l.out.Buffered() > 0 {
		if err := l.out.Flush(); err != nil {
			return nil, nil, err
		}
		return l.readFrom(l.segments[i].file, offset)
	}
	return value, object, err
}

// maxPeek is the number of bytes that are read for an entry at once.
const maxPeek = 1 << 12

func (l *stateLog) readFrom(f *os.File, offset int64) (value, object []byte, err error) {
	b := slices.Grow(l.buffer[:0], maxPeek)[:maxPeek]
	n, err := f.ReadAt(b, offset)
	if err != nil && err != io.EOF || n < 2 {
		return nil, nil, fmt.Errorf("%s: offset %d: %w", f.Name(), offset, errors.Join(err, errDamaged))
	}
	length, m := binary.Uvarint(b[1:n])
	if m <= 0 || length > maxEntry || length < 17 {
		return nil, nil, fmt.Errorf("%s: offset %d: %w", f.Name(), offset, errors.Join(err, errDamaged))
	}
	whole := 1 + m + int(length)
	if whole > n {
		b = slices.Grow(b[:n], whole-n)[:whole]
		if _, err := f.ReadAt(b[n:], offset+int64(n)); err != nil {
			return nil, nil, fmt.Errorf("%s: offset %d: %w", f.Name(), offset, err)
		}
	}
	l.buffer = b
	kind, body := b[0], b[1+m:whole]
	_, t := binary.Varint(body[16:])
	body = body[16+max(t, 0):]
	if kind == entryFeedback {
		size, v := binary.Uvarint(body)
		if v <= 0 || size > uint64(len(body)-v) {
			return nil, nil, fmt.Errorf("%s: offset %d: %w", f.Name(), offset, errDamaged)
		}
		return body[v : v+int(size)], body[v+int(size):], nil
	}
	return nil, body, nil
}

// close closes the files.
func (l *stateLog) close() {
	for _, s := range l.segments {
		s.file.Close() // what matters has been synced
	}
}

// syncFolder makes the names of a folder durable.
func syncFolder(dir string) error {
	root, err := regular.OpenFolder(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some network file systems cannot sync folders and need not
	}
	return errors.Join(err, d.Close())
}

// restore adds a record of the state, as it was added before.
func (m *Machine) restore(kind byte, key Key, time int64, ref Ref) {
	i, open := m.open.find(key)
	switch {
	case kind == entryImpression && !open:
		m.opens(key, time, ref)
	case kind == entryImpression:
	case open && m.covers(i, time):
		m.match(i, time, ref)
	default:
		m.hold(key, time, ref)
	}
}
