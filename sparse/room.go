package sparse

import "github.com/wdlrun/wdlrun/internal/raw"

// room is memory to send from, aligned to 8 bytes: a window that the other ranks
// read in place, once it is long enough, else memory of this rank.
type room struct {
	window []byte
	own    []uint64
	lack   int // bytes of the window that were missed; 0: none
}

// take returns n bytes; what they hold is not defined, and the last bytes taken
// are taken again.
func (r *room) take(n int) []byte {
	if n <= len(r.window) {
		return r.window[:n]
	}
	r.lack = max(r.lack, (n+n/2+7)&^7) // whole words: ordinary memory of a few bytes is aligned to no more
	r.own = resize(r.own, (n+7)/8)
	return raw.Bytes(r.own)[:n]
}

// rooms are those of a Lookup, in the order in which windows are allocated.
type rooms struct{ keys, rows, grads room }

// lacking reports whether a window was too short since the last one was made.
func (r *rooms) lacking() bool { return r.keys.lack+r.rows.lack+r.grads.lack > 0 }

// grow makes longer windows where this rank lacks them; every rank calls it.
func (r *rooms) grow(a Allocator) error {
	for _, x := range []*room{&r.keys, &r.rows, &r.grads} {
		window, err := a.Alloc(x.lack)
		if err != nil {
			return err
		}
		if x.lack > 0 {
			x.window, x.own, x.lack = window, nil, 0
		}
	}
	return nil
}

func bytesOf(x []uint64) []byte   { return raw.Bytes(x) }
func wordsOf(b []byte) []uint64   { return raw.Of[uint64](b) }
func floatsOf(b []byte) []float32 { return raw.Of[float32](b) }
