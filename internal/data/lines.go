package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// Lines iterates over the records of a dataset in file order, including unusable ones, and
// copies fields of them. Blocks of which only the number of records is needed are not
// read. It belongs to one goroutine.
type Lines struct {
	*Dataset
	copied  *record.Input // nil: no field is copied
	decoder record.Decoder
	lists   []value.List
	checked *record.Input // checks blocks with unusable records; nil: there are none
	checker *encode.RowCoder

	block int   // the current one; −1 before the first
	left  int32 // records left in a block that is not read
	read  int64 // records so far
}

// HasFields returns an error if records cannot have one of these fields.
func (d *Dataset) HasFields(names []string) error {
	for _, name := range names {
		if !slices.Contains(d.set.Fields, name) {
			return fmt.Errorf("%s: there is no field %q%s", d.set.Files[0].Name, name, nearest.Instead(name, d.set.Fields))
		}
	}
	return d.set.Unreadable(names)
}

// Lines returns an iterator before the first record. Call Use first.
func (d *Dataset) Lines(fields []string) (l *Lines, err error) {
	if err := d.HasFields(fields); err != nil {
		return nil, err
	}
	l = &Lines{Dataset: d, block: -1}
	if len(fields) > 0 {
		l.copied, l.lists = d.set.NewInput(fields), make([]value.List, len(fields))
		if l.decoder, err = d.set.Format.Decoder(d.set.Fields, fields); err != nil {
			return nil, err
		}
	}
	if d.bad+d.excluded > 0 {
		if l.checker, err = encode.NewChecker(d.set.Source, d.set.Fields, d.schema); err != nil {
			return nil, err
		}
		l.checked = d.set.NewInput(l.checker.FieldsRead())
	}
	return l, nil
}

// Next advances to the next record. usable reports whether a Reader would read it. lists
// are its copied fields, valid until the next call and empty if they cannot be read. The
// error is io.EOF after the last record.
func (l *Lines) Next(ctx context.Context) (usable bool, lists []value.List, err error) {
	for {
		usable, err := l.next()
		if err == nil {
			if l.read++; l.read%recordsAtOnce == 0 && ctx.Err() != nil {
				return false, nil, context.Cause(ctx)
			}
			return usable, l.lists, nil
		}
		if err != io.EOF {
			return false, nil, l.broken(err)
		}
		if l.block+1 == len(l.set.Blocks) {
			return false, nil, io.EOF
		}
		l.block++
		if err := l.begin(); err != nil {
			return false, nil, l.broken(err)
		}
	}
}

// broken returns the error for a file that cannot be read further.
func (l *Lines) broken(err error) error {
	for _, in := range []*record.Input{l.copied, l.checked} {
		if in == nil {
			continue
		}
		if e := in.Unchanged(); e != nil {
			return e
		}
	}
	if errors.Is(err, record.ErrShrunk) || errors.Is(err, record.ErrLongLine) {
		err = record.ErrChanged // the scan has read it
	}
	return fmt.Errorf("%s: %w", l.set.Files[l.set.Blocks[l.block].File].Name, err)
}

// checks reports whether records of the current block must be checked.
func (l *Lines) checks() bool { return l.block >= 0 && l.flawed[l.block] > 0 }

// begin positions l before the first record of the current block.
func (l *Lines) begin() error {
	l.left = 0
	if l.copied == nil && !l.checks() {
		l.left = l.records[l.block]
		return nil
	}
	bl := l.set.Blocks[l.block]
	for _, in := range []*record.Input{l.copied, l.checked} {
		if in == nil || in == l.checked && !l.checks() {
			continue
		}
		if err := in.OpenFile(int(bl.File)); err != nil {
			return err
		}
		if err := in.Reader.Begin(in.Content, &l.set.Files[bl.File], bl, -1, 0); err != nil {
			return err
		}
	}
	return nil
}

// next advances to the next record of the current block; io.EOF if there is none.
func (l *Lines) next() (usable bool, err error) {
	if l.block < 0 {
		return false, io.EOF
	}
	if l.copied == nil && !l.checks() {
		if l.left == 0 {
			return false, io.EOF
		}
		l.left--
		return true, nil
	}
	usable = true
	if l.checks() {
		u, err := l.checked.Reader.Next()
		if err != nil {
			return false, err
		}
		usable = u.Flaw == nil && l.checker.Check(u.Record) == nil
	}
	if l.copied == nil {
		return usable, nil
	}
	u, err := l.copied.Reader.Next()
	if err != nil {
		return false, err
	}
	if u.Flaw != nil || l.decoder.Decode(u.Record, l.lists) != nil {
		for i := range l.lists {
			l.lists[i].Reset()
		}
	}
	return usable, nil
}

// Close closes the files.
func (l *Lines) Close() {
	for _, in := range []*record.Input{l.copied, l.checked} {
		if in != nil {
			in.Close()
		}
	}
}
