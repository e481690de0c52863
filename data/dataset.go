package data

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"
)

// Dataset is a list of files, cut into blocks, with the names of their fields.
// Open it on every rank; then Scan, merge the counts, and Use them.
type Dataset struct {
	src    Source
	schema Schema // filled
	format format
	fields []string // nil: any name may come
	late   []string // of them, those that no record has that was read so far
	absent []string // fields that no record has, where any name may come
	stream bool     // some file can only be read onwards
	files  []file
	blocks []block
	digest uint64
	hold   holdOut
	totals
	marks  *marks            // nil: none are kept
	chosen [3]func() []int32 // rows of each block that a Select chooses
}

// totals are what is known of the blocks once they have been counted.
type totals struct {
	lines, records    []int32 // of each block
	flawed            []int32 // records of each block that were left out
	lineBase, rowBase []int64 // lines of the file, records of the dataset, before each block
	rows, positives   int64
	bad               int64 // records left out, and the first of them
	faults            []Fault
	content           uint64 // digest of all lines
}

// Open finds the files that patterns name: paths, globs, folders and
// builtin:NAME. The settings of src apply to all of them, except its lists of
// files, and every file has the same fields. All faults of source and schema
// are reported at once.
func Open(src Source, s Schema, patterns []string) (*Dataset, error) {
	if err := joined("data: source", src.Validate()); err != nil {
		return nil, err
	}
	files, err := resolve(patterns)
	if err != nil {
		return nil, err
	}
	d := &Dataset{src: src, schema: s.Fill(), files: files, marks: new(marks)}
	if d.format, err = formatFor(src, files); err != nil {
		return nil, err
	}
	for i := range d.files {
		if err := d.look(i); err != nil {
			return nil, err
		}
		if log := d.files[i].log; log != nil && (i == 0 || log != d.files[i-1].log) { // its connections serve all looks
			if err := log.Open(); err != nil {
				return nil, fmt.Errorf("data: open: %w", err)
			}
			defer log.Close()
		}
	}
	if err := d.uncut(); err != nil {
		return nil, err
	}
	if n := countBlocks(d.files); n > mostBlocks {
		return nil, fmt.Errorf("data: open: %d blocks of data, at most %d (16 TiB) are possible", n, mostBlocks)
	}
	d.blocks = cut(d.files)
	first := d.fields
	d.findLate()
	d.fields = union(slices.Clip(d.fields), d.late)
	if err := joined("data: schema of "+d.files[0].name, s.Validate(d.fields)); err != nil {
		return nil, err
	}
	if _, err := newParser(src, d.fields, d.schema); err != nil {
		return nil, err
	}
	h := xxh3.New()
	for _, f := range d.files {
		fmt.Fprintf(h, "%q %d;", filepath.Base(f.name), f.bytes)
		d.stream = d.stream || f.packing != nil || f.groups != nil
	}
	fmt.Fprintf(h, "%q", first)
	d.digest = h.Sum64()
	return d, nil
}

// uncut is the one error of a header that another delimiter cuts into fields that the
// schema names, where each of them would be missing.
func (d *Dataset) uncut() error {
	if len(d.fields) != 1 || !d.src.Header {
		return nil
	}
	header, used := d.fields[0], string(newDelimited(d.src).delim)
	for _, c := range d.schema.columns() {
		for _, other := range delimiters {
			if c.name != header && slices.Contains(strings.Split(header, other), c.name) {
				return fmt.Errorf("data: open: %s: its header is one field, %q, for the delimiter is %q; this file's looks like %q: set data.delimiter",
					d.files[0].name, cutLong([]byte(header)), used, other)
			}
		}
	}
	return nil
}

// look reads the beginning of file i.
func (d *Dataset) look(i int) error {
	f := &d.files[i]
	if f.log == nil {
		if err := f.begin(d.src.formatName()); err != nil {
			return err
		}
	}
	src, err := f.open()
	if err != nil {
		return err
	}
	defer src.Close()
	names, err := d.format.look(f, src)
	if err != nil {
		return err
	}
	_, named := namingOf(d.format)
	switch {
	case named && d.src.Follow.On: // the next files may have more
	case i == 0:
		d.fields = names
	case named:
		d.fields = union(d.fields, names)
	case d.src.Header && !slices.Equal(names, d.fields):
		return fmt.Errorf("data: open: %s: its header differs from that of %s: %s, there: %s",
			f.name, d.files[0].name, strings.Join(names, ","), strings.Join(d.fields, ","))
	}
	return nil
}

// union is a, and behind it what b alone has.
func union(a, b []string) []string {
	known := make(map[string]bool, len(a)+len(b))
	for _, s := range a {
		known[s] = true
	}
	for _, s := range b {
		if !known[s] {
			known[s] = true
			a = append(a, s)
		}
	}
	return a
}

// Names returns the names of the files in their order.
func (d *Dataset) Names() []string {
	names := make([]string, len(d.files))
	for i, f := range d.files {
		names[i] = f.name
	}
	return names
}

// Bytes is the size of the files as they lie there.
func (d *Dataset) Bytes() (n int64) {
	for i := range d.files {
		n += d.files[i].bytes
	}
	return n
}

