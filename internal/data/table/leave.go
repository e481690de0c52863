package table

import (
	"fmt"
	"sort"
)

// Leave leaves rows of the file out, as if they were not in it: they have these numbers, which
// ascend.
func (f *File) Leave(rows []uint32) error {
	if len(rows) == 0 {
		return nil
	}
	f.gone, f.groups = make([][]uint32, len(f.footer.Groups)), make([]int64, len(f.footer.Groups))
	end := int64(0)
	for i := range f.groups {
		n := f.footer.Groups[i].Rows
		end += n
		in := sort.Search(len(rows), func(k int) bool { return int64(rows[k]) >= end })
		f.gone[i], rows = rows[:in], rows[in:]
		f.groups[i] = n - int64(in)
	}
	if len(rows) > 0 {
		return fmt.Errorf("row %d is deleted, and it has %d rows", rows[0], end)
	}
	return nil
}

// isGone reports whether the next row is left out.
func (r *Reader) isGone() bool { return r.left > 0 && len(r.gone) > 0 && int64(r.gone[0]) == r.row }

// goneRows returns the number of rows in sequence that are left out.
func (r *Reader) goneRows() int {
	n := 1
	for n < len(r.gone) && r.gone[n] == r.gone[n-1]+1 {
		n++
	}
	return n
}

// pass counts n rows as read, of which the first decides whether all are left out.
func (r *Reader) pass(n int) {
	if r.isGone() {
		r.gone = r.gone[n:]
	}
	r.row += int64(n)
	r.left -= int64(n)
}
