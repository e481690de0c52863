package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/adult"
	"github.com/wdlrun/wdlrun/internal/data/delta"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/remote"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Builtin is the prefix of the names of embedded files.
const Builtin = "builtin:"

// fileScheme is the prefix of the URLs of local files.
const fileScheme = "file://"

// MaxFiles is the maximum number of files of a dataset.
const MaxFiles = 1 << 20

// File is one input file. Local files are opened when they are read, so that a
// dataset of many files holds no descriptors.
type File struct {
	Name    string         // as in messages
	Bytes   int64          // as stored
	size    int64          // bytes to read: Bytes, or unknownSize if packed
	Packing *Packing       // nil: none
	time    time.Time      // modification time of a local file
	lo      int64          // offset of the first byte to read; not 0 only if an earlier span ends there
	content []byte         // of an embedded file
	Groups  []int64        // rows of each row group of a table
	mark    int64          // length of the byte order mark, 0 or 3
	body    int64          // offset of the first record, after byte order mark and header
	header  []byte         // the line that names the fields, nil if there is none
	columns []string       // of a table
	unread  []table.Unread // columns that no reader can read
	onwards bool           // must be read from the beginning to find records
	allRead bool           // the records read for the names of fields are all records

	ofStream *stream.Part // nil: all of the file is read, and it must not grow meanwhile
	found    int64        // size of the file of a stream when it was opened

	remote *remote.Object // object in an object store or on a web server
	away   func() Content // opens a file of another host; nil: none
	path   string         // of a local file whose Name has its host; "": Name

	Partitions []Partition    // fields that its folders give to records
	carried    *carried       // those that readers add; nil: none
	named      []delta.Column // columns and their names in the file, of a Delta table; nil: as in the file

	Log  *kafka.Log  // a range of a topic: size is its end, Bytes the number of its offsets
	part kafka.Range // of Log
}

