package record

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Sample is a limited number of records of some files; fewer if they are long.
type Sample struct {
	Files []File // at most sampledFiles
	Rows  int
	Part  bool // not all records were read
}

const (
	sampledFiles = 16      // maximum number of files
	spreads      = 16      // places per file, besides the beginning of the first, at which records are read
	compact      = 4       // blocks of a file up to which its records are not spread
	placeBytes   = 4 << 20 // maximum bytes at one place, or
	recordBytes  = 1 << 10 // this per requested record

	// SearchedBytes is the number of bytes of all files that are searched for line breaks in
	// quotes, and over which a sample of files with line breaks is spread.
	SearchedBytes = 64 << 20
)

// NewSample returns a sample of the first file, the last one and others at equal
// distances.
func NewSample(files []File, rows int) *Sample {
	s := &Sample{Files: files, Rows: rows}
	s.Files = apart(files, sampledFiles)
	s.Part = len(s.Files) < len(files)
	return s
}

// FirstUnits calls each with the readable records among the first rows.
func FirstUnits(form Format, names []string, f *File, s Content, rows int, each func(record []byte) error) error {
	return allUnits(form, names, f, s, rows, func(u Unit) error {
		if u.Flaw != nil {
			return nil
		}
		return each(u.Record)
	})
}

// allUnits calls each with the first rows records.
func allUnits(form Format, names []string, f *File, s Content, rows int, each func(Unit) error) error {
	r := form.Records(names)
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	_, _, err := someUnits(r, s, f, cut([]File{*f}), rows, each)
	return err
}

// someUnits calls each with the first rows records of blocks of a file, or fewer if they
// are long. whole reports that there are no more.
func someUnits(r Records, s Content, f *File, blocks []Block, rows int, each func(Unit) error) (n int, whole bool, err error) {
	bytes := max(placeBytes, recordBytes*int64(rows))
	for _, b := range blocks {
		if n == rows {
			return n, false, nil
		}
		if err := r.Begin(s, f, b, -1, 0); err != nil {
			return n, false, err
		}
		for {
			u, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || n == rows || u.Offset-blocks[0].Lo > bytes {
				return n, false, err
			}
			n++
			if err := each(u); err != nil {
				return n, false, err
			}
		}
	}
	return n, true, nil
}

// Units calls each with the records of the sample, and the index of their file.
func (s *Sample) Units(r Records, each func(file int, u Unit) error) error {
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	return s.read(func(file int, src Content, blocks []Block, rows int) (n int, whole bool, err error) {
		f, take := &s.Files[file], func(u Unit) error { return each(file, u) }
		if f.onwards && f.Packing == nil {
			return sampleUnits(r, src, f, blocks[0], rows, SearchedBytes/int64(len(s.Files)), take)
		}
		return someUnits(r, src, f, blocks, rows, take)
	})
}

// sampleUnits is someUnits for a file that can only be read from its beginning, most bytes
// of it: half of the records are its first ones, the others are from spreads places.
func sampleUnits(r Records, s Content, f *File, b Block, rows int, most int64, each func(Unit) error) (n int, whole bool, err error) {
	if err := r.Begin(s, f, b, -1, 0); err != nil {
		return 0, false, err
	}
	end, skipped := b.Lo+min(b.Hi-b.Lo, most), false
	from, place, left := b.Lo, 0, (rows+1)/2 // of the records of a place: where they begin, and how many are to be read
	for {
		u, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n, !skipped, nil
		}
		if err != nil || n == rows || u.Offset >= end {
			return n, false, err
		}
		for left == 0 && place < spreads {
			if place == 0 {
				first := u.Offset
				if 4*(end-first)*int64(n) <= 5*(first-b.Lo)*int64(rows-n) {
					left, place = rows-n, spreads // the rest of the file hardly has more
					break
				}
				b.Lo = first
			}
			from = b.Lo + (end-b.Lo)*int64(place)/spreads
			left = (rows - n + spreads - place - 1) / (spreads - place)
			place++
		}
		if u.Offset < from || left == 0 {
			skipped = true
			continue
		}
		n, left = n+1, left-1
		if err := each(u); err != nil {
			return n, false, err
		}
	}
}

// read calls some for each place of the sample, with blocks of one file and the maximum
// number of records to read.
func (s *Sample) read(some func(file int, src Content, blocks []Block, rows int) (n int, whole bool, err error)) error {
	files := make([][]Block, len(s.Files))
	all := cut(s.Files)
	for _, b := range all {
		files[b.File] = append(files[b.File], b)
	}
	var src Content
	opened, seen := -1, 0
	defer func() {
		if src != nil {
			src.Close()
		}
		s.Part = s.Part || seen < len(all)
	}()
	return sampleFiles(files, s.Rows, func(blocks []Block, rows int) (int, error) {
		file := int(blocks[0].File)
		if file != opened {
			if src != nil {
				src.Close()
			}
			var err error
			if src, err = s.Files[file].Open(); err != nil {
				src = nil
				return 0, err
			}
			opened = file
		}
		n, whole, err := some(file, src, blocks, rows)
		if err != nil {
			return n, fmt.Errorf("%s: %w", s.Files[file].Name, err)
		}
		if whole {
			seen += len(blocks)
		}
		return n, nil
	})
}

