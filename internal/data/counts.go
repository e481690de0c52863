package data

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/signal"
	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// Counts holds the number of records that begin in each block of a dataset, the start of
// each group and a digest of the records. A Scan of one part returns the counts of that
// part's blocks; Merge joins them. The zero Counts covers no block and merges with any.
type Counts struct {
	dataset       uint64
	spans         []span32 // ascending, no two adjacent
	positives     int64
	heldPositives int64 // positives among the held-out records
	sums          labelSums
	held          int64            // bytes of the records in memory
	bad           int64            // records that cannot be used
	excluded      int64            // records that data.where excludes
	faults        []record.Fault   // the first of each reason
	content       uint64           // sum of digests of the blocks and their numbers: independent of the order of merging
	records       uint64           // sum of the digests of the blocks: independent of the order of the files
	late          []string         // watched fields that occurred
	kept          map[int32][]byte // by block: records held out by class or by the value of a field; see rowBits
	dropped       map[int32][]byte // by block: negatives left out of training
	valued        []byte           // one bit per column of the schema: some record has a value
	sample        *signal.Sample   // of all columns except the label; nil if no block was counted
}

// span32 is a run of blocks.
type span32 struct {
	first           int32
	records, flawed []int32 // of each block
	groups          []group
}

// group is a run of consecutive records of a block, the unit of shuffling. Excluded
// records may be between them.
type group struct {
	offset    int64 // of the first record, in the file
	block     int32
	row, rows int32 // number of records of the block before it, and number of its records
}

const (
	minGroup  = 64 << 10  // bytes of records in memory
	maxGroup  = 512 << 10 // keeps the number of groups of the largest datasets within limits
	fewGroups = 1 << 18
)

// limits are bytes of records in memory: the minimum of a group, and the maximum of a
// dataset that is shuffled as a whole.
type limits struct{ group, held int64 }

// groupBytes returns the bytes of records that make a group of d.
func groupBytes(d *Dataset) int64 {
	n := d.limits.group
	for n < maxGroup && d.Bytes()/n > fewGroups {
		n *= 2
	}
	return n
}

func (s span32) end() int { return int(s.first) + len(s.records) }

// Records returns the number of records counted so far.
func (c *Counts) Records() (n int64) {
	for _, s := range c.spans {
		for _, r := range s.records {
			n += int64(r)
		}
	}
	return n
}

// Positives returns the number of records whose label is 1.
func (c *Counts) Positives() int64 { return c.positives }

// Bad returns the number of records that cannot be used, and the first faults, one of
// each kind.
func (c *Counts) Bad() (n int64, first []record.Fault) { return c.bad, c.faults }

// Excluded returns the number of records that Source.Where excludes.
func (c *Counts) Excluded() int64 { return c.excluded }

// tooBad returns the first fault if there are more than most.
func (c *Counts) tooBad(most int64) error {
	if c.bad <= most {
		return nil
	}
	return record.Together(c.faults, c.bad)
}

const (
	countsMagic = "wdlcnt13\n"
	maxFaults   = 8 // kinds kept per dataset
	maxText     = 1 << 12
	maxGroups   = 1 << 26                                   // of a span
	maxColumns  = schema.MaxLabels + 1 + 2*schema.MaxInputs // labels, the sample weight, the fields of features, and their weights
)

