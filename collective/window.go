package collective

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

const (
	// halfBytes is the length of one half of a staging window. A rank fills one half while
	// others read the other. Both fit into a core's cache.
	halfBytes = 256 << 10

	offsetBits  = 40 // bits of the offset in Note.Where: a window has at most 1 TiB
	shareBits   = 14 // bits of the number of a window in a channel
	maxShares   = 1<<shareBits - 1
	maxWindow   = 1 << offsetBits
	cacheLine   = 64
	blockBytes  = 32 << 10 // reduced at once; between blocks the goroutine can be stopped
	tableStride = 8        // bytes of an entry of an all-to-all table
)

// window is memory that all ranks share.
type window struct {
	id  uint64
	own []byte
	all [][]byte // by rank
}

// InWindow reports whether x is in memory of Alloc that other ranks can read.
func InWindow[T Number](c *Comm, x []T) bool {
	if c.hosts != nil {
		c = c.hosts.local
	}
	return c.locate(raw.Bytes(x)) != 0
}

// shares reports whether the ranks of this channel share memory. The first call allocates
// the staging windows. All ranks get the same answer.
func (c *sharing) shares() bool {
	if c.sh == nil {
		return false
	}
	if c.stage != nil {
		return true
	}
	stage, err := c.sh.Share(Tag{Channel: uint16(c.channel), Call: callAlloc}, 2*halfBytes)
	c.sh.Leave(c.channel)
	for r := range stage {
		if len(stage[r]) < 2*halfBytes {
			err = fmt.Errorf("the staging window of rank %d has %d bytes, want %d", r, len(stage[r]), 2*halfBytes)
		}
	}
	if err != nil || (c.size+1)*tableStride > halfBytes/2 {
		c.sh, c.shape.Windows = nil, false
		return false
	}
	n := c.size
	c.stage, c.notes, c.length, c.into = stage, make([]Note, n), make([]int, n), make([][]byte, n)
	c.crowded = n > c.cores()
	c.headers()
	return true
}

// cores returns the number of cores available to the ranks that share memory: from the
// transport if it counts them, else from this process.
func (c *sharing) cores() int {
	if k, ok := c.sh.(counter); ok {
		return k.Cores()
	}
	return runtime.NumCPU()
}

// counter is a Sharer that counts the cores available to its ranks.
type counter interface{ Cores() int }

// share allocates a window of the given length and adds it to every channel. It returns nil
// if the ranks cannot allocate it.
func (c *sharing) share(tag Tag, bytes int) ([]byte, error) {
	defer c.sh.Leave(c.channel)
	if c.count == maxShares {
		return nil, nil
	}
	all, err := c.sh.Share(tag, max(bytes, 1))
	if err != nil {
		if short := (*ShareError)(nil); errors.As(err, &short) {
			return nil, nil
		}
		return nil, c.fail(tag, err)
	}
	c.count++
	w := window{id: uint64(c.channel)<<shareBits | c.count, own: all[c.rank], all: all}
	c.group.addWindow(w)
	tag.Step = 1 << 16                             // above the steps of Share
	if err := c.sh.Meet(tag, Note{}); err != nil { // after this meeting all ranks know the window
		return nil, c.fail(tag, err)
	}
	return w.own, nil
}

// addWindow publishes w to every channel.
func (g *group) addWindow(w window) {
	for {
		old := g.windows.Load()
		var list []window
		if old != nil {
			list = append(list, *old...)
		}
		list = append(list, w)
		if g.windows.CompareAndSwap(old, &list) {
			return
		}
	}
}

// locate returns the place of b in the windows: the number of the window plus 1, and the
// offset in it. It returns 0 for other memory.
func (c *sharing) locate(b []byte) uint64 {
	list := c.group.windows.Load()
	if list == nil || len(b) == 0 {
		return 0
	}
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for i := range *list {
		w := &(*list)[i]
		base := uintptr(unsafe.Pointer(unsafe.SliceData(w.own)))
		if p >= base && p-base <= uintptr(len(w.own)) && uintptr(len(b)) <= uintptr(len(w.own))-(p-base) {
			return w.id<<offsetBits | uint64(p-base)
		}
	}
	return 0
}

// memory returns n bytes of rank's window at a place that rank announced.
func (c *sharing) memory(rank int, where uint64, n int) ([]byte, error) {
	id, offset := where>>offsetBits, where&(1<<offsetBits-1)
	if list := c.group.windows.Load(); list != nil {
		for i := range *list {
			if w := &(*list)[i]; w.id == id {
				if b := w.all[rank]; offset <= uint64(len(b)) && uint64(n) <= uint64(len(b))-offset {
					return b[offset : offset+uint64(n)], nil
				}
			}
		}
	}
	return nil, fmt.Errorf("rank %d announced %d bytes at %d of window %d, which it does not have", rank, n, offset, id)
}

// half returns the half of rank's staging window that is next.
func (c *sharing) half(rank int) []byte {
	at := (c.turn & 1) * halfBytes
	return c.stage[rank][at : at+halfBytes]
}

// meet makes a meeting and increments the step.
func (c *sharing) meet(tag *Tag, note Note) error {
	if err := c.sh.Meet(*tag, note); err != nil {
		return c.fail(*tag, err)
	}
	tag.Step++
	return nil
}

// met copies the notes of the last meeting, which the next meeting overwrites.
func (c *sharing) met() {
	for r := range c.notes {
		c.notes[r] = c.sh.Met(c.channel, r)
	}
}

// differ ends the group because rank announced another length than this rank expects.
func (c *endpoint) differ(tag Tag, rank int, theirs, own int64) error {
	err := &MismatchError{
		Peer: Side{Rank: rank, Tag: tag, Bytes: theirs},
		Own:  Side{Rank: c.rank, Tag: tag, Bytes: own},
	}
	return c.endGroup(tag, err)
}

// endGroup ends the group for all ranks with err.
func (c *endpoint) endGroup(tag Tag, err error) error {
	err = Cause(c.rank, err)
	c.t.Abort(err)
	if t, ok := c.t.(interface{ judge(error) error }); ok { // it knows the ranks by other numbers
		err = t.judge(err)
	}
	return c.fail(tag, err)
}
