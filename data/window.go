package data

import (
	"errors"
	"fmt"
	"io"
)

// lane reads the records of one lane, a window at a time. It keeps the lines of
// the window and gives them in shuffled order.
type lane struct {
	number int64
	loaded bool
	window int64
	lo, hi int64 // records of the lane that the window holds
	perm   []int32
	text   []byte // lines of the window
	rows   []kept
	next   spot // where the next window begins
}

// kept is a line of a window.
type kept struct {
	lo, hi int // of lane.text
	offset int64
	block  int32
	row    int32 // in the block
	line   int32 // in the block
}

// spot is a place in the sequence of blocks: the line at offset of the block at
// perm[at]. Offset −1 is the block's beginning.
type spot struct {
	at     int
	offset int64
	row    int32 // records of the block before it
	line   int32 // lines of the block before it
}

// filler loads windows. It has one file open at a time.
type filler struct {
	scanner // files, lines and the format
	order   *order
	sel     Select
}

// row returns record i of a lane, loading the window it lies in.
func (f *filler) row(l *lane, i int64) (*kept, error) {
	if !l.loaded || i < l.lo || i >= l.hi {
		if err := f.load(l, i); err != nil {
			l.loaded = false
			return nil, err
		}
	}
	return &l.rows[l.perm[i-l.lo]], nil
}

func (f *filler) load(l *lane, i int64) error {
	k := f.order.windowOf(l.number, i)
	follows := l.loaded && k == l.window+1
	l.window = k
	l.lo, l.hi = f.order.bounds(l.number, k)
	n := int(l.hi - l.lo)
	l.text, l.rows = l.text[:0], l.rows[:0]
	if !follows {
		at, skip := f.order.seek(f.order.start(l.number) + l.lo)
		l.next = spot{at: at, offset: -1}
		if err := f.collect(l, int(skip)); err != nil {
			return err
		}
		l.text, l.rows = l.text[:0], l.rows[:0]
	}
	if err := f.collect(l, n); err != nil {
		return err
	}
	if cap(l.perm) < n {
		l.perm = make([]int32, n)
	}
	l.perm = l.perm[:n]
	f.order.permute(l.number, k, l.perm)
	l.loaded = true
	return nil
}

// collect appends the next n selected records to the window.
func (f *filler) collect(l *lane, n int) error {
	for n > 0 {
		if l.next.at >= len(f.order.perm) {
			return errors.New("data: read: the counts hold fewer records than the order takes") // cannot happen
		}
		b := int(f.order.perm[l.next.at])
		if l.next.row == f.records[b] {
			l.next = spot{at: l.next.at + 1, offset: -1}
			continue
		}
		got, err := f.fromBlock(l, b, n)
		if err != nil {
			return err
		}
		n -= got
	}
	return nil
}

// fromBlock reads on in block b until n selected records are found or all of
// the block's records are read.
func (f *filler) fromBlock(l *lane, b, n int) (got int, err error) {
	bl := f.blocks[b]
	file := &f.files[bl.file]
	if err := f.use(int(bl.file)); err != nil {
		return 0, err
	}
	if l.next.offset < 0 {
		err = f.lines.begin(f.src, file, bl)
	} else {
		err = f.lines.start(f.src, file.size, l.next.offset, bl.hi, true)
	}
	for err == nil && got < n && l.next.row < f.records[b] {
		line, at, e := f.lines.next()
		if e != nil {
			err = e
			break
		}
		if at >= file.body && f.parser.format.isRecord(line) {
			if f.selects(f.sel, b, l.next.row) {
				lo := len(l.text)
				l.text = append(l.text, line...)
				l.rows = append(l.rows, kept{lo, len(l.text), at, int32(b), l.next.row, l.next.line})
				got++
			}
			l.next.row++
		}
		l.next.line++
	}
	l.next.offset = f.lines.off
	if err == nil {
		return got, nil
	}
	if err == io.EOF || errors.Is(err, errShrunk) || errors.Is(err, errLongLine) {
		err = ErrChanged // the scan found more records than this, and short lines
	}
	return 0, fmt.Errorf("data: read: %s: line %d: %w", file.name, f.lineBase[b]+int64(l.next.line)+1, err)
}