// Content is a file open for reading.
type Content interface {
	io.ReaderAt
	io.Closer
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
	return &packed{Content: src, how: f.Packing, size: f.Bytes}, nil
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
	h, err := regular.Open(f.Path())
	if err != nil {
		return nil, err
	}
	if err := f.unchanged(h); err != nil {
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

// Resolve returns the files of names, globs and folders, in the order given. The files of
// a glob or folder are sorted by name.
func Resolve(patterns []string) ([]File, error) {
	var files []File
	r := resolver{logs: map[string]*kafka.Log{}}
	for _, p := range patterns {
		more, err := r.one(p)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
		if len(files) > MaxFiles {
			return nil, fmt.Errorf("more than %d files; join them into fewer, larger ones", MaxFiles)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no file is named; give a path, a glob such as day_*.csv, a folder, or builtin:adult.data")
	}
	return files, distinct(files)
}

// distinct returns an error if a file occurs twice.
func distinct(files []File) error {
	first := map[string]bool{}
	for _, f := range files {
		name := f.Name
		if f.content == nil && f.Log == nil && f.remote == nil {
			name = filepath.Clean(name)
		}
		if first[name] {
			return fmt.Errorf("%s is named twice, its records would count twice; remove one", f.Name)
		}
		first[name] = true
	}
	return nil
}

// noFile means that a name stands for no file that has content.
type noFile struct{ error }

func (e noFile) Unwrap() error { return e.error }

// LocalPath returns the path in a file:// URL of a local file, and any other p unchanged.
func LocalPath(p string) string {
	if path, ok := strings.CutPrefix(p, fileScheme); ok {
		if path = strings.TrimPrefix(path, "localhost"); filepath.IsAbs(path) {
			return path
		}
	}
	return p
}

// PathOf returns the path of a local file named by a path or a file:// URL.
func PathOf(p string) (string, error) {
	if path := LocalPath(p); path != p {
		return path, nil
	}
	if strings.HasPrefix(p, fileScheme) {
		return "", fmt.Errorf("%s: a file URL has no host and an absolute path: file:///data/clicks.csv", p)
	}
	if scheme, _, ok := strings.Cut(p, "://"); ok {
		return "", fmt.Errorf("%s: %s:// is not supported; copy the file here and give its path", p, scheme)
	}
	return p, nil
}

// one returns the files of one name.
func (r *resolver) one(p string) ([]File, error) {
	switch {
	case strings.HasPrefix(p, kafka.Scheme):
		return r.topic(p)
	case remote.Is(p):
		return objects(p)
	}
	if name, ok := strings.CutPrefix(p, Builtin); ok {
		b, err := adult.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		return []File{{Name: p, Bytes: int64(len(b)), size: int64(len(b)), content: b}}, nil
	}
	if p == "" {
		return nil, errors.New("an empty file name")
	}
	if err := printable(p); err != nil {
		return nil, err
	}
	p, err := PathOf(p)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(p)
	switch {
	case err == nil && info.IsDir() && delta.IsTable(p):
		return r.delta(p)
	case err == nil && info.IsDir():
		return r.folder(p)
	case err == nil:
		f, err := r.local(p, info)
		if err == nil && f.Bytes == 0 {
			return nil, noFile{fmt.Errorf("%s: the file is empty; check the program that wrote it", p)}
		}
		return []File{f}, err
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(p, "*?["):
		return r.glob(p)
	case errors.Is(err, fs.ErrNotExist) && p == "-":
		return nil, noFile{errors.New("-: records are not read from standard input, which every rank would need more than once; give the name of the file, also of a compressed one, or write the records to a file first")}
	case errors.Is(err, fs.ErrNotExist):
		return nil, noFile{fmt.Errorf("%s: %w; %s", p, fs.ErrNotExist, PathHint(p))}
	}
	return nil, err
}

// printable rejects file names that cannot be printed safely. Messages contain names: a
// line break could forge a log line, and an escape sequence could clear a terminal.
func printable(name string) error {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("the file name %q holds a control character or is not UTF-8: rename the file", name)
	}
	return nil
}

// PathHint returns a hint about a path that does not exist.
func PathHint(p string) string {
	if wd, err := os.Getwd(); err == nil && !filepath.IsAbs(p) {
		return "relative names count from " + wd
	}
	return "check the path"
}

func (r *resolver) local(name string, info fs.FileInfo) (File, error) {
	if !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("%s is not a regular file; copy its content to one, because ranks read it at several places", name)
	}
	if err := r.outside(name, false); err != nil {
		return File{}, err
	}
	f := File{Name: name, Bytes: info.Size(), size: info.Size(), time: info.ModTime()}
	var err error
	f.Partitions, err = partitionsOf(name)
	return f, err
}

// BOM is the byte order mark with which some programs begin UTF-8 files.
const BOM = "\xef\xbb\xbf"

// headBytes is the length of the beginning that identifies a format.
const headBytes = 4 << 10

// wideCharacters reports whether a text begins with ASCII in UTF-16 without a byte order
// mark.
func wideCharacters(head []byte) bool {
	return len(head) > 3 && (head[0] != 0 && head[1] == 0 && head[2] != 0 && head[3] == 0 || head[0] == 0 && head[1] != 0 && head[2] == 0 && head[3] != 0)
}

// carriageReturns reports whether lines end in CR without LF.
func carriageReturns(head []byte) bool {
	return bytes.IndexByte(head, '\n') < 0 && bytes.Count(head, []byte{'\r'}) > 1
}

// Begin reads the start of a file: it finds the packing, rejects files that cannot have
// the format and skips the byte order mark.
func (f *File) Begin(format string) error {
	f.Packing = nil
	head, err := f.head()
	if err != nil {
		return err
	}
	if f.Packing, err = packingOf(f.Name, head); err != nil {
		return err
	}
	if f.Packing != nil {
		f.size = unknownSize
		if head, err = f.head(); err != nil {
			return err
		}
	}
	if err := f.foreign(format, head); err != nil {
		return err
	}
	switch text := !schema.IsTyped(format) && format != "tfrecord"; {
	case text && carriageReturns(head):
		return fmt.Errorf("%s: its lines end only in CR; convert it first (tr '\\r' '\\n' < FILE > NEW)", f.Name)
	case text && wideCharacters(head):
		return fmt.Errorf("%s is UTF-16 text, not %s; %s", f.Name, format, inName(fromUTF16, f.Name))
	}
	if strings.HasPrefix(string(head), BOM) {
		f.mark = int64(len(BOM))
		f.body = f.mark
	}
	return nil
}

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
	head := make([]byte, n)
	n, err = src.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return head[:n], nil
}
