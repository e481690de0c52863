package collective

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Sharer is a Transport whose ranks can access each other's memory. One goroutine at a
// time makes its calls on a channel, as with Exchange.
type Sharer interface {
	// Share allocates zeroed memory of the given length that all ranks see. It returns the
	// memory of every rank in this call, by rank; lengths may differ. If a rank cannot
	// allocate its memory, every rank returns a *ShareError and the group stays usable. The
	// memory is aligned at least to a cache line and stays until Close.
	Share(tag Tag, bytes int) (windows [][]byte, err error)

	// Meet sends note to all ranks and returns when every rank has called it. What a rank
	// has written to shared memory before the meeting is visible to all ranks after it.
	// Ranks that call Meet with different tags get a *MismatchError.
	Meet(tag Tag, note Note) error

	// Met returns the note of rank in the last meeting on channel.
	Met(channel, rank int) Note

	// Leave states that this rank will not access shared memory for channel until its next
	// Meet. Close waits for that.
	Leave(channel int)
}

// Note is the message that a rank sends to the others in a meeting.
type Note struct {
	Where uint64 // place of its buffer, which a Transport passes on unread; 0: not in a window
	Bytes uint64 // length of its part
}

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

// sharing reads and writes the memory of other ranks and meets them. sh is nil if the ranks
// share no memory.
type sharing struct {
	endpoint
	sh     Sharer
	stage  [][]byte // staging window of every rank, with two halves
	count  uint64   // windows made by Alloc
	turn   int      // the half to use next; the same on all ranks
	notes  []Note   // by rank
	length []int    // bytes of each rank's part
	into   [][]byte // destination of each rank's part; nil: not wanted

	crowded bool // more ranks than cores available to them

	peers [][]byte // the elements of each rank, in place
	rows  [][]byte // headers for rowsOf
}

// Alloc returns n zeroed elements in a window: memory that the ranks of one host share,
// so that calls on it copy less or nothing. If the ranks share no memory, or none is
// left, it returns ordinary memory, which works the same. Every rank calls Alloc in the
// same order as the other calls of the channel; n may differ. Once all ranks have the
// memory, it may be used on every channel, whole or in parts. It is freed when the
// transport is closed.
func Alloc[T Number](c *Comm, n int) ([]T, error) {
	if n < 0 || n > maxWindow/raw.Size[T]() {
		panic(fmt.Sprintf("collective: Alloc: %d elements", n))
	}
	tag, err := c.begin(callAlloc, Sum, typeOf[T](), 0, 0)
	if err != nil {
		return nil, err
	}
	if c.hosts != nil {
		x, err := alloc[T](c.hosts.local, tag, n)
		if err != nil {
			return nil, c.recordError(err)
		}
		return x, c.meetAll(tag)
	}
	return alloc[T](c, tag, n)
}

func alloc[T Number](c *Comm, tag Tag, n int) ([]T, error) {
	size := raw.Size[T]()
	if !c.shares() { // all ranks must meet, as if memory were shared
		return make([]T, n), c.meetAll(tag)
	}
	own, err := c.share(tag, n*size)
	if err != nil {
		return nil, err
	}
	if own == nil {
		return make([]T, n), nil
	}
	return raw.Of[T](own[: n*size : n*size]), nil
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
	return c.giveUp(tag, err)
}

// giveUp ends the group for all ranks with err.
func (c *endpoint) giveUp(tag Tag, err error) error {
	err = Cause(c.rank, err)
	c.t.Abort(err)
	if t, ok := c.t.(interface{ judge(error) error }); ok { // it knows the ranks by other numbers
		err = t.judge(err)
	}
	return c.fail(tag, err)
}
