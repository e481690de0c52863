package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"
)

// Scan reads part number part, counted from 0, of parts: a run of blocks that
// every rank computes alike. Every record is checked fully. If any is faulty
// the error is a *Fault, the first of the part in the order of the files. fit,
// which may be nil, takes in the records that are not held out. progress, which
// may be nil, is told how many bytes of the part are done.
func (d *Dataset) Scan(ctx context.Context, part, parts int, fit *Fit, progress func(bytes int64)) (*Counts, error) {
	if parts < 1 || part < 0 || part >= parts {
		return nil, fmt.Errorf("data: scan: there is no part %d of %d", part, parts)
	}
	n := int64(len(d.blocks))
	first, end := int(n*int64(part)/int64(parts)), int(n*int64(part+1)/int64(parts))
	s := &scanner{Dataset: d, fit: fit, parser: newParser(d.src, d.fields, d.schema)}
	s.coder = newCoder(d.schema, nil, s.parser)
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
		lines, records, digest, err := s.block(b)
		if err != nil {
			return nil, err
		}
		c.content += mixed(digest, uint64(b))
		sp.lines, sp.records = append(sp.lines, lines), append(sp.records, records)
		if done += d.blocks[b].hi - d.blocks[b].lo; progress != nil {
			progress(done)
		}
	}
	if s.fault != nil {
		return nil, s.fault
	}
	c.spans, c.positives = []span32{sp}, s.positives
	return c, nil
}

// scanner is the state of one Scan.
type scanner struct {
	*Dataset
	fit       *Fit
	parser    *parser
	coder     *coder
	lines     lines
	opened    int // file that src is, if src is not nil
	src       source
	positives int64
	fault     *Fault
}

func (s *scanner) close() {
	if s.src != nil {
		s.src.Close()
		s.src = nil
	}
}

// use opens a file unless it is open.
func (s *scanner) use(i int) (err error) {
	if s.src != nil && s.opened == i {
		return s.files[i].unchanged(s.src)
	}
	s.close()
	s.opened = i
	s.src, err = s.files[i].open()
	return err
}

// block checks the lines that begin in block b. digest tells lines of other text
// or order apart.
func (s *scanner) block(b int) (lines, records int32, digest uint64, err error) {
	bl := s.blocks[b]
	f := &s.files[bl.file]
	if err := s.use(int(bl.file)); err != nil {
		return 0, 0, 0, err
	}
	err = s.lines.begin(s.src, f, bl)
	for err == nil {
		var line []byte
		var at int64
		if line, at, err = s.lines.next(); err != nil {
			break
		}
		lines++
		digest = mix(digest + increment ^ xxh3.Hash(line))
		if at < f.body || !s.parser.format.isRecord(line) {
			continue
		}
		if err := s.record(b, records, line, at); err != nil {
			return 0, 0, 0, err
		}
		records++
	}
	if err == io.EOF {
		return lines, records, digest, nil
	}
	return 0, 0, 0, s.broken(f, err)
}

// broken is the error of a file that cannot be read on.
func (s *scanner) broken(f *file, err error) error {
	if errors.Is(err, errShrunk) {
		err = ErrChanged
	}
	if s.fault != nil {
		return s.fault // it comes first in the file
	}
	if !errors.Is(err, errLongLine) {
		return fmt.Errorf("data: scan: %s: offset %d: %w", f.name, s.lines.off, err)
	}
	n, e := lineNumber(s.src, s.lines.off)
	if e != nil {
		return fmt.Errorf("data: scan: %s: %w", f.name, e)
	}
	return &Fault{File: f.name, Line: n, Want: err.Error()}
}

// record checks a record and takes it in.
func (s *scanner) record(b int, r int32, line []byte, at int64) error {
	fl := s.parser.parse(line)
	if fl == nil {
		fl = s.coder.check()
	}
	if fl != nil {
		return s.note(b, fl, line, at)
	}
	if s.parser.one {
		s.positives++
	}
	if s.fit != nil && s.fault == nil && !s.hold.holds(b, r) {
		return s.fit.add(s.parser)
	}
	return nil
}

// note keeps the first fault and counts the others.
func (s *scanner) note(b int, fl *flaw, line []byte, at int64) error {
	if s.fault != nil {
		s.fault.More++
		return nil
	}
	f := &s.files[s.blocks[b].file]
	n, err := lineNumber(s.src, at)
	if err != nil {
		return fmt.Errorf("data: scan: %s: %w", f.name, err)
	}
	s.fault = &Fault{File: f.name, Line: n, Column: fl.column, Value: fl.value, Want: fl.want}
	if fl.width && (n == 1 || isMarked(line, s.parser.fields)) {
		s.fault.Want += "; if this line is no record, set data.comment or data.header"
	}
	if fl.column == "" && fl.field >= 0 {
		if s.fault.Column = fmt.Sprint(fl.field + 1); fl.field < len(s.fields) {
			s.fault.Column = s.fields[fl.field]
		}
	}
	return nil
}

// isMarked tells whether a line begins as comments do, not as a number, a quoted
// field or an empty one would.
func isMarked(line []byte, fields [][]byte) bool {
	return len(fields) > 0 && len(fields[0]) > 0 && bytes.IndexByte([]byte("#%|/!;*>=~@$&"), line[0]) >= 0
}

// lineNumber is the number of the line that begins at an offset, from 1. It
// reads the file up to there: only whoever found a fault pays for it.
func lineNumber(src source, offset int64) (int64, error) {
	buf, n := make([]byte, readBytes), int64(1)
	for at := int64(0); at < offset; {
		want := min(int64(len(buf)), offset-at)
		got, err := src.ReadAt(buf[:want], at)
		if err != nil && (err != io.EOF || int64(got) < want) {
			return 0, err
		}
		n += int64(bytes.Count(buf[:got], []byte{'\n'}))
		at += int64(got)
	}
	return n, nil
}