// Marshal encodes c for Merge.
func (c *Counts) Marshal() []byte {
	b := binary.LittleEndian.AppendUint64([]byte(countsMagic), c.dataset)
	b = binary.LittleEndian.AppendUint64(b, c.content)
	b = binary.LittleEndian.AppendUint64(b, c.records)
	b = c.sums.append(binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.positives)), uint64(c.heldPositives)))
	b = binary.AppendUvarint(b, uint64(c.held))
	b = binary.AppendUvarint(b, uint64(c.excluded))
	b = binary.AppendUvarint(b, uint64(len(c.spans)))
	for _, s := range c.spans {
		b = binary.AppendUvarint(b, uint64(s.first))
		b = binary.AppendUvarint(b, uint64(len(s.records)))
		for i := range s.records {
			b = binary.AppendUvarint(b, uint64(s.records[i]))
			b = binary.AppendUvarint(b, uint64(s.flawed[i]))
		}
		b = appendGroups(b, s.groups)
	}
	b = binary.AppendUvarint(b, uint64(len(c.faults)))
	for _, f := range c.faults {
		for _, x := range []int64{f.Line, f.Row, f.Offset, int64(f.Block), f.Same} {
			b = binary.AppendUvarint(b, uint64(x))
		}
		for _, text := range []string{f.File, f.Column, f.Value, f.Want} {
			text = text[:min(len(text), maxText)]
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(c.late)))
	for _, name := range c.late {
		b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
	}
	b = appendKept(appendKept(b, c.kept), c.dropped)
	b = append(binary.AppendUvarint(b, uint64(len(c.valued))), c.valued...)
	if c.sample == nil {
		return append(b, 0)
	}
	return c.sample.Append(append(b, 1))
}

// Merge adds the encoded counts of other blocks of the same dataset. On error c is
// unchanged.
func (c *Counts) Merge(b []byte) error {
	o, err := countsFrom(b)
	if err != nil {
		return fmt.Errorf("merge: broken counts: %w", err)
	}
	if len(o.spans) == 0 && o.dataset == 0 {
		return nil
	}
	if len(c.spans) == 0 && c.dataset == 0 {
		*c = o
		return nil
	}
	if c.dataset != o.dataset {
		return fmt.Errorf("merge: counts of another dataset (%016x, here %016x); do all hosts see the same files?", o.dataset, c.dataset)
	}
	spans := slices.Concat(c.spans, o.spans)
	slices.SortFunc(spans, func(a, b span32) int { return int(a.first) - int(b.first) })
	var joint []span32
	for _, s := range spans {
		last := len(joint) - 1
		switch {
		case last < 0 || int(s.first) > joint[last].end():
			joint = append(joint, s)
		case int(s.first) < joint[last].end():
			return fmt.Errorf("merge: block %d was counted twice", s.first)
		default:
			joint[last].records = slices.Concat(joint[last].records, s.records)
			joint[last].flawed = slices.Concat(joint[last].flawed, s.flawed)
			joint[last].groups = slices.Concat(joint[last].groups, s.groups)
		}
	}
	c.spans, c.positives, c.content, c.bad, c.held = joint, c.positives+o.positives, c.content+o.content, c.bad+o.bad, c.held+o.held
	c.records += o.records
	c.sums.merge(o.sums)
	c.excluded += o.excluded
	c.heldPositives += o.heldPositives
	c.faults = mergeFaults(c.faults, o.faults)
	for _, name := range o.late {
		if !slices.Contains(c.late, name) {
			c.late = append(c.late, name)
		}
	}
	addKept(&c.kept, o.kept)
	addKept(&c.dropped, o.dropped)
	c.addValued(o.valued)
	switch {
	case c.sample == nil:
		c.sample = o.sample
	case o.sample != nil:
		return c.sample.Merge(o.sample)
	}
	return nil
}

// mergeFaults joins the first faults of two parts.
func mergeFaults(a, b []record.Fault) (joint []record.Fault) {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b record.Fault) int { return int(a.Block) - int(b.Block) })
	for _, f := range all {
		if i := slices.IndexFunc(joint, func(x record.Fault) bool { return x.Like(&f) }); i >= 0 {
			joint[i].Same += 1 + f.Same
		} else if len(joint) < maxFaults {
			joint = append(joint, f)
		}
	}
	return joint
}

// addValued merges the bits of columns that have a value.
func (c *Counts) addValued(bits []byte) {
	for len(c.valued) < len(bits) {
		c.valued = append(c.valued, 0)
	}
	for i, b := range bits {
		c.valued[i] |= b
	}
}

// hasValued reports whether some record has a value of column i of the schema.
func (c *Counts) hasValued(i int) bool {
	return i/8 < len(c.valued) && c.valued[i/8]>>(i%8)&1 == 1
}