// HoldOut keeps a share of the records for validation; Fit does not see them.
// Which ones they are depends on seed and their place in the dataset alone. It
// must come before Scan, and be the same on every rank.
func (d *Dataset) HoldOut(fraction float64, seed uint64) error {
	if !(fraction >= 0 && fraction < 1) {
		return fmt.Errorf("data: hold out: the fraction is %v, it must be from 0 up to, not including, 1", fraction)
	}
	if d.rowBase != nil {
		return errors.New("data: hold out: the dataset is in use already")
	}
	d.hold = holdOut{seed, uint64(math.Ldexp(fraction, 64))}
	return nil
}

// Use tells the dataset how many records its blocks hold: the counts of all
// parts of a Scan, merged. It comes once, before the first Reader.
func (d *Dataset) Use(c *Counts) error {
	if c.dataset != d.digest {
		return fmt.Errorf("data: use: counts of another dataset (%016x, here %016x)", c.dataset, d.digest)
	}
	if len(c.spans) != 1 || c.spans[0].first != 0 || len(c.spans[0].lines) != len(d.blocks) {
		return fmt.Errorf("data: use: the counts do not cover all %d blocks; merge those of every part", len(d.blocks))
	}
	if err := c.tooBad(d.src.MaxBad); err != nil {
		return err
	}
	d.bad, d.faults = c.bad, c.faults
	t := totals{
		lines: c.spans[0].lines, records: c.spans[0].records, flawed: c.spans[0].flawed,
		positives: c.positives, content: c.content, bad: c.bad, faults: c.faults,
	}
	t.lineBase, t.rowBase = make([]int64, len(d.blocks)), make([]int64, len(d.blocks))
	lines := int64(0)
	for i, b := range d.blocks {
		if i == 0 || d.blocks[i-1].file != b.file {
			lines = 0
		}
		t.lineBase[i], t.rowBase[i] = lines, t.rows
		lines += int64(t.lines[i])
		t.rows += int64(t.records[i])
	}
	if t.rows == 0 && c.bad > 0 {
		return fmt.Errorf("data: %s: %w", strings.Join(d.some(), ", "), &allBad{c.bad, c.faults[0]})
	}
	if t.rows == 0 {
		return fmt.Errorf("data: %s: %w", strings.Join(d.some(), ", "), ErrNoRecords)
	}
	if err := d.Lacks(c); err != nil {
		return err
	}
	if len(d.late) == 0 {
		d.absent = slices.DeleteFunc(d.watched(), func(name string) bool { return slices.Contains(c.late, name) })
	}
	d.totals = t
	for s := range d.chosen {
		d.chosen[s] = sync.OnceValue(func() []int32 { return d.choose(Select(s)) })
	}
	return nil
}

// ErrNoRecords means that files hold nothing to train on.
var ErrNoRecords = errors.New("there are no records: every line is blank, a comment or a header")

// allBad is ErrNoRecords where all that there are were left out.
type allBad struct {
	n     int64
	first Fault
}

func (e *allBad) Error() string {
	return fmt.Sprintf("there are no records beside %d that cannot be used, the first: %s: %s", e.n, e.first.Place(), e.first.Reason())
}

func (e *allBad) Is(target error) bool { return target == ErrNoRecords }

// some names the files, or the first of many.
func (d *Dataset) some() []string {
	const few = 3
	names := d.Names()
	if len(names) > few {
		names = append(names[:few], fmt.Sprintf("and %d more", len(names)-few))
	}
	return names
}

// Select says which records a Reader reads.
type Select int

const (
	Train Select = iota // those that HoldOut has not kept
	Valid               // those that it has
	All
)

// choose counts the selected records of each block, without reading them.
func (d *Dataset) choose(sel Select) []int32 {
	if sel == All || d.hold.limit == 0 && sel == Train {
		return d.records
	}
	rows := make([]int32, len(d.blocks))
	for b, n := range d.records {
		for r := range n {
			if d.selects(sel, b, r) {
				rows[b]++
			}
		}
	}
	return rows
}

// selects tells whether sel takes row r of block b.
func (d *Dataset) selects(sel Select, b int, r int32) bool {
	return sel == All || d.hold.holds(b, r) == (sel == Valid)
}

// Rows is the number of records that sel takes; 0 before Use.
func (d *Dataset) Rows(sel Select) (n int64) {
	if d.rowBase == nil || sel < Train || sel > All {
		return 0
	}
	for _, r := range d.chosen[sel]() {
		n += int64(r)
	}
	return n
}

// Positives is the number of records whose label is 1; 0 before Use.
func (d *Dataset) Positives() int64 { return d.positives }

// Bad is how many records cannot be used and are left out, no more than
// Source.MaxBad; first are some of them. 0 before Use.
func (d *Dataset) Bad() (n int64, first []Fault) { return d.bad, d.faults }

// Fingerprint identifies the data by names and sizes of files and, after Use,
// by what every line says. A position in an epoch is of use only for data of
// the same fingerprint.
func (d *Dataset) Fingerprint() string {
	h := xxh3.New()
	fmt.Fprintf(h, "%016x %016x", d.digest, d.content)
	for i := range d.records {
		fmt.Fprintf(h, " %d", d.records[i])
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// holdOut chooses records for validation.
type holdOut struct {
	seed  uint64
	limit uint64 // share · 2^64
}

// holds tells whether row r of block b is kept for validation. The place is
// known wherever the block is read, so no rank needs to know what comes before.
func (h holdOut) holds(b int, r int32) bool {
	return h.limit > 0 && mixed(h.seed, uint64(b), uint64(r)) < h.limit
}
