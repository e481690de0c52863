package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/signal"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Scan reads one of the given number of parts, counted from 0: a run of blocks that every
// rank computes alike. It checks every record fully. If more than Source.MaxBad are
// faulty, the error is the first *Fault of the part, in file order. Use returns the error of
// several parts together. Otherwise faulty records are left out. fit, if not nil, is updated with the records that are not held out. progress,
// if not nil, is called with the number of bytes done.
func (d *Dataset) Scan(ctx context.Context, part, parts int, fit *encode.Fit, progress func(bytes int64)) (*Counts, error) {
	if parts < 1 || part < 0 || part >= parts {
		return nil, fmt.Errorf("there is no part %d of %d", part, parts)
	}
	n := int64(len(d.set.Blocks))
	first, end := int(n*int64(part)/int64(parts)), int(n*int64(part+1)/int64(parts))
	s, err := d.newScanner(d.schema)
	if err != nil {
		return nil, err
	}
	s.fit = fit
	if s.keeper, err = d.newKeeper(s.RowCoder, nil); err != nil {
		return nil, err
	}
	s.byColumn()
	defer s.Close()
	c := &Counts{dataset: d.digest}
	if first == end {
		return c, nil
	}
	sp := span32{first: int32(first)}
	done := int64(0)
	for b := first; b < end; b++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := s.block(ctx, b)
		if err != nil {
			return nil, err
		}
		if bl := &d.set.Blocks[b]; bl.Lo == 0 {
			d.compared[bl.File] = true
		}
		c.content += mixed(n.digest, uint64(b))
		c.records += mixed(n.digest)
		sp.records, sp.flawed, sp.groups = append(sp.records, n.records), append(sp.flawed, n.flawed), append(sp.groups, n.groups...)
		c.held += n.held
		c.bad += int64(n.flawed) + n.inner
		s.keeper.end(int32(b), n.records)
		s.dropped.end(int32(b), n.records)
		if done += d.set.BytesOf(b); progress != nil {
			progress(done)
		}
	}
	c.excluded, c.bad = s.excluded, c.bad-s.excluded
	c.spans, c.positives, c.faults, c.late = []span32{sp}, s.positives, s.faults, s.watch.Came()
	c.sample = s.sample.Sample
	c.sums, c.heldPositives = s.sums, s.heldPositives
	c.kept, c.dropped = s.keeper.kept.of, s.dropped.of
	c.addValued(s.valued())
	if parts > 1 {
		return c, nil // Use counts the faults of all parts
	}
	return c, c.tooBad(d.set.Source.MaxBad)
}

// scanner reads and checks the records of blocks.
type scanner struct {
	*Dataset
	*record.Input
	*encode.RowCoder
	watch         *encode.Watch
	fit           *encode.Fit
	sample        sampler
	positives     int64
	heldPositives int64 // positives among the held-out records
	sums          labelSums
	excluded      int64          // faulty records that data.where excludes
	faults        []record.Fault // the first faults
	keeper        keeper
	dropped       rowBits        // negatives
	groupBytes    int64          // in memory, of a group
	survey        *encode.Survey // nil: records are checked one by one
}

// newScanner returns a scanner that checks records by a filled schema.
func (d *Dataset) newScanner(s schema.Schema) (*scanner, error) {
	c, err := encode.NewChecker(d.set.Source, d.set.Fields, s)
	if err != nil {
		return nil, err
	}
	sample := sampler{Sample: signal.New(c.Columns()-1, sampled)}
	return &scanner{Dataset: d, Input: d.set.NewInput(c.FieldsRead()), RowCoder: c, watch: encode.NewWatch(c, d.watched()), sample: sample, dropped: newRowBits(), groupBytes: groupBytes(d)}, nil
}

// tally holds the counts of one block.
type tally struct {
	block           int
	file            *record.File
	units           int64 // read so far
	full            int64 // held at the end of the last group
	records, flawed int32
	inner           int64 // line breaks in unusable records: each line counts as one
	groups          []group
	held            int64  // bytes of the records in memory
	digest          uint64 // depends on the content and the order of records
}

// recordsAtOnce is the number of records read between two checks of the context.
const recordsAtOnce = 1 << 14

// byColumn makes s check the rows of tables column by column, if that is possible.
func (s *scanner) byColumn() {
	if _, ok := s.Reader.(*record.TableRecords); ok && !s.byRow {
		s.survey = encode.NewSurvey(s.RowCoder, s.watch, s.fit, s.keeper.column)
	}
}

// block checks the records that begin in block b.
func (s *scanner) block(ctx context.Context, b int) (n tally, err error) {
	file := int(s.set.Blocks[b].File)
	if err := s.OpenFile(file); err != nil {
		return n, err
	}
	n.block, n.file = b, &s.set.Files[file]
	if err = s.check(ctx, &n); ctx.Err() == nil {
		err = cmp.Or(s.Unchanged(), err)
	}
	return n, err
}

// check checks the records that begin in a block, and counts them.
func (s *scanner) check(ctx context.Context, n *tally) (err error) {
	f, bl := n.file, s.set.Blocks[n.block]
	if err = s.Reader.Begin(s.Content, f, bl, -1, 0); err == nil && s.survey != nil {
		var read bool
		if read, err = s.columns(ctx, n); err != nil || n.units == bl.Hi-bl.Lo {
			return err
		}
		if read {
			err = s.Reader.Begin(s.Content, f, bl, bl.Lo+n.units, 0)
		}
	}
	var u record.Unit
	for err == nil {
		if u, err = s.Reader.Next(); err != nil {
			break
		}
		if err := s.unit(ctx, n, u, -1); err != nil {
			return err
		}
	}
	if err == io.EOF {
		return nil
	}
	return s.broken(f, u, err)
}