// readBlocks reads at most rows records of blocks, and returns how many.
type readBlocks func(blocks []Block, rows int) (n int, err error)

// sampleFiles reads rows records of the blocks of files. About half are from the beginning of
// the first file, or all if there are hardly more. The others are from spreads places of
// the rest of it and of each other file.
func sampleFiles(files [][]Block, rows int, read readBlocks) error {
	if len(files) == 1 && len(files[0]) <= compact {
		if len(files[0]) == 0 {
			return nil
		}
		_, err := read(files[0], rows)
		return err
	}
	n, half, first := 0, (rows+1)/2, files[0]
	bytes := max(placeBytes, recordBytes*int64(half))
	for ; len(first) > 0 && n < half && bytes > 0; first = first[1:] { // whole blocks; if all fit, nothing is missing
		some, err := read(first[:1], max(half-n, rows/compact))
		if err != nil {
			return err
		}
		n, bytes = n+some, bytes-(first[0].Hi-first[0].Lo)
	}
	rest := append([][]Block{first}, files[1:]...)
	if len(first) == 0 {
		rest, files = rest[1:], files[1:]
	}
	for i, blocks := range rest {
		share, places := (rows-n+len(rest)-i-1)/(len(rest)-i), max(spreads/len(rest), 1)
		if len(blocks) <= max(compact, len(files[i])-len(blocks)) {
			places = 1 // all of the file, if it has hardly more records
		}
		some, err := samplePlaces(blocks, share, places, float64(i)/float64(len(rest)), read)
		if err != nil {
			return err
		}
		n += some
	}
	return nil
}

// samplePlaces reads rows records of one file, from the given number of places. shift is the
// relative position within each part, so that similar files are read at different places.
func samplePlaces(blocks []Block, rows, places int, shift float64, read readBlocks) (n int, err error) {
	if len(blocks) <= compact {
		shift = 0
	}
	for places = min(places, len(blocks)); places > 0 && n < rows; places-- {
		part := blocks[:(len(blocks)+places-1)/places]
		some, err := read(part[int(shift*float64(len(part))):], (rows-n+places-1)/places)
		if err != nil {
			return n, err
		}
		n, blocks = n+some, blocks[len(part):]
	}
	return n, nil
}

// DefaultLook is the default number of records of a sample.
const DefaultLook = 10000

// FirstFlaw returns place and reason of the first unreadable record; "" if there is none.
func FirstFlaw(form Format, f *File, s Content) (why string) {
	_ = allUnits(form, nil, f, s, lookRecords, func(u Unit) error {
		if why != "" || u.Flaw == nil {
			return nil
		}
		at, err := form.Place(f, u.Offset)
		at.Want = u.Flaw.Want
		why = " " + at.Place() + ": " + at.Reason()
		return err
	})
	return why
}

// SomeNames returns the union of the names of fields in the records of a sample.
func SomeNames(of Format, s *Sample) (names []string, err error) {
	g := gatherNames(of)
	err = s.Units(of.Records(nil), func(_ int, u Unit) error { return g.unit(u) })
	return g.all(), err
}

// firstNames returns the union of the names of fields in the first records of a file. of
// is a format returned by NewFormat or formatFor.
func firstNames(of Format, f *File, s Content) (names []string, err error) {
	n := 0
	g := gatherNames(of)
	err = allUnits(of, nil, f, s, lookRecords, func(u Unit) error {
		n++
		return g.unit(u)
	})
	if f.allRead = n < lookRecords; n == 0 && err == nil {
		err = ErrNoLine
	}
	return g.all(), err
}

// namesGathered collects names of fields, in order of occurrence.
type namesGathered struct {
	naming
	valued map[string]bool // by name
	names  []string
}

func (g *namesGathered) unit(u Unit) error {
	if u.Flaw != nil {
		return nil
	}
	g.naming.names(u.Record, func(name []byte, valued bool) {
		before, known := g.valued[string(name)]
		if !known {
			g.names = append(g.names, string(name))
		}
		if !known || valued && !before {
			g.valued[string(name)] = valued
		}
	})
	return nil
}

// withoutGroups removes names that have no value in any record and whose members are fields.
func (g *namesGathered) withoutGroups() {
	groups := map[string]bool{}
	for _, name := range g.names {
		for k := range name {
			if name[k] == '.' {
				if valued, known := g.valued[name[:k]]; known && !valued {
					groups[name[:k]] = true
				}
			}
		}
	}
	g.names = slices.DeleteFunc(g.names, func(name string) bool { return groups[name] })
}

func (g *namesGathered) all() []string {
	g.withoutGroups()
	if _, ok := g.naming.(exampleFormat); ok {
		slices.Sort(g.names) // they come from a map and have no order
	}
	return g.names
}

func gatherNames(of Format) *namesGathered {
	form, _ := namingOf(of)
	return &namesGathered{naming: form, valued: map[string]bool{}}
}

// lookRecords is the number of records of a file that are read for the names of its
// fields.
const lookRecords = 1000
