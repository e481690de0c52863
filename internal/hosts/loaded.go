package hosts

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
)

// OwnHash returns the SHA-256 of the part of the executable at path that a system loads.
func OwnHash(path string) (string, error) { return hash(path, true) }

// NewOwnImage is NewImage for this wdlrun, without its debug information and its symbol table.
// They are half of what is sent, and no program reads them: Go's stack traces do not need them.
func NewOwnImage(path string) (*Image, error) {
	h, err := OwnHash(path)
	if err != nil {
		return nil, err
	}
	return &Image{Path: path, Hash: h, own: true}, nil
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
