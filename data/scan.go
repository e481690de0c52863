package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/zeebo/xxh3"
)

// Scan reads part number part, tally from 0, of parts: a run of blocks that
// every rank computes alike. Every record is checked fully. If more than
// Source.MaxBad are faulty the error is a *Fault, the first of the part in the
// order of the files; otherwise they are left out. fit,
// which may be nil, takes in the records that are not held out. progress, which
// may be nil, is told how many bytes of the part are done.
func (d *Dataset) Scan(ctx context.Context, part, parts int, fit *Fit, progress func(bytes int64)) (*Counts, error) {
	if parts < 1 || part < 0 || part >= parts {
		return nil, fmt.Errorf("data: scan: there is no part %d of %d", part, parts)
	}
	n := int64(len(d.blocks))
	first, end := int(n*int64(part)/int64(parts)), int(n*int64(part+1)/int64(parts))
	s, err := d.newScanner(d.schema)
	if err != nil {
		return nil, err
	}
	s.fit = fit
	defer s.close()
	c := &Counts{dataset: d.digest}
	if first == end {
		return c, nil
	}
	sp := span32{first: int32(first)}
	done := int64(0)
	for b := first; b < end; b++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("data: scan: %w", err)
		}
		n, err := s.block(ctx, b)
		if err != nil {
			return nil, err
		}
		c.content += mixed(n.digest, uint64(b))
		sp.lines, sp.records, sp.flawed = append(sp.lines, n.units), append(sp.records, n.records), append(sp.flawed, n.flawed)
		c.bad += int64(n.flawed)
		if done += d.blockBytes(b); progress != nil {
			progress(done)
		}
	}
	c.spans, c.positives, c.faults, c.late = []span32{sp}, s.positives, s.faults, s.watch.came(s.parser)
	if err := c.tooBad(d.src.MaxBad); err != nil {
		return nil, err
	}
	return c, nil
}

// blockBytes is how many bytes of its file a block is.
func (d *Dataset) blockBytes(b int) int64 {
	bl := d.blocks[b]
	switch f := &d.files[bl.file]; {
	case f.packing != nil:
		return f.bytes
	case f.groups != nil:
		return f.bytes / int64(len(f.groups))
	}
	return bl.hi - bl.lo
}

// scanner reads and checks the records of blocks.
type scanner struct {
	*input
	*rowCoder
	watch     watch
	fit       *Fit
	positives int64
	faults    []Fault // the first
}

// newScanner parses by a filled schema.
func (d *Dataset) newScanner(s Schema) (*scanner, error) {
	c, err := d.newRowCoder(s, nil)
	if err != nil {
		return nil, err
	}
	return &scanner{input: d.newInput(c.parser.names()), rowCoder: c, watch: d.newWatch(c.parser)}, nil
}

// input reads records of a dataset. It has one file open at a time.
type input struct {
	*Dataset
	reader records
	opened int // file that src is, if src is not nil
	src    source
}

// newInput reads records with the fields of these names.
func (d *Dataset) newInput(names []string) *input {
	return &input{Dataset: d, reader: d.format.records(names)}
}

func (in *input) close() {
	if c, ok := in.reader.(io.Closer); ok {
		c.Close()
	}
	if in.src != nil {
		in.src.Close()
		in.src = nil
	}
}

// use opens a file unless it is open.
func (in *input) use(i int) error {
	if in.src != nil && in.opened == i {
		return in.files[i].unchanged(in.src)
	}
	src, err := in.files[i].open() // before the last is closed: partitions of a topic share connections
	in.close()
	in.opened, in.src = i, src
	return err
}

// tally is what one block holds.
type tally struct {
	units, records, flawed int32
	digest                 uint64 // tells records of other text or order apart
}

// unitsAtOnce is how many units are read between two looks at the context.
const unitsAtOnce = 1 << 14

// block checks the records that begin in block b.
func (s *scanner) block(ctx context.Context, b int) (n tally, err error) {
	bl := s.blocks[b]
	f := &s.files[bl.file]
	if err := s.use(int(bl.file)); err != nil {
		return n, err
	}
	var u unit
	m, marked := blockMarks{}, s.hasMarks(b)
	for err = s.reader.begin(s.src, f, bl, -1, 0); err == nil; {
		if u, err = s.reader.next(); err != nil {
			break
		}
		fl := u.flaw
		if fl == nil {
			n.digest = mix(n.digest + increment ^ xxh3.Hash(u.record))
			fl = s.check(u.record)
		}
		if fl != nil {
			n.flawed++
			if err := s.note(f, b, fl, u); err != nil {
				return n, err
			}
			continue
		}
		if err := s.take(b, n.records); err != nil {
			return n, err
		}
		if marked {
			m.pass(bl, u, n.records)
		}
		if n.records++; n.records%unitsAtOnce == 0 && ctx.Err() != nil {
			return n, fmt.Errorf("data: scan: %w", ctx.Err())
		}
		if u.number == math.MaxInt32-1 {
			return n, fmt.Errorf("data: scan: %s: a packed file of more than 2^31 lines; split it", f.name)
		}
	}
	if n.units = u.number; err == io.EOF {
		if marked {
			s.keepMarks(b, &m)
		}
		return n, nil
	}
	return n, s.broken(f, u, err)
}

// broken is the error of a file that cannot be read on.
func (s *scanner) broken(f *file, u unit, err error) error {
	if errors.Is(err, errShrunk) {
		err = ErrChanged
	}
	if len(s.faults) > 0 && s.Dataset.src.MaxBad == 0 {
		return &s.faults[0] // it comes first in the file
	}
	if !errors.Is(err, errLongLine) {
		return fmt.Errorf("data: scan: %s: offset %d: %w", f.name, u.offset, err)
	}
	at, e := s.format.place(f, u.offset)
	if e != nil {
		return e
	}
	at.Want = err.Error()
	return &at
}

// take counts the record in the parser, the r-th good one of block b.
func (s *scanner) take(b int, r int32) error {
	if s.parser.one {
		s.positives++
	}
	s.watch.record(s.parser)
	if s.fit != nil && !s.hold.holds(b, r) {
		return s.fit.add(s.parser)
	}
	return nil
}

// note keeps the first faults.
func (s *scanner) note(f *file, b int, fl *flaw, u unit) error {
	if len(s.faults) == mostFaults {
		return nil
	}
	at, err := s.format.place(f, u.offset)
	if err != nil {
		return err
	}
	at.Column, at.Value, at.Want, at.block = fl.column, fl.value, fl.want, int32(b)
	if fl.width && (at.Line == 1 || isMarked(u.record)) {
		at.Want += "; if this line is no record, set data.comment or data.header"
	}
	if fl.column == "" && fl.field >= 0 {
		if at.Column = fmt.Sprint(fl.field + 1); fl.field < len(s.fields) {
			at.Column = s.fields[fl.field]
		}
	}
	s.faults = append(s.faults, at)
	return nil
}
