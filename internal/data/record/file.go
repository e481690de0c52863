package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/delta"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/remote"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// File is one input file. Local files are opened when they are read, so that a
// dataset of many files holds no descriptors.
type File struct {
	Name    string    // as in messages
	Bytes   int64     // as stored
	size    int64     // bytes to read: Bytes, or unknownSize if packed
	Packing *Packing  // nil: none
	time    time.Time // modification time of a local file
	lo      int64     // offset of the first byte to read; not 0 only if an earlier span ends there
	content []byte    // of an embedded file
	Groups  []int64   // rows of each row group of a table
	mark    int64     // length of the byte order mark, 0 or 3
	body    int64     // offset of the first record, after byte order mark and header
	header  []byte    // the line that names the fields, nil if there is none
	onwards bool      // must be read from the beginning to find records
	allRead bool      // the records read for the names of fields are all records
	looked

	ofStream *stream.Part // nil: all of the file is read, and it must not grow meanwhile
	found    int64        // size of the file of a stream when it was opened

	remote *remote.Object // object in an object store or on a web server
	away   func() Content // opens a file of another host; nil: none
	path   string         // of a local file whose Name has its host; "": Name

	Partitions []Partition // fields that its folders give to records
	reshaped
	logged

	Log  *kafka.Log  // a range of a topic: size is its end, Bytes the number of its offsets
	part kafka.Range // of Log
}

// looked is what a look at the beginning of a file finds.
type looked struct {
	columns []string       // of a table, or of the header
	unread  []table.Unread // columns that no reader can read
	bare    bool           // it has columns or a header, and no records
}

// logged is what the log of a Delta table says of a file.
type logged struct {
	named    []delta.Column   // columns and their names in the file; nil: as in the file
	deleted  []uint32         // rows that the table no longer has, ascending
	physical map[int32]string // names in the file by field id; nil: the file decides
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// Open opens a file for reading. Offsets count unpacked bytes.
func (f *File) Open() (Content, error) {
	if f.Log != nil {
		if err := f.Log.Open(); err != nil {
			return nil, err
		}
		return topicSource{f.Log, f.part}, nil
	}
	src, err := f.raw()
	if err != nil || f.Packing == nil {
		return src, err
	}
	return f.unpacked(src), nil
}

// unpacked returns the unpacked content of a packed file.
func (f *File) unpacked(src Content) Content {
	return &packed{Content: src, how: f.Packing, size: f.Bytes}
}

// raw opens a file as stored.
func (f *File) raw() (Content, error) {
	switch {
	case f.content != nil:
		return memory{bytes.NewReader(f.content)}, nil
	case f.remote != nil:
		return f.remote.Open(), nil
	case f.away != nil:
		return f.away(), nil
	}
	h, info, err := regular.OpenInfo(f.Path())
	if errors.Is(err, fs.ErrNotExist) && f.ofStream == nil {
		return nil, fmt.Errorf("%s: %w (%w)", f.Name, ErrChanged, err)
	}
	if err != nil {
		return nil, err
	}
	if err := f.same(h, info); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// Path returns the path of a local file on its host.
func (f *File) Path() string {
	if f.path != "" {
		return f.path
	}
	return f.Name
}

// unchanged checks that an open file has not changed since the dataset was opened.
func (f *File) unchanged(s Content) error {
	if p, ok := s.(*packed); ok {
		s = p.Content
	}
	h, ok := s.(*os.File)
	if !ok {
		return nil
	}
	info, err := h.Stat()
	if err != nil {
		return err
	}
	return f.same(h, info)
}

// same is unchanged with the description of the open file.
func (f *File) same(h *os.File, info fs.FileInfo) error {
	if f.ofStream != nil {
		if (info.Size() != f.found || !info.ModTime().Equal(f.time)) && (info.Size() <= f.found || !begins(h, *f.ofStream)) {
			return fmt.Errorf("%s: %w", f.Name, ErrReplaced)
		}
		return nil
	}
	if info.Size() != f.Bytes || !info.ModTime().Equal(f.time) {
		return fmt.Errorf("%s: %w (%d bytes of %s, now %d of %s)", f.Name, ErrChanged,
			f.Bytes, f.time.Format(time.RFC3339), info.Size(), info.ModTime().Format(time.RFC3339))
	}
	return nil
}

// ErrChanged means that a file changed after the job first read it.
var ErrChanged = errors.New("the file changed while the job ran; start the job again, on files that no program writes")

// BOM is the byte order mark with which some programs begin UTF-8 files.
const BOM = "\xef\xbb\xbf"

// headBytes is the length of the beginning that identifies a format.
const headBytes = 4 << 10

// head returns the first bytes of a file, unpacked if its packing is known.
func (f *File) head() ([]byte, error) { return f.Read(headBytes) }

// IsEmpty reports whether a file that can be read has no bytes, unpacked.
func (f *File) IsEmpty() bool {
	b, err := f.Read(1)
	return err == nil && len(b) == 0
}

// Read returns the first n bytes of a file, or all of a shorter one.
func (f *File) Read(n int) ([]byte, error) {
	src, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return f.start(src, n)
}

// start returns the first n bytes of an open file.
func (f *File) start(src Content, n int) ([]byte, error) {
	head := make([]byte, n)
	n, err := src.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return head[:n], nil
}

// begins reports whether a file still has the bytes up to the end of a part.
func begins(h *os.File, p stream.Part) bool {
	d, err := digest(h, p.Hi)
	return err == nil && d == p.Digest
}

// ErrReplaced means that the bytes of a file that a span reads have been replaced.
var ErrReplaced = errors.New("the bytes that the span reads were replaced; give new files of a stream new names")

// FindPacking sets the packing of a file.
func (f *File) FindPacking() error {
	head, err := f.head()
	if err == nil {
		f.Packing, err = packingOf(f.Name, head)
	}
	return err
}

// topicSource is a range of a partition, open for reading. Its positions are offsets of
// records, not of bytes.
type topicSource struct {
	log  *kafka.Log
	part kafka.Range
}

func (s topicSource) ReadAt([]byte, int64) (int, error) {
	return 0, errors.New("records of a topic are not bytes of a file") // unreachable
}

func (s topicSource) Close() error { return s.log.Close() }

// From returns the offset of the first byte to read of a file.
func (f *File) From() int64 { return f.lo }

// Onwards reports whether a file can only be read from its beginning, or from that of a
// row group.
func (f *File) Onwards() bool { return f.Packing != nil || f.Groups != nil || f.onwards }

// ReadOnwards marks a file as readable only from its beginning.
func (f *File) ReadOnwards() { f.onwards = true }

// Unread lists the columns of a table that cannot be read, with reasons.
func (f *File) Unread() []string {
	all := make([]string, len(f.unread))
	for i, u := range f.unread {
		all[i] = fmt.Sprintf("%s %s", u.Name, u.Why)
	}
	return all
}

// digest identifies the first n bytes of a file by their beginning and their end.
func digest(r io.ReaderAt, n int64) (uint64, error) {
	h, b := xxh3.New(), make([]byte, min(n, digestBytes))
	fmt.Fprint(h, n)
	for _, off := range []int64{0, n - int64(len(b))} {
		got, err := r.ReadAt(b, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		h.Write(b[:got])
	}
	return h.Sum64(), nil
}

// digestBytes is the length of the beginning, and of the end, that a digest covers.
const digestBytes = 4 << 10
