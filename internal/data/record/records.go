package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Files is a set of files without a schema, for commands that show, count or convert
// records. It is immutable and may be shared.
type Files struct {
	set *Set
}

// Walked is the result of a walk over files.
type Walked struct {
	Records int64   // readable records
	Bad     int64   // unreadable records; each line counts, because it may be a record
	Faults  []Fault // the first faults
	Strays  []Fault // the first records with a string in a numeric column
}

// OpenFiles opens the files that patterns name, as for a dataset.
func OpenFiles(src schema.Source, patterns []string) (*Files, error) {
	s, err := OpenSet(src, patterns)
	if err != nil {
		return nil, err
	}
	var fields []string
	for i := range s.Files {
		names, err := s.NamesIn(i)
		if err != nil {
			return nil, err
		}
		fields = union(fields, names)
	}
	s.Fields = fields
	return &Files{s}, nil
}

// Names returns the names of the files in their order.
func (f *Files) Names() []string { return f.set.Names() }

// Bytes returns the size of the files as stored.
func (f *Files) Bytes() int64 { return f.set.Bytes() }

// Fields returns the fields of records, in the order of the first file. For TFRecord, JSON
// objects and LibFFM they are those of the first records of each file; Survey and Learn
// find later ones.
func (f *Files) Fields() []string { return slices.Clone(f.set.Fields) }

// Stop ends a walk without an error.
var Stop = errors.New("the walk has seen enough")

// Walk reads the records in file order and calls each with the values of the fields of
// these names, valid until it returns. Unreadable records are counted and skipped; w has
// the places of the first of them, at most most. It returns an error of each, or of a file
// that cannot be read further. progress, if not nil, is called periodically with the
// number of bytes of files done.
func (f *Files) Walk(ctx context.Context, names []string, most int, each func([]value.List) error, progress func(bytes int64)) (w Walked, err error) {
	return f.walk(ctx, names, most, each, progress, nil)
}

// walk is Walk. late, if not nil, collects the names of fields of the records.
func (f *Files) walk(ctx context.Context, names []string, most int, each func([]value.List) error, progress func(bytes int64), late *lateNames) (w Walked, err error) {
	return f.walkRecords(ctx, names, most, func(_ func() string, _ []byte, lists []value.List) error { return each(lists) }, progress, late)
}

// walkRecords is walk for an each that also takes the place of the record and its bytes.
func (f *Files) walkRecords(ctx context.Context, names []string, most int, each eachRecord, progress func(bytes int64), late *lateNames) (w Walked, err error) {
	dec, err := f.set.Format.Decoder(f.set.Fields, names)
	if err != nil {
		return w, err
	}
	if err := f.set.Unreadable(names); err != nil {
		return w, err
	}
	for _, n := range names {
		if _, svm := svmOf(f.set.Format); !svm && !slices.Contains(f.set.Fields, n) {
			return w, fmt.Errorf("there is no field %q; there are %q", n, f.set.Fields)
		}
	}
	k := walk{Files: f, most: most, each: each, progress: progress, dec: dec, late: late, records: f.set.Format.Records(names), lists: make([]value.List, len(names))}
	if err = k.blocks(ctx, 0, len(f.set.Blocks)); errors.Is(err, Stop) {
		err = nil
	}
	return k.Walked, err
}

// Check reads the records as Walk does, with all fields, on several threads. It counts
// readable and unreadable records and finds the places of the first bad ones, at most
// most. It also finds as many strings in numeric fields. The error is the error of the first
// file, in order, that cannot be read further; everything before it has been counted.
func (f *Files) Check(ctx context.Context, threads, most int, numbers []string, progress func(bytes int64)) (w Walked, err error) {
	threads = max(min(threads, len(f.set.Blocks)), 1)
	parts, errs := make([]walk, threads), make([]error, threads)
	var done atomic.Int64
	var group sync.WaitGroup
	for i := range parts {
		dec, err := f.set.Format.Decoder(f.set.Fields, f.set.Fields)
		if err != nil {
			return w, err
		}
		k := &parts[i]
		*k = walk{Files: f, most: most, each: func(func() string, []byte, []value.List) error { return nil }, dec: dec}
		for i, name := range f.set.Fields {
			if slices.Contains(numbers, name) {
				k.numbers = append(k.numbers, i)
			}
		}
		k.records, k.lists = f.set.Format.Records(f.set.Fields), make([]value.List, len(f.set.Fields))
		if t, ok := k.records.(*TableRecords); ok {
			t.Check = true
		}
		reported := int64(0)
		k.progress = func(bytes int64) { done.Add(bytes - reported); reported = bytes }
		group.Go(func() {
			errs[i] = k.blocks(ctx, len(f.set.Blocks)*i/threads, len(f.set.Blocks)*(i+1)/threads)
		})
	}
	reportProgress(&group, &done, progress)
	for i := range parts {
		w.Records, w.Bad = w.Records+parts[i].Records, w.Bad+parts[i].Bad
		w.Faults = append(w.Faults, parts[i].Faults[:min(len(parts[i].Faults), most-len(w.Faults))]...)
		w.Strays = append(w.Strays, parts[i].Strays[:min(len(parts[i].Strays), most-len(w.Strays))]...)
		if errs[i] != nil {
			return w, errs[i]
		}
	}
	return w, nil
}

