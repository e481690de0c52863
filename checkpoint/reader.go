package checkpoint

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// heldBytes is the size from which a section is streamed. A smaller one is held in memory
// until its checksum is known.
const heldBytes = 64 << 20

// chunk is the number of bytes read at a time, and between two checks of the context in
// Verify.
const chunk = 1 << 20

// maxChain bounds the length of a chain of checkpoints.
const maxChain = 1 << 10

// Checkpoint is an open checkpoint with its bases: its manifest and the directories of its
// parts, but no open files. Pruning it makes later reads fail. Sections do not include those
// of its base, or of parts that only other hosts hold until Attach.
type Checkpoint struct {
	dir      string
	manifest Manifest
	sum      Sum             // checksum of the manifest
	base     *Checkpoint     // nil: c is full
	parts    [][]section     // nil: on other hosts
	attached map[int]Content // by part
	byName   map[string]place
	held     int64           // heldBytes, or less in tests
	watch    func(bytes int) // see Watch; may be nil
	files    files
}

// files holds parts open between reads.
type files struct {
	sync.Mutex
	holds int        // calls of Hold without their release
	open  []*os.File // by part; nil: not open
}

// place is the part of a section and its index there.
type place struct{ part, index int }

// Open reads and checks the manifest, the directories of all parts and the sizes of the
// files. It does not read payloads: Read does so for one section, Verify for all. Open does
// the same for the bases in the same root, and fails if one of them is missing or damaged.
// A part that other hosts hold (File.Hosts, or Adopt without parts) may be missing or damaged:
// see Away.
func Open(dir string) (*Checkpoint, error) {
	c, err := openLink(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: open: %w", err)
	}
	root := filepath.Dir(filepath.Clean(dir))
	for last, n := c, 1; last.manifest.Base != nil; last, n = last.base, n+1 {
		want := *last.manifest.Base
		if n > maxChain {
			return nil, fmt.Errorf("checkpoint: open: %s: it builds upon more than %d others", dir, maxChain)
		}
		last.base, err = openLink(dirOf(root, want.Step))
		if err == nil && last.base.sum != want.Checksum {
			err = fmt.Errorf("%s: its checksum is %v, but the next checkpoint builds upon %v: it was replaced", last.base.dir, last.base.sum, want.Checksum)
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint: open: %s: it builds upon step %d: %w", dir, want.Step, err)
		}
	}
	return c, nil
}

