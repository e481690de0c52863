package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/data/value"
)

// Files are files of records without a schema: for those who show, count or
// convert them. They do not change and may be shared.
type Files struct {
	d *Dataset
}

// Walked is what a walk over files met.
type Walked struct {
	Records int64   // that could be read
	Bad     int64   // that could not
	Faults  []Fault // the first of them
}

// Source is how the file that was looked at can be read.
func (in *Inspection) Source() Source {
	s := Source{Format: in.Format}
	if !s.HasLayout() {
		return s
	}
	s.Delimiter, s.Header, s.Comment, s.Missing = in.Delimiter, in.Header, in.Comment, in.Missing
	if !in.Header {
		for _, c := range in.Columns {
			s.Fields = append(s.Fields, c.Name)
		}
	}
	return s
}

// OpenFiles finds the files that patterns name, as Open does.
func OpenFiles(src Source, patterns []string) (*Files, error) {
	if err := joined("data: source", src.Validate()); err != nil {
		return nil, err
	}
	files, err := resolve(patterns)
	if err != nil {
		return nil, err
	}
	d := &Dataset{src: src, format: newFormat(src), files: files}
	var fields []string
	for i := range d.files {
		if err := d.look(i); err != nil {
			return nil, err
		}
		names, err := d.namesIn(i)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if !slices.Contains(fields, n) {
				fields = append(fields, n)
			}
		}
	}
	d.fields, d.blocks = fields, cut(d.files)
	return &Files{d}, nil
}

// namesIn are the fields that the records of file i have, by its beginning.
func (d *Dataset) namesIn(i int) ([]string, error) {
	f := &d.files[i]
	form, svm := d.format.(svmFormat)
	if svm && !form.fields {
		return []string{"label", "features", "values"}, nil
	}
	if d.src.formatName() != "tfrecord" && !svm {
		return d.fields, nil
	}
	src, err := f.open()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if !svm {
		return d.format.look(f, src)
	}
	names, err := new(Inspection).ffmFields(form, f, src, defaultLook)
	if err != nil {
		return nil, fmt.Errorf("data: open: %s: %w", f.name, err)
	}
	for _, n := range names[1:] {
		names = append(names, n+"_values")
	}
	return names, nil
}

// Names returns the names of the files in their order.
func (f *Files) Names() []string { return f.d.Names() }

// Bytes is the size of the files as they lie there.
func (f *Files) Bytes() int64 { return f.d.Bytes() }

// Fields names what records have, in the order of the first file. Of TFRecord
// and LibFFM it is what the first records of each file have.
func (f *Files) Fields() []string { return slices.Clone(f.d.fields) }

// Stop ends a walk without an error.
var Stop = errors.New("data: the walk has seen enough")

// Walk reads the records in the order of the files and calls each with the
// values of the fields of these names, which are valid until it returns. Records
// that cannot be read are counted and the walk goes on; of the first most the
// place is found out. An error is that of each, or of a file that cannot be read
// on. progress, which may be nil, is told now and then how many bytes of the
// files are done.
func (f *Files) Walk(ctx context.Context, names []string, most int, each func([]value.List) error, progress func(bytes int64)) (w Walked, err error) {
	dec, err := f.d.format.decoder(f.d.fields, names)
	if err != nil {
		return w, err
	}
	for _, n := range names {
		if _, svm := f.d.format.(svmFormat); !svm && !slices.Contains(f.d.fields, n) {
			return w, fmt.Errorf("data: walk: there is no field %q; there are %q", n, f.d.fields)
		}
	}
	k := walk{Files: f, most: most, each: each, progress: progress, dec: dec, records: f.d.format.records(names), lists: make([]value.List, len(names))}
	if c, ok := k.records.(io.Closer); ok {
		defer c.Close()
	}
	for i := range f.d.files {
		if err = k.file(ctx, i); err != nil {
			break
		}
	}
	if errors.Is(err, Stop) {
		err = nil
	}
	return k.Walked, err
}

// walk is a Walk that is under way.
type walk struct {
	*Files
	Walked
	most     int
	each     func([]value.List) error
	progress func(int64)
	dec      decoder
	records  records
	lists    []value.List
	done     int64 // bytes of the blocks before
}

func (k *walk) file(ctx context.Context, i int) error {
	file := &k.d.files[i]
	src, err := file.open()
	if err != nil {
		return err
	}
	defer src.Close()
	for b, bl := range k.d.blocks {
		if int(bl.file) != i {
			continue
		}
		if err := k.block(ctx, file, src, bl); err != nil {
			return err
		}
		if k.done += k.d.blockBytes(b); k.progress != nil {
			k.progress(k.done)
		}
	}
	return nil
}

// block reads the records that begin in a block.
func (k *walk) block(ctx context.Context, f *file, src source, bl block) error {
	var u unit
	err := k.records.begin(src, f, bl, -1, 0)
	for n := 0; err == nil; n++ {
		if n%unitsAtOnce == 0 && ctx.Err() != nil {
			return fmt.Errorf("data: walk: %w", ctx.Err())
		}
		if u, err = k.records.next(); err != nil {
			break
		}
		fl := u.flaw
		if fl == nil {
			fl = k.dec.decode(u.record, k.lists)
		}
		if fl == nil {
			k.Records++
			if err := k.each(k.lists); err != nil {
				return err
			}
			continue
		}
		k.Bad++
		if err := k.note(f, fl, u); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, errLongLine):
		return fmt.Errorf("data: walk: %s: offset %d: %w", f.name, u.offset, err)
	}
	return fmt.Errorf("data: walk: %s: %w", f.name, err)
}

// note keeps the first faults.
func (k *walk) note(f *file, fl *flaw, u unit) error {
	if len(k.Faults) >= k.most {
		return nil
	}
	at, err := k.d.format.place(f, u.offset)
	if err != nil {
		return err
	}
	at.Column, at.Value, at.Want = fl.column, fl.value, fl.want
	if fl.column == "" && fl.field >= 0 {
		if at.Column = fmt.Sprint(fl.field + 1); fl.field < len(k.d.fields) {
			at.Column = k.d.fields[fl.field]
		}
	}
	k.Faults = append(k.Faults, at)
	return nil
}