// columns checks the rows of a row group column by column, as far as possible. read is false if it
// has read nothing.
func (s *scanner) columns(ctx context.Context, n *tally) (read bool, err error) {
	rows, bl := s.Reader.(*record.TableRecords).Rows, s.set.Blocks[n.block]
	if !rows.Flat() || !rows.Lasting() {
		return false, nil
	}
	s.survey.Begin()
	for n.units < bl.Hi-bl.Lo {
		loaded, ok := s.survey.Load(rows)
		if !ok {
			break
		}
		for i := range loaded {
			u := record.Unit{Record: s.survey.Record(i), Offset: bl.Lo + n.units, Number: int32(n.units)}
			if err := s.unit(ctx, n, u, i); err != nil {
				return true, err
			}
		}
		if err := s.survey.End(); err != nil {
			return true, err
		}
	}
	return true, s.survey.Finish()
}

// unit checks and counts a record, row i of those that the survey has loaded, if i is not negative.
func (s *scanner) unit(ctx context.Context, n *tally, u record.Unit, i int) error {
	n.units++
	fl := u.Flaw
	if fl == nil {
		n.digest = f32.Mix(n.digest + f32.Golden ^ xxh3.Hash(u.Record))
		if i >= 0 && (s.watch.Waits() || !s.survey.Row(i)) {
			i = -1
		}
		if i < 0 {
			fl = s.Check(u.Record)
		}
	}
	if fl != nil {
		n.flawed++
		if fl == encode.Excluded {
			s.excluded++
			return nil
		}
		n.inner += int64(u.Inner)
		return s.note(n.file, n.block, fl, u)
	}
	if err := s.count(n.block, n.records, u.Record, i); err != nil {
		return err
	}
	if n.held >= n.full && (!u.Rest || len(n.groups) == 0) { // Begin passes over what is unusable before a first record with Rest
		n.full = n.held + s.groupBytes
		n.groups = append(n.groups, group{offset: u.Offset, block: int32(n.block), row: n.records})
	}
	n.groups[len(n.groups)-1].rows++
	n.held += int64(len(u.Record)) + keptBytes
	if n.records++; n.records%recordsAtOnce == 0 && ctx.Err() != nil {
		return ctx.Err()
	}
	if u.Number == math.MaxInt32-1 {
		return fmt.Errorf("%s: a packed file of more than 2^31 lines; split it", n.file.Name)
	}
	return nil
}

// broken returns the error for a file that cannot be read further.
func (s *scanner) broken(f *record.File, u record.Unit, err error) error {
	if errors.Is(err, record.ErrShrunk) {
		err = record.ErrChanged
	}
	if len(s.faults) > 0 && s.set.Source.MaxBad == 0 {
		return &s.faults[0] // it comes first in the file
	}
	if !errors.Is(err, record.ErrLongLine) {
		return fmt.Errorf("%s: offset %d: %w", f.Name, u.Offset, err)
	}
	at, e := s.set.Format.Place(f, u.Offset)
	if e != nil {
		return e
	}
	at.Want = err.Error()
	return &at
}

// valued returns one bit per column: some record has a value.
func (s *scanner) valued() []byte {
	n := s.Columns()
	bits := make([]byte, (n+7)/8)
	for i := range n {
		bits[i/8] |= 1 << (i % 8)
	}
	for _, i := range s.watch.Without() {
		bits[i/8] &^= 1 << (i % 8)
	}
	return bits
}

// count counts the checked record, row r of block b. It is row i of those that the survey has
// loaded, if i is not negative.
func (s *scanner) count(b int, r int32, record []byte, i int) error {
	one := s.Positive()
	if one {
		s.positives++
	}
	if labels := s.Labels(); len(labels) > 0 {
		s.sums.add(labels)
	}
	held := s.holdOut(b, r)
	if s.sample.wants(b, r, one) {
		if i >= 0 {
			s.Check(record) // the parser takes all columns
		}
		s.sample.add(s.RowCoder, b, r)
	}
	if held && one {
		s.heldPositives++
	}
	dropped := !held && !one && s.drop.holds(b, r)
	if dropped {
		s.dropped.add(r)
	}
	keep := s.fit != nil && !held && !dropped
	if i >= 0 {
		s.survey.Take(i, keep)
		return nil
	}
	if s.watch.Look(); keep {
		return s.fit.Add(s.RowCoder)
	}
	return nil
}

// note keeps the first fault of each kind, up to maxFaults, and counts the others of
// these reasons.
func (s *scanner) note(f *record.File, b int, fl *record.Flaw, u record.Unit) error {
	const hint = "; if this line is not a record, set data.comment or data.header"
	fault := s.set.Fault(fl)
	if s.letter != nil {
		x := fault
		x.File, x.Offset = f.Name, u.Offset
		if u.Stored == nil {
			u.Stored = u.Record
		}
		s.letter(x, u.Stored)
	}
	if fl.Expected > 0 && record.IsMarked(u.Record) {
		fault.Want += hint
	}
	for i := range s.faults {
		if s.faults[i].Like(&fault) {
			s.faults[i].Same++
			return nil
		}
	}
	if len(s.faults) == maxFaults {
		return nil
	}
	at, err := s.set.Format.Place(f, u.Offset)
	if err != nil {
		return err
	}
	at.Take(&fault)
	at.Block = int32(b)
	if fl.Expected > 0 && at.Line == 1 && !record.IsMarked(u.Record) {
		at.Want += hint
	}
	s.faults = append(s.faults, at)
	return nil
}
