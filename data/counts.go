package data

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Counts says how many lines and records begin in each block of a dataset. It
// carries a digest of what the lines say, too. A Scan of one part gives the
// counts of that part's blocks; Merge joins them.
// The zero Counts is that of no block, of any dataset.
type Counts struct {
	dataset   uint64
	spans     []span32 // ascending, none touching the next
	positives int64
	content   uint64 // sum of the digests of the blocks, which no order changes
}

// span32 is a run of blocks.
type span32 struct {
	first          int32
	lines, records []int32
}

func (s span32) end() int { return int(s.first) + len(s.lines) }

// Records is the number of records counted so far.
func (c *Counts) Records() (n int64) {
	for _, s := range c.spans {
		for _, r := range s.records {
			n += int64(r)
		}
	}
	return n
}

// Positives is the number of those whose label is 1.
func (c *Counts) Positives() int64 { return c.positives }

const countsMagic = "wdlcnt2\n"

// Marshal encodes c for Merge.
func (c *Counts) Marshal() []byte {
	b := binary.LittleEndian.AppendUint64([]byte(countsMagic), c.dataset)
	b = binary.LittleEndian.AppendUint64(b, c.content)
	b = binary.AppendUvarint(b, uint64(c.positives))
	b = binary.AppendUvarint(b, uint64(len(c.spans)))
	for _, s := range c.spans {
		b = binary.AppendUvarint(b, uint64(s.first))
		b = binary.AppendUvarint(b, uint64(len(s.lines)))
		for i := range s.lines {
			b = binary.AppendUvarint(b, uint64(s.lines[i]))
			b = binary.AppendUvarint(b, uint64(s.records[i]))
		}
	}
	return b
}

// Merge adds the encoded counts of other blocks of the same dataset. After an
// error c is as it was.
func (c *Counts) Merge(b []byte) error {
	o, err := countsFrom(b)
	if err != nil {
		return fmt.Errorf("data: merge: broken counts: %w", err)
	}
	if len(o.spans) == 0 && o.dataset == 0 {
		return nil
	}
	if len(c.spans) == 0 && c.dataset == 0 {
		*c = o
		return nil
	}
	if c.dataset != o.dataset {
		return fmt.Errorf("data: merge: counts of another dataset (%016x, here %016x); do all hosts see the same files?", o.dataset, c.dataset)
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
			return fmt.Errorf("data: merge: block %d was counted twice", s.first)
		default:
			joint[last].lines = slices.Concat(joint[last].lines, s.lines)
			joint[last].records = slices.Concat(joint[last].records, s.records)
		}
	}
	c.spans, c.positives, c.content = joint, c.positives+o.positives, c.content+o.content
	return nil
}

func countsFrom(b []byte) (c Counts, err error) {
	r := &wire{b: b}
	r.magic(countsMagic)
	c.dataset, c.content = r.uint64(), r.uint64()
	c.positives = r.count()
	end := 0
	for range r.length(mostBlocks, 4) {
		first := r.uvarint()
		n := r.length(mostBlocks, 2)
		if first > mostBlocks || int(first) < end || n == 0 {
			r.fail("spans overlap or are empty")
			break
		}
		s := span32{int32(first), make([]int32, n), make([]int32, n)}
		for i := range n {
			lines, records := r.count(), r.count()
			if records > lines || lines > largeBlock {
				r.fail("%d records in %d lines of a block", records, lines)
				break
			}
			s.lines[i], s.records[i] = int32(lines), int32(records)
		}
		end = s.end()
		c.spans = append(c.spans, s)
	}
	if err := r.end(); err != nil {
		return Counts{}, err
	}
	if c.positives > c.Records() {
		return Counts{}, fmt.Errorf("%d positive of %d records", c.positives, c.Records())
	}
	return c, nil
}
