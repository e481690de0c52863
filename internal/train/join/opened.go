package join

import "github.com/zeebo/xxh3"

// Key is the hash of the fields that an impression and its feedback have in common.
type Key = xxh3.Uint128

// Ref is the place of a record in the log. The zero Ref is none.
type Ref uint64

// opened holds the open impressions: some 50 bytes for each, in pages, so that none is copied when there are
// more. An open impression has a number, which is used again when it is closed.
type opened struct {
	pages [][]slot
	used  int32   // numbers that were given
	free  []int32 // of closed ones
	table []int32 // number + 1 by the hash of the key, 0 for none: open addressing, at most ¾ full
	count int
	due   dueQueue
	fed   map[int32]given // feedback, by number
}

// slot is an open impression.
type slot struct {
	key  Key
	time int64
	ref  Ref
}

// given is the first feedback of an impression.
type given struct {
	ref  Ref
	time int64
}

const (
	pageBits   = 12
	firstTable = 1 << 8 // a power of 2
)

func newOpened() *opened { return &opened{table: make([]int32, firstTable), fed: map[int32]given{}} }

// at returns the impression of a number.
func (o *opened) at(i int32) *slot { return &o.pages[i>>pageBits][i&(1<<pageBits-1)] }

// slot returns the place in the table where the search for a key begins.
func (o *opened) slot(key Key) int { return int(key.Lo) & (len(o.table) - 1) }

// find returns the number of the open impression with a key.
func (o *opened) find(key Key) (number int32, open bool) {
	for p := o.slot(key); o.table[p] != 0; p = (p + 1) & (len(o.table) - 1) {
		if i := o.table[p] - 1; o.at(i).key == key {
			return i, true
		}
	}
	return 0, false
}

// add adds an impression whose key is not open.
func (o *opened) add(s slot) (number int32) {
	if n := len(o.free); n > 0 {
		number, o.free = o.free[n-1], o.free[:n-1]
	} else {
		number = o.used
		if o.used++; int(number)>>pageBits == len(o.pages) {
			o.pages = append(o.pages, make([]slot, 1<<pageBits))
		}
	}
	*o.at(number) = s
	if o.count++; 4*o.count > 3*len(o.table) {
		o.grow()
	}
	o.put(number)
	o.due.push(o, number)
	return number
}

// put enters a number into the table.
func (o *opened) put(number int32) {
	p := o.slot(o.at(number).key)
	for o.table[p] != 0 {
		p = (p + 1) & (len(o.table) - 1)
	}
	o.table[p] = number + 1
}

func (o *opened) grow() {
	old := o.table
	o.table = make([]int32, 2*len(old))
	for _, n := range old {
		if n != 0 {
			o.put(n - 1)
		}
	}
}

// first returns the number of the impression with the least time.
func (o *opened) first() (number int32, some bool) {
	if len(o.due) == 0 {
		return 0, false
	}
	return o.due[0], true
}

// removeFirst closes the impression with the least time.
func (o *opened) removeFirst() {
	number := o.due.pop(o)
	mask := len(o.table) - 1
	p := o.slot(o.at(number).key)
	for o.table[p] != number+1 {
		p = (p + 1) & mask
	}
	for next := p; ; { // move those that p keeps apart from their home
		next = (next + 1) & mask
		n := o.table[next]
		if n == 0 {
			break
		}
		if home := o.slot(o.at(n - 1).key); (next-home)&mask >= (next-p)&mask {
			o.table[p], p = n, next
		}
	}
	o.table[p] = 0
	o.count--
	delete(o.fed, number)
	o.free = append(o.free, number)
}

// dueQueue is a heap of numbers by the time of their impressions.
type dueQueue []int32

func (q *dueQueue) push(o *opened, number int32) {
	h := append(*q, number)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if o.at(h[up]).time <= o.at(h[i]).time {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	*q = h
}

func (q *dueQueue) pop(o *opened) int32 {
	h := *q
	first, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		next := 2*i + 1
		if next >= n {
			break
		}
		if next+1 < n && o.at(h[next+1]).time < o.at(h[next]).time {
			next++
		}
		if o.at(h[i]).time <= o.at(h[next]).time {
			break
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
	*q = h
	return first
}