// openLink opens a checkpoint without its bases.
func openLink(dir string) (*Checkpoint, error) {
	m, sum, err := readManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, noManifest(dir, err))
	}
	if err := checkOrigin(dir, m); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	parts, faults := readParts(dir, m)
	elsewhere := exists(filepath.Join(dir, elsewhereName))
	for p, err := range faults {
		if err != nil && len(m.Files[p].Hosts) == 0 && !elsewhere { // otherwise another host may have it
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	if err := uniqueSections(m, parts); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	c := &Checkpoint{dir: dir, manifest: *m, sum: sum, parts: parts, held: heldBytes}
	c.index()
	return c, nil
}

// index lists the sections by name.
func (c *Checkpoint) index() {
	c.byName = map[string]place{}
	for p, sections := range c.parts {
		for i, s := range sections {
			c.byName[s.name] = place{p, i}
		}
	}
}

// Content is a part on another host.
type Content interface {
	io.ReaderAt
	Size() int64
}

// Away returns the parts of c that cannot be read on this host, because only other hosts hold
// them or because the file here is damaged, and that are not attached.
func (c *Checkpoint) Away() (files []File) {
	for p, sections := range c.parts {
		if sections == nil {
			files = append(files, c.manifest.Files[p])
		}
	}
	return files
}

// Attach makes parts on other hosts readable. open is called for each part of c and of its
// bases. It returns nil if the file at path is to be used, and otherwise the content to read
// in its place. Attach reads the directories of these parts and checks them.
func (c *Checkpoint) Attach(open func(path string, of File) (Content, error)) error {
	for _, link := range c.Chain() {
		for p, f := range link.manifest.Files {
			path := filepath.Join(link.dir, f.Name)
			content, err := open(path, f)
			if err == nil && content != nil {
				link.parts[p], err = checkPart(content, f, link.head(p))
			}
			if err != nil {
				return fmt.Errorf("checkpoint: attach: %s: %w", path, err)
			}
			if content == nil {
				continue
			}
			if link.attached == nil {
				link.attached = map[int]Content{}
			}
			link.attached[p] = content
		}
		if err := uniqueSections(&link.manifest, link.parts); err != nil {
			return fmt.Errorf("checkpoint: attach: %s: %w", link.dir, err)
		}
		link.index()
	}
	return nil
}

// head returns the expected header of a part.
func (c *Checkpoint) head(part int) head {
	return head{partVersion, uint32(part), uint32(len(c.manifest.Files)), c.manifest.Step}
}

// open opens a part for reading.
func (c *Checkpoint) open(part int) (r io.ReaderAt, done func() error, err error) {
	kept := func() error { return nil }
	if r := c.attached[part]; r != nil {
		return r, kept, nil
	}
	c.files.Lock()
	defer c.files.Unlock()
	if part < len(c.files.open) && c.files.open[part] != nil {
		return c.files.open[part], kept, nil
	}
	f, err := regular.Open(filepath.Join(c.dir, c.manifest.Files[part].Name))
	if err != nil {
		return nil, nil, err
	}
	if c.files.holds == 0 {
		return f, f.Close, nil
	}
	if c.files.open == nil {
		c.files.open = make([]*os.File, len(c.parts))
	}
	c.files.open[part] = f
	return f, kept, nil
}

// Hold makes Read keep the files of c and its bases open until release is called, which must follow
// the last Read. A model has thousands of sections, and each would open its file again.
func (c *Checkpoint) Hold() (release func()) {
	for _, link := range c.Chain() {
		link.files.Lock()
		link.files.holds++
		link.files.Unlock()
	}
	return func() {
		for _, link := range c.Chain() {
			link.files.release()
		}
	}
}

// release closes all files at the end of the last hold.
func (f *files) release() {
	f.Lock()
	defer f.Unlock()
	if f.holds--; f.holds > 0 {
		return
	}
	for _, open := range f.open {
		if open != nil {
			open.Close() // opened to read: nothing can be lost
		}
	}
	f.open = nil
}

// noManifest returns the reason why the manifest of dir could not be read.
func noManifest(dir string, err error) error {
	info, serr := os.Stat(dir)
	_, target := os.Readlink(dir)
	switch {
	case serr == nil && !info.IsDir():
		return errors.New("it is a file, and a checkpoint is a directory: move it away")
	case serr == nil && errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("it has no %s: it was never committed, or is incomplete: %w", manifestName, withoutPath(filepath.Join(dir, manifestName), err))
	case errors.Is(err, os.ErrNotExist) && target == nil:
		return notThere("the symbolic link leads to a directory that is not there: is its disk mounted?")
	case errors.Is(err, os.ErrNotExist):
		return absent(dir)
	}
	return fmt.Errorf("%s: %w", manifestName, err)
}

// readParts reads the directories of all parts of m from dir. Those that cannot be read are
// nil, with an error.
func readParts(dir string, m *Manifest) (parts [][]section, faults []error) {
	parts, faults = make([][]section, len(m.Files)), make([]error, len(m.Files))
	for p, f := range m.Files {
		sections, err := readPart(filepath.Join(dir, f.Name), f, head{partVersion, uint32(p), uint32(len(m.Files)), m.Step})
		if err != nil {
			err = fmt.Errorf("%s: %w", f.Name, err)
		}
		parts[p], faults[p] = sections, err
	}
	return parts, faults
}

// uniqueSections returns an error if two parts have sections of the same name.
func uniqueSections(m *Manifest, parts [][]section) error {
	all := 0
	for _, f := range m.Files {
		all += f.Sections
	}
	owner := make(map[string]int, min(all, maxSections))
	for p, sections := range parts {
		for _, s := range sections {
			if q, twice := owner[s.name]; twice {
				return fmt.Errorf("section %q is in %s and in %s: two ranks wrote the same thing", s.name, m.Files[q].Name, m.Files[p].Name)
			}
			owner[s.name] = p
		}
	}
	return nil
}

// readPart reads the directory of one part and checks everything except the payloads.
func readPart(path string, want File, h head) ([]section, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, withoutPath(path, err)
	}
	defer f.Close() // opened to read: nothing can be lost
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return checkPart(io.NewSectionReader(f, 0, st.Size()), want, h)
}

