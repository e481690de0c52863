package collective

import (
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// The functions below implement the order of summation of the package comment for a rank
// that holds the elements of all ranks.

// headers allocates a header for every rank's buffer.
func (c *sharing) headers() {
	if c.peers == nil {
		c.peers, c.rows = make([][]byte, c.size), make([][]byte, c.size+1)
	}
}

// rowsOf views k row headers of c as slices of T. They are valid during one call. A slice
// header has the same layout for every element type.
func rowsOf[T Number](c *Comm, k int) [][]T {
	rows := c.rows[:k]
	return *(*[][]T)(unsafe.Pointer(&rows))
}

// joinSpan sets dst to the reduction of elements lo to hi of n. If dst is nil, it sets
// every c.peers to the reduction. c.peers hold the elements from base on.
func joinSpan[T Number](c *Comm, tag Tag, n, lo, hi, base int, dst []T) {
	if c.hosts != nil && lo < hi && (tag.Op != ExactSum || orderless(tag.Op, tag.Type)) {
		joinHosts(c, tag, n, lo, hi, base, dst)
		return
	}
	for i := range c.size { // each chunk has its own order of ranks
		a, b := Chunk(n, c.size, i)
		if a, b = max(a, lo), min(b, hi); a >= b {
			continue
		}
		rows := rowsOf[T](c, c.size+1)
		for k := range c.size {
			rows[k] = raw.Of[T](c.peers[(i+1+k)%c.size])[a-base : b-base]
		}
		if dst == nil {
			joinRows(tag, rows[:c.size], rows[:c.size])
			continue
		}
		rows[c.size] = dst[a-lo : b-lo]
		joinRows(tag, rows[c.size:], rows[:c.size])
	}
}

// joinRows sets every row of dst to the reduction of rows, first to last.
func joinRows[T Number](tag Tag, dst, rows [][]T) {
	switch {
	case tag.Op == Sum && tag.Type != BFloat16 && len(rows[0]) <= few:
		sumFew(dst, rows)
	case tag.Type == Float32 && tag.Op == Sum:
		f32.SumRows(*(*[][]float32)(unsafe.Pointer(&dst)), *(*[][]float32)(unsafe.Pointer(&rows)))
	case tag.Op == ExactSum && !orderless(tag.Op, tag.Type):
		sumExactly(tag.Type, dst, rows)
	default:
		joinBlocks(tag, dst, rows)
	}
}

// few is the number of elements below which a plain loop is faster than calling a kernel.
const few = 4

func sumFew[T Number](dst, rows [][]T) {
	for i, sum := range rows[0] {
		for _, r := range rows[1:] {
			sum += r[i]
		}
		for _, d := range dst {
			d[i] = sum
		}
	}
}

// joinBlocks is joinRows for every type, in blocks that stay in cache.
func joinBlocks[T Number](tag Tag, dst, rows [][]T) {
	var block [256]T
	for lo := 0; lo < len(rows[0]); lo += len(block) {
		hi := min(lo+len(block), len(rows[0]))
		sum := block[:copy(block[:], rows[0][lo:hi])]
		for _, r := range rows[1:] {
			reduce(tag.Op, tag.Type, sum, sum, r[lo:hi])
		}
		for _, d := range dst {
			copy(d[lo:hi], sum)
		}
	}
}

// joinHosts is joinSpan in the order of summation of NewHosts: the ranks of each host in
// the order of a flat group, then the hosts, separately for the chunk of each rail.
func joinHosts[T Number](c *Comm, tag Tag, n, lo, hi, base int, dst []T) {
	h := c.hosts
	words := grow[T](&h.words, len(h.ranks)*(hi-lo))
	for host, mates := range h.ranks {
		sum := words[host*(hi-lo):][:hi-lo]
		h.sums[host] = raw.Bytes(sum)
		for i := range mates {
			a, b := Chunk(n, len(mates), i)
			if a, b = max(a, lo), min(b, hi); a >= b {
				continue
			}
			rows := rowsOf[T](c, len(mates)+1)
			for k := range mates {
				rows[k] = raw.Of[T](c.peers[mates[(i+1+k)%len(mates)]])[a-base : b-base]
			}
			rows[len(mates)] = sum[a-lo : b-lo]
			joinRows(tag, rows[len(mates):], rows[:len(mates)])
		}
	}
	rows := rowsOf[T](c, len(h.ranks)+1)
	for rail := range h.rails {
		from, to := Chunk(n, h.rails, rail)
		for i := range h.ranks {
			a, b := Chunk(to-from, len(h.ranks), i)
			if a, b = max(from+a, lo), min(from+b, hi); a >= b {
				continue
			}
			for k := range h.ranks {
				rows[k] = raw.Of[T](h.sums[(i+1+k)%len(h.ranks)])[a-lo : b-lo]
			}
			rows[len(h.ranks)] = dst[a-lo : b-lo]
			joinRows(tag, rows[len(h.ranks):], rows[:len(h.ranks)])
		}
	}
}