// reportProgress waits for a group, and reports progress periodically.
func reportProgress(group *sync.WaitGroup, done *atomic.Int64, progress func(int64)) {
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

// eachRecord takes a record. place returns its place, such as people.csv:12.
type eachRecord func(place func() string, record []byte, lists []value.List) error

// walk is the state of a Walk.
type walk struct {
	*Files
	Walked
	most     int
	each     eachRecord
	progress func(int64)
	dec      Decoder
	numbers  []int      // fields that should be numeric
	late     *lateNames // nil if not requested
	records  Records
	lists    []value.List
	done     int64 // bytes of earlier blocks
}

// blocks reads blocks [lo, hi).
func (k *walk) blocks(ctx context.Context, lo, hi int) (err error) {
	in := &Input{of: k.set, Reader: k.records}
	defer in.Close()
	for b := lo; b < hi; b++ {
		bl := k.set.Blocks[b]
		if err := in.OpenFile(int(bl.File)); err != nil {
			return err
		}
		err := k.block(ctx, &k.set.Files[bl.File], in.Content, bl)
		if !errors.Is(err, Stop) {
			err = cmp.Or(in.Unchanged(), err)
		}
		if err != nil {
			return err
		}
		if k.done += k.set.BytesOf(b); k.progress != nil {
			k.progress(k.done)
		}
	}
	return nil
}

// block reads the records that begin in a block.
func (k *walk) block(ctx context.Context, f *File, src Content, bl Block) error {
	var u Unit
	place := func() string {
		at, err := k.set.Format.Place(f, u.Offset)
		if err != nil {
			return f.Name
		}
		return at.Place()
	}
	err := k.records.Begin(src, f, bl, -1, 0)
	for n := 0; err == nil; n++ {
		if n%unitsAtOnce == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if u, err = k.records.Next(); err != nil {
			break
		}
		fl := u.Flaw
		if fl == nil {
			fl = k.dec.Decode(u.Record, k.lists)
		}
		if fl == nil {
			k.Records++
			if k.late != nil {
				k.late.record(u.Record)
			}
			if err := k.each(place, u.Record, k.lists); err != nil {
				return err
			}
			if err := k.noteStrays(f, u); err != nil {
				return err
			}
			continue
		}
		k.Bad += 1 + int64(u.Inner)
		if err := k.note(f, fl, u); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, ErrLongLine):
		return fmt.Errorf("%s: offset %d: %w", f.Name, u.Offset, err)
	}
	return fmt.Errorf("%s: %w", f.Name, err)
}

// noteStrays keeps the first strings in numeric fields.
func (k *walk) noteStrays(f *File, u Unit) error {
	for _, i := range k.numbers {
		l := &k.lists[i]
		if len(k.Strays) >= k.most || l.Kind != value.Text || len(l.Texts[0]) == 0 || slices.Contains(k.set.Source.Missing, string(l.Texts[0])) {
			continue
		}
		_, why := value.ParseNumber(l.Texts[0])
		if why == "" {
			continue
		}
		at, err := k.set.Format.Place(f, u.Offset)
		if err != nil {
			return err
		}
		at.Column, at.Value, at.Want = k.set.Fields[i], string(CutLong(l.Texts[0])), why
		k.Strays = append(k.Strays, at)
	}
	return nil
}

// note keeps the first faults.
func (k *walk) note(f *File, fl *Flaw, u Unit) error {
	if len(k.Faults) >= k.most {
		return nil
	}
	at, err := k.set.Format.Place(f, u.Offset)
	if err != nil {
		return err
	}
	fault := k.set.Fault(fl)
	at.Take(&fault)
	k.Faults = append(k.Faults, at)
	return nil
}

// unitsAtOnce is the number of units read between two checks of the context.
const unitsAtOnce = 1 << 14

// Partial describes the columns of tables that some files do not have.
func (f *Files) Partial() []string { return f.set.Partial(f.set.Fields) }

// Empty returns the names of files without records.
func (f *Files) Empty() []string { return f.set.Empty }

// Unread lists the columns that cannot be read, with reasons.
func (f *Files) Unread() (all []string) {
	for i := range f.set.Files {
		all = union(all, f.set.Files[i].Unread())
	}
	return all
}

// Types returns the declared types of the columns of tables. If files differ, the first file with the column decides.
// Other formats have none.
func (f *Files) Types() (map[string]table.Declared, error) {
	all := map[string]table.Declared{}
	if !IsTable(f.set.Format) {
		return all, nil
	}
	for i := range f.set.Files {
		if err := f.set.Files[i].addTypes(all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Lists returns the fields among names that hold lists: their column is of a list type, or one of the first DefaultLook
// records has several values.
func (f *Files) Lists(ctx context.Context, names []string) (map[string]bool, error) {
	all := map[string]bool{}
	types, err := f.Types()
	if err != nil {
		return nil, err
	}
	for name, of := range types {
		if of.List && slices.Contains(names, name) {
			all[name] = true
		}
	}
	n := 0
	_, err = f.Walk(ctx, names, 0, func(lists []value.List) error {
		for i := range lists {
			if lists[i].Len() > 1 {
				all[names[i]] = true
			}
		}
		if n++; n == DefaultLook {
			return Stop
		}
		return nil
	}, nil)
	return all, err
}