// checkPart reads the directory of a part and checks everything except the payloads.
func checkPart(f Content, want File, h head) ([]section, error) {
	if f.Size() != want.Size {
		return nil, fmt.Errorf("%d bytes, the manifest has %d: cut short, or still being copied", f.Size(), want.Size)
	}
	b := make([]byte, headSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if err := h.check(b); err != nil {
		return nil, err
	}
	b = b[:tailSize]
	if _, err := f.ReadAt(b, want.Size-tailSize); err != nil {
		return nil, fmt.Errorf("trailer: %w", err)
	}
	t, err := parseTail(b, want.Size)
	if err != nil {
		return nil, err
	}
	sections, err := readDirectory(f, t)
	if err != nil {
		return nil, err
	}
	if t.sum != want.Directory {
		return nil, fmt.Errorf("offset %d: checksum of the directory is %v, the manifest has %v: files of two checkpoints were mixed", t.offset, t.sum, want.Directory)
	}
	if len(sections) != want.Sections {
		return nil, fmt.Errorf("offset %d: %d sections, the manifest has %d", t.offset, len(sections), want.Sections)
	}
	return sections, nil
}

// readDirectory reads the directory at the position in a trailer.
func readDirectory(f io.ReaderAt, t tail) ([]section, error) {
	b := make([]byte, t.length)
	if _, err := f.ReadAt(b, t.offset); err != nil {
		return nil, fmt.Errorf("directory: %w", err)
	}
	if got := Sum(xxh3.Hash(b)); got != t.sum {
		return nil, fmt.Errorf("offset %d: checksum of the directory is %v, the trailer has %v: damaged", t.offset, got, t.sum)
	}
	return parseDirectory(b, t.offset)
}

// sectionsOf returns the number of sections of the directory at the position in a trailer.
func sectionsOf(f io.ReaderAt, t tail) (int, error) {
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, t.offset); err != nil {
		return 0, fmt.Errorf("directory: %w", err)
	}
	n := binary.LittleEndian.Uint32(b)
	if n > maxSections || int64(n) > t.length/entrySize {
		return 0, fmt.Errorf("offset %d: directory: %d sections in %d bytes: damaged", t.offset, n, t.length)
	}
	return int(n), nil
}

// Dir returns the directory from which c was opened.
func (c *Checkpoint) Dir() string { return c.dir }

// Step returns the step after which c was taken.
func (c *Checkpoint) Step() int64 { return c.manifest.Step }

// Manifest returns the manifest. The caller must not change what it points to.
func (c *Checkpoint) Manifest() Manifest { return c.manifest }

// Base returns the base of c; nil if c is full.
func (c *Checkpoint) Base() *Checkpoint { return c.base }

// Chain returns the chain from the full checkpoint to c itself. If c is full, it contains
// only c.
func (c *Checkpoint) Chain() (links []*Checkpoint) {
	for ; c != nil; c = c.base {
		links = append(links, c)
	}
	slices.Reverse(links)
	return links
}