func countsFrom(b []byte) (c Counts, err error) {
	r := &wire.Reader{B: b}
	r.Magic(countsMagic)
	c.dataset, c.content, c.records = r.Uint64(), r.Uint64(), r.Uint64()
	c.positives, c.heldPositives, c.sums = r.Count(), r.Count(), labelSumsFrom(r)
	c.held = r.Count()
	c.excluded = r.Count()
	end := 0
	for range r.Length(record.MaxBlocks, 5) {
		first := r.Uvarint()
		n := r.Length(record.MaxBlocks, 2)
		if first > record.MaxBlocks || int(first) < end || n == 0 {
			r.Fail("spans overlap or are empty")
			break
		}
		s := span32{int32(first), make([]int32, n), make([]int32, n), nil}
		for i := range n {
			records, flawed := r.Count(), r.Count()
			if records+flawed > math.MaxInt32 {
				r.Fail("%d and %d records in a block", records, flawed)
				break
			}
			s.records[i], s.flawed[i] = int32(records), int32(flawed)
			c.bad += flawed
		}
		s.groups = groupsFrom(r, &s)
		end = s.end()
		c.spans = append(c.spans, s)
	}
	if c.bad -= c.excluded; c.bad < 0 {
		r.Fail("%d records excluded of %d left out", c.excluded, c.bad+c.excluded)
	}
	c.faults = faultsFrom(r)
	for range r.Length(maxColumns, 1) {
		c.late = append(c.late, string(r.Bytes(record.MaxLine)))
	}
	c.kept, c.dropped = keptFrom(r), keptFrom(r)
	c.valued = slices.Clone(r.Bytes(maxColumns/8 + 1))
	if r.Byte() == 1 {
		c.sample = signal.From(r, maxColumns, sampled)
	}
	if err := r.End(); err != nil {
		return Counts{}, err
	}
	if c.bad > 0 && len(c.faults) == 0 {
		return Counts{}, fmt.Errorf("%d records are faulty and none is named", c.bad)
	}
	if c.positives > c.Records() || c.heldPositives > c.positives {
		return Counts{}, fmt.Errorf("%d positive of %d records, %d of them held out", c.positives, c.Records(), c.heldPositives)
	}
	return c, nil
}

// appendGroups encodes the groups of a span.
func appendGroups(b []byte, groups []group) []byte {
	b = binary.AppendUvarint(b, uint64(len(groups)))
	last := int64(0)
	for _, g := range groups {
		if g.row == 0 {
			last = 0 // another block
		}
		b = binary.AppendUvarint(b, uint64(g.rows))
		b = binary.AppendUvarint(b, uint64(g.offset-last))
		last = g.offset
	}
	return b
}

// groupsFrom decodes the groups of a span, which hold the records of its blocks.
func groupsFrom(r *wire.Reader, s *span32) []group {
	groups := make([]group, r.Length(maxGroups, 2))
	block, row, last := 0, int32(0), int64(0)
	for i := range groups {
		for block < len(s.records) && row == s.records[block] {
			block, row, last = block+1, 0, 0
		}
		rows, offset := r.Count(), last+r.Count()
		if block == len(s.records) || rows == 0 || rows > int64(s.records[block]-row) || offset < last {
			r.Fail("group %d has %d records at offset %d", i, rows, offset)
			return nil
		}
		groups[i] = group{offset, s.first + int32(block), row, int32(rows)}
		row, last = row+int32(rows), offset
	}
	for block < len(s.records) && row == s.records[block] {
		block, row = block+1, 0
	}
	if block < len(s.records) {
		r.Fail("the groups end in block %d", block)
	}
	return groups
}

func faultsFrom(r *wire.Reader) (faults []record.Fault) {
	for range r.Length(maxFaults, 9) {
		f := record.Fault{Line: r.Count(), Row: r.Count(), Offset: r.Count(), Block: int32(min(r.Count(), record.MaxBlocks)), Same: r.Count()}
		for _, text := range []*string{&f.File, &f.Column, &f.Value, &f.Want} {
			*text = string(r.Bytes(maxText))
		}
		faults = append(faults, f)
	}
	return faults
}
