package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	d := &Dataset{src: src, files: files}
	if d.format, err = formatFor(src, files); err != nil {
		return nil, err
	}
	var fields []string
	for i := range d.files {
		if err := d.look(i); err != nil {
			return nil, err
		}
		names, err := d.namesIn(i)
		if err != nil {
			return nil, err
		}
		fields = union(fields, names)
	}
	d.fields, d.blocks = fields, cut(d.files)
	return &Files{d}, nil
}

// namesIn are the fields that the records of file i have, by its beginning.
func (d *Dataset) namesIn(i int) ([]string, error) {
	f := &d.files[i]
	naming, named := namingOf(d.format)
	lines, svm := svmOf(d.format)
	if svm && !lines.fields {
		return []string{"label", "features", "values"}, nil
	}
	if !named && !svm {
		return d.fields, nil
	}
	if named {
		src, err := f.open()
		if err != nil {
			return nil, err
		}
		defer src.Close()
		if f.log == nil {
			return naming.look(f, src)
		}
		names, err := firstNames(d.format, f, src)
		if err != nil {
			return nil, fmt.Errorf("data: open: %s: %w", f.name, err)
		}
		return names, nil
	}
	names, _, err := numbersIn(d.format, &sample{files: d.files[i : i+1], rows: defaultLook})
	if err != nil {
		return nil, fmt.Errorf("data: open: %w", err)
	}
	for _, n := range names[1:] {
		names = append(names, n+valuesSuffix)
	}
	return names, nil
}

// Names returns the names of the files in their order.
func (f *Files) Names() []string { return f.d.Names() }

// Bytes is the size of the files as they lie there.
func (f *Files) Bytes() int64 { return f.d.Bytes() }

// Fields names what records have, in the order of the first file. Of TFRecord,
// JSON objects and LibFFM it is what the first records of each file have; Survey and
// Learn find what comes later.
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
	return f.walk(ctx, names, most, each, progress, nil)
}

// walk is Walk; late, which may be nil, takes in the names that records have.
func (f *Files) walk(ctx context.Context, names []string, most int, each func([]value.List) error, progress func(bytes int64), late *lateNames) (w Walked, err error) {
	dec, err := f.d.format.decoder(f.d.fields, names)
	if err != nil {
		return w, err
	}
	for _, n := range names {
		if _, svm := svmOf(f.d.format); !svm && !slices.Contains(f.d.fields, n) {
			return w, fmt.Errorf("data: walk: there is no field %q; there are %q", n, f.d.fields)
		}
	}
	k := walk{Files: f, most: most, each: each, progress: progress, dec: dec, late: late, records: f.d.format.records(names), lists: make([]value.List, len(names))}
	if err = k.blocks(ctx, 0, len(f.d.blocks)); errors.Is(err, Stop) {
		err = nil
	}
	return k.Walked, err
}

// Check reads the records as Walk does, with all fields, on several threads: it
// counts those that can be read and those that cannot, and finds out the places of
// the first most. An error is that of the first file, in their order, that cannot be
// read on; then what stands before it has been counted.
func (f *Files) Check(ctx context.Context, threads, most int, progress func(bytes int64)) (w Walked, err error) {
	threads = max(min(threads, len(f.d.blocks)), 1)
	parts, errs := make([]walk, threads), make([]error, threads)
	var done atomic.Int64
	var group sync.WaitGroup
	for i := range parts {
		dec, err := f.d.format.decoder(f.d.fields, f.d.fields)
		if err != nil {
			return w, err
		}
		k := &parts[i]
		*k = walk{Files: f, most: most, each: func([]value.List) error { return nil }, dec: dec}
		k.records, k.lists = f.d.format.records(f.d.fields), make([]value.List, len(f.d.fields))
		told := int64(0)
		k.progress = func(bytes int64) { done.Add(bytes - told); told = bytes }
		group.Go(func() {
			errs[i] = k.blocks(ctx, len(f.d.blocks)*i/threads, len(f.d.blocks)*(i+1)/threads)
		})
	}
	tell(&group, &done, progress)
	for i := range parts {
		w.Records, w.Bad = w.Records+parts[i].Records, w.Bad+parts[i].Bad
		w.Faults = append(w.Faults, parts[i].Faults[:min(len(parts[i].Faults), most-len(w.Faults))]...)
		if errs[i] != nil {
			return w, errs[i]
		}
	}
	return w, nil
}

// tell waits for a group, and tells now and then how far it is.
func tell(group *sync.WaitGroup, done *atomic.Int64, progress func(int64)) {
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	const often = 100 * time.Millisecond
	ticks := time.NewTicker(often)
	defer ticks.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticks.C:
			if progress != nil {
				progress(done.Load())
			}
		}
	}
}

// walk is a Walk that is under way.
type walk struct {
	*Files
	Walked
	most     int
	each     func([]value.List) error
	progress func(int64)
	dec      decoder
	late     *lateNames // nil: nobody asks
	records  records
	lists    []value.List
	done     int64 // bytes of the blocks before
}

// blocks reads blocks from number lo up to hi.
func (k *walk) blocks(ctx context.Context, lo, hi int) (err error) {
	in := &input{Dataset: k.d, reader: k.records}
	defer in.close()
	for b := lo; b < hi; b++ {
		bl := k.d.blocks[b]
		if err := in.use(int(bl.file)); err != nil {
			return err
		}
		if err := k.block(ctx, &k.d.files[bl.file], in.src, bl); err != nil {
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
			if k.late != nil {
				k.late.record(u.record)
			}
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