// Names returns the names of all sections, sorted.
func (c *Checkpoint) Names() []string {
	names := make([]string, 0, len(c.byName))
	for name := range c.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Has reports whether a section exists.
func (c *Checkpoint) Has(name string) bool {
	_, ok := c.byName[name]
	return ok
}

// Size returns the length of a section's payload in bytes; 0 if the section does not exist.
func (c *Checkpoint) Size(name string) int64 {
	if at, ok := c.byName[name]; ok {
		return c.parts[at.part][at.index].length
	}
	return 0
}

// Checksum returns the checksum of a section's payload as text; "" if the section does not
// exist.
func (c *Checkpoint) Checksum(name string) string {
	if at, ok := c.byName[name]; ok {
		return c.parts[at.part][at.index].sum.String()
	}
	return ""
}

// Read calls read with the payload of a section. It is an error if read does not read all of
// it: then the writer and the reader of the section disagree about its format.
//
// A payload of less than 64 MiB is checked before read is called. A larger one is streamed,
// and is only known to be correct when Read returns nil. Load it into a new object and
// discard that object on an error.
func (c *Checkpoint) Read(name string, read func(io.Reader) error) error {
	at, ok := c.byName[name]
	if !ok {
		if err := c.complete(); err != nil {
			return fmt.Errorf("checkpoint: read: section %q: %w", name, err)
		}
		return fmt.Errorf("checkpoint: read: %s: there is no section %q among its %d", c.dir, name, len(c.byName))
	}
	s := c.parts[at.part][at.index]
	path := filepath.Join(c.dir, c.manifest.Files[at.part].Name)
	f, done, err := c.open(at.part)
	if err == nil {
		in := &checked{r: io.NewSectionReader(f, s.offset, s.length), hash: xxh3.New(), left: s.length, read: c.read}
		if s.length < c.held {
			err = readHeld(in, s, read)
		} else {
			err = readStreamed(in, s, read)
		}
		done() // opened to read: nothing can be lost
	}
	if err != nil {
		return fmt.Errorf("checkpoint: read: %s: section %q (%d bytes at offset %d): %w", path, name, s.length, s.offset, err)
	}
	return nil
}

// complete returns an error if this host lacks parts of c that are not attached.
func (c *Checkpoint) complete() error {
	away := c.Away()
	if len(away) == 0 {
		return nil
	}
	from := "another host"
	if len(away[0].Hosts) > 0 {
		from = "host " + strings.Join(away[0].Hosts, " or ")
	}
	return fmt.Errorf("%s: %d of %d parts are not on this host or damaged, such as %s of %s: wdlrun -H HOSTS ckpt gather collects them",
		c.dir, len(away), len(c.parts), away[0].Name, from)
}

// Watch sets a function that is called with the number of payload bytes of c and its bases
// that were just read, to show progress. The reading goroutine calls it, once per piece.
func (c *Checkpoint) Watch(f func(bytes int)) {
	for _, link := range c.Chain() {
		link.watch = f
	}
}

// read passes a number of bytes to the watch function.
func (c *Checkpoint) read(bytes int) {
	if c.watch != nil {
		c.watch(bytes)
	}
}

// checked computes the checksum of the bytes read through it. It ends after left bytes; an
// earlier end is an error.
type checked struct {
	r    io.Reader
	hash *xxh3.Hasher
	left int64
	read func(bytes int)
}

func (c *checked) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(p)
	c.hash.Write(p[:n]) // never fails
	c.read(n)
	c.left -= int64(n)
	if err == io.EOF {
		err = nil
		if n == 0 {
			err = fmt.Errorf("the file has become shorter by at least %d bytes: %w", c.left, io.ErrUnexpectedEOF)
		}
	}
	return n, err
}

func (c *checked) sum(s section) error {
	if got := Sum(c.hash.Sum64()); got != s.sum {
		return fmt.Errorf("checksum of the payload is %v, the directory has %v: damaged: use an earlier checkpoint", got, s.sum)
	}
	return nil
}

func unread(n, length int64) error {
	return fmt.Errorf("its reader left the last %d of %d bytes unread", n, length)
}

// heldMemory holds the memory of payloads between reads.
var heldMemory = sync.Pool{New: func() any { return new([]byte) }}

// readHeld reads and checks the payload, then calls read.
func readHeld(in *checked, s section, read func(io.Reader) error) error {
	b := heldMemory.Get().(*[]byte)
	defer heldMemory.Put(b)
	if int64(cap(*b)) < s.length {
		*b = make([]byte, s.length)
	}
	if _, err := io.ReadFull(in, (*b)[:s.length]); err != nil {
		return err
	}
	if err := in.sum(s); err != nil {
		return err
	}
	r := bytes.NewReader((*b)[:s.length])
	if err := read(r); err != nil {
		return err
	}
	if r.Len() != 0 {
		return unread(int64(r.Len()), s.length)
	}
	return nil
}

// readStreamed calls read with the stream and checks the checksum at the end.
func readStreamed(in *checked, s section, read func(io.Reader) error) error {
	r := bufio.NewReaderSize(in, chunk)
	rerr := read(r)
	left := in.left + int64(r.Buffered())
	// A reader that fails or stops early may have found damage. To report that as the cause,
	// read the rest for its checksum.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return errors.Join(rerr, err)
	}
	if err := in.sum(s); err != nil {
		if rerr != nil {
			return fmt.Errorf("%w; its reader reported: %w", err, rerr)
		}
		return err
	}
	if rerr != nil {
		return rerr
	}
	if left != 0 {
		return unread(left, s.length)
	}
	return nil
}

