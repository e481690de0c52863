package hosts

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/klauspost/compress/gzip"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// maxProgram bounds the size of a program that is sent.
const maxProgram = 1 << 30

// Image is an executable file that may be sent to hosts.
type Image struct {
	Path string
	Hash string // SHA-256 of what is sent, in hexadecimal digits

	own    bool // only the part that a system loads is sent
	once   sync.Once
	packed []byte
	err    error
}

// NewImage reads the file at path and computes its hash.
func NewImage(path string) (*Image, error) {
	hash, err := Hash(path)
	if err != nil {
		return nil, err
	}
	return &Image{Path: path, Hash: hash}, nil
}

// Hash returns the SHA-256 of the file at path.
func Hash(path string) (string, error) { return hash(path, false) }

// hash returns the SHA-256 of the file at path, or of the part of it that a system loads.
func hash(path string, own bool) (string, error) {
	h := sha256.New()
	n, err := copyProgram(h, path, own)
	if err != nil {
		return "", err
	}
	if n > maxProgram {
		return "", fmt.Errorf("hosts: hash: %s: more than %d bytes", path, maxProgram)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyProgram copies at most maxProgram+1 bytes of the program at path, or of the part of it that
// a system loads, to w.
func copyProgram(w io.Writer, path string, own bool) (int64, error) {
	f, err := regular.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	from := io.Reader(f)
	if own {
		from = loaded(f)
	}
	return io.Copy(w, io.LimitReader(from, maxProgram+1))
}

// Packed returns the file compressed by gzip. The first call compresses it.
func (i *Image) Packed() ([]byte, error) {
	i.once.Do(func() { i.packed, i.err = i.pack() })
	return i.packed, i.err
}

// packedPart is the size of the parts of a program that are compressed concurrently.
const packedPart = 4 << 20

// pack compresses parts of the file concurrently. Each becomes a member of the result: gzip
// files may be joined (RFC 1952, section 2.2).
func (i *Image) pack() ([]byte, error) {
	var program bytes.Buffer
	if info, err := os.Stat(i.Path); err == nil {
		program.Grow(int(min(info.Size(), maxProgram)) + bytes.MinRead)
	}
	if _, err := copyProgram(&program, i.Path, i.own); err != nil {
		return nil, err
	}
	var parts [][]byte
	for part := range slices.Chunk(program.Bytes(), packedPart) {
		parts = append(parts, part)
	}
	faults := make([]error, len(parts))
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for n, part := range parts {
		all.Go(func() {
			slots <- struct{}{}
			parts[n], faults[n] = packPart(part)
			<-slots
		})
	}
	sum := sha256.Sum256(program.Bytes())
	all.Wait()
	if got := hex.EncodeToString(sum[:]); got != i.Hash {
		return nil, fmt.Errorf("hosts: %s has changed while the job starts: start it again", i.Path)
	}
	return bytes.Join(parts, nil), errors.Join(faults...)
}

func packPart(part []byte) ([]byte, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(part)
	}
	if err == nil {
		err = z.Close()
	}
	return packed.Bytes(), err
}

// loader returns the path of the program that loads a dynamic executable, "" for other files.
func loader(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, _ := io.ReadAll(io.LimitReader(p.Open(), maxLoader))
			return string(bytes.TrimRight(name, "\x00"))
		}
	}
	return ""
}

// maxLoader bounds the path of a loader.
const maxLoader = 4 << 10

// CheckLoader returns an error if this host lacks the loader that the executable at path needs, or
// the interpreter that the script at path names.
func CheckLoader(path string) error {
	need, why := loader(path), "a C library that its machine lacks: %w; install that library, or link the program statically (Go: CGO_ENABLED=0)"
	if need == "" {
		need, why = interpreter(path), "the interpreter in its first line: %w; install that interpreter, or correct the line, which must not end in CR"
	}
	if need == "" {
		return nil
	}
	if _, err := os.Stat(need); err != nil {
		return fmt.Errorf("%s needs "+why, path, err)
	}
	return nil
}

// interpreter returns the path of the program that runs a script, "" for other files.
func interpreter(path string) string {
	f, err := regular.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, maxLoader))
	line, _, _ := strings.Cut(string(head), "\n")
	words, script := strings.CutPrefix(line, "#!")
	if !script {
		return ""
	}
	name, _, _ := strings.Cut(strings.Trim(words, " \t"), " ")
	return name
}

// Unpack writes a compressed program from r to path, and returns an error if its hash differs.
// The file appears complete or not at all.
func Unpack(r io.Reader, path, hash string) (err error) {
	tmp := openUnnamed(filepath.Dir(path))
	unnamed := tmp != nil
	if !unnamed {
		if tmp, err = os.CreateTemp(filepath.Dir(path), ".program-*"); err != nil {
			return err
		}
	}
	defer func() {
		tmp.Close()
		if err != nil && !unnamed {
			os.Remove(tmp.Name())
		}
	}()
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(tmp, h), io.LimitReader(z, maxProgram+1))
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); n > maxProgram || got != hash {
		return fmt.Errorf("hosts: unpack: the program arrived with SHA-256 %s, the launcher has %s", got, hash)
	}
	if err := tmp.Chmod(0o700); err != nil {
		return err
	}
	if unnamed {
		return linkUnnamed(tmp, path)
	}
	if err := closeProgram(tmp); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// closeProgram closes a program that was written. A file that is open for writing cannot be
// executed, and a child that this process forks has it open until it executes.
func closeProgram(f *os.File) error {
	err := f.Close()
	syscall.ForkLock.RLock() // waits for the forks in progress
	syscall.ForkLock.RUnlock()
	return err
}

// loaded returns a reader of the part of an ELF executable that a system loads: all segments, and a
// header without sections. It returns the whole file if that is another format, or has no
// sections, because other programs may read what follows the segments.
func loaded(f *os.File) io.Reader {
	const ( // of the header of a 64-bit ELF file
		size     = 64
		sections = 40 // offset of the section headers, 8 bytes
		counts   = 58 // size and number of section headers, index of their names, 2 bytes each
	)
	e, err := elf.NewFile(f)
	if err != nil || e.Class != elf.ELFCLASS64 || len(e.Sections) == 0 {
		return f
	}
	end := uint64(size)
	for _, p := range e.Progs {
		end = max(end, p.Off+p.Filesz)
	}
	var head [size]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || end > maxProgram {
		return f
	}
	clear(head[sections : sections+8])
	clear(head[counts:])
	return io.MultiReader(bytes.NewReader(head[:]), io.NewSectionReader(f, size, int64(end)-size))
}