// Verify opens c again and reads every payload of c and of its bases. It returns all faults,
// or the error of ctx.
func (c *Checkpoint) Verify(ctx context.Context) error {
	now, err := Open(c.dir)
	if err != nil {
		return err
	}
	var faults []error
	for _, link := range now.Chain() {
		link.watch = c.watch
		err := errors.Join(link.complete(), link.VerifyOwn(ctx))
		if err != nil && link != now {
			err = fmt.Errorf("%s builds upon it: %w", now.dir, err)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// VerifyOwn is like Verify, but does not include the bases and parts that this host lacks. If
// parts are given, it reads only these.
func (c *Checkpoint) VerifyOwn(ctx context.Context, part ...int) error {
	now, err := openLink(c.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: verify: %w", err)
	}
	var faults []error
	buf := make([]byte, chunk)
	for p, sections := range now.parts {
		if len(part) > 0 && !slices.Contains(part, p) {
			continue
		}
		path := filepath.Join(c.dir, now.manifest.Files[p].Name)
		if sections == nil {
			if _, err := readPart(path, now.manifest.Files[p], now.head(p)); !errors.Is(err, os.ErrNotExist) {
				faults = append(faults, fmt.Errorf("checkpoint: verify: %s: %w", path, err))
			}
			continue
		}
		f, err := regular.Open(path)
		if err != nil {
			faults = append(faults, fmt.Errorf("checkpoint: verify: %w", err))
			continue
		}
		for _, s := range sections {
			if ctx.Err() != nil {
				break
			}
			if err := verifySection(ctx, f, s, buf, c.read); err != nil {
				faults = append(faults, fmt.Errorf("checkpoint: verify: %s: section %q (%d bytes at offset %d): %w", path, s.name, s.length, s.offset, err))
			}
		}
		f.Close() // opened to read: nothing can be lost
	}
	if err := ctx.Err(); err != nil {
		faults = append(faults, fmt.Errorf("checkpoint: verify: %s: stopped before the end: %w", c.dir, err))
	}
	return errors.Join(faults...)
}

func verifySection(ctx context.Context, f io.ReaderAt, s section, buf []byte, read func(bytes int)) error {
	in := &checked{r: io.NewSectionReader(f, s.offset, s.length), hash: xxh3.New(), left: s.length, read: read}
	for in.left > 0 {
		if ctx.Err() != nil {
			return nil // Verify reports it once
		}
		if _, err := in.Read(buf); err != nil {
			return err
		}
	}
	return in.sum(s)
}

// Latest opens the newest checkpoint below root that opens and that every accept function
// accepts; such a function can call Verify. rejected holds an error for each newer
// checkpoint.
//
// If there are no checkpoints, the error is fs.ErrNotExist. If there are some and none is
// good, it is another error, since restarting from the beginning would lose work.
func Latest(root string, accept ...func(*Checkpoint) error) (c *Checkpoint, rejected []error, err error) {
	found, err := List(root)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range found {
		c, err := openAccepted(f.Dir, accept)
		if err == nil {
			return c, rejected, nil
		}
		rejected = append(rejected, err)
	}
	if len(rejected) == 0 {
		return nil, nil, fmt.Errorf("checkpoint: latest: %s %w", root, notThere("holds no checkpoint"))
	}
	return nil, rejected, fmt.Errorf("checkpoint: latest: %s: none of %d checkpoints is usable (move them away to start afresh): newest: %v",
		root, len(rejected), rejected[0])
}

// Resolve opens the checkpoint that a user names by path. For a run directory or a checkpoint
// root it opens the latest one (see Latest); for a single checkpoint, that one only.
func Resolve(path string, accept ...func(*Checkpoint) error) (c *Checkpoint, rejected []error, err error) {
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = absent(path)
		}
		return nil, nil, fmt.Errorf("checkpoint: %s: %w", path, withoutPath(path, err))
	}
	if !info.IsDir() {
		return nil, nil, fmt.Errorf("checkpoint: %s is %w", path, notThere("a file, neither a run directory nor a checkpoint"))
	}
	if IsCheckpoint(path) {
		c, err := openAccepted(path, accept)
		if err != nil {
			return nil, nil, fmt.Errorf("%w (give the directory above it to use the newest undamaged one)", err)
		}
		return c, nil, nil
	}
	if sub := filepath.Join(path, Folder); exists(sub) {
		return Latest(sub, accept...)
	}
	found, err := List(path)
	if err != nil {
		return nil, nil, err
	}
	if len(found) == 0 {
		return nil, nil, fmt.Errorf("checkpoint: %s is %w", path,
			notThere(fmt.Sprintf("neither a run directory (it has no %s) nor a checkpoint (no %s), and contains none (no step-…)", Folder, manifestName)))
	}
	return Latest(path, accept...)
}

func openAccepted(dir string, accept []func(*Checkpoint) error) (*Checkpoint, error) {
	c, err := Open(dir)
	if err != nil {
		return nil, err
	}
	for _, ok := range accept {
		if err := ok(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}
