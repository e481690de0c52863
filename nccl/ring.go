package nccl

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"
)

const (
	// ringSize is how many calls are kept, paired ones among them.
	ringSize = 1024
	// reported is how many calls a heartbeat carries. The coordinator keeps as many.
	reported = 32
	// streams bounds how many streams' progress is kept. On others no call is taken to be
	// complete, so that too many are reported, which does no harm.
	streams = 16
)

// record is a call as it was launched.
type record struct {
	Call
	seq    uint64 // of the communicator's collective calls, from 1; paired calls: of the last one before
	stream Stream
}

// ring keeps the last calls of a communicator, and up to which of them each stream is
// complete.
type ring struct {
	records [ringSize]record
	n       uint64 // launched so far
	seq     uint64 // of the last collective call
	done    [streams]struct {
		stream Stream
		n      uint64 // calls that were launched before the stream was last seen to be complete
	}
	used int // of done
}

// add records a call.
func (r *ring) add(stream Stream, k *Call) {
	if !k.Kind.paired() {
		r.seq++
	}
	e := &r.records[r.n%ringSize]
	e.Call, e.seq, e.stream = *k, r.seq, stream
	r.n++
}

// complete notes which of the first n calls, if on stream, are complete.
func (r *ring) complete(stream Stream, n uint64) {
	for i := range r.used {
		if d := &r.done[i]; d.stream == stream {
			d.n = max(d.n, n)
			return
		}
	}
	if r.used < streams {
		r.done[r.used].stream, r.done[r.used].n = stream, n
		r.used++
	}
}

// isComplete reports whether the i-th call is known to be complete.
func (r *ring) isComplete(i uint64) bool {
	stream := r.records[i%ringSize].stream
	for _, d := range r.done[:r.used] {
		if d.stream == stream {
			return i < d.n
		}
	}
	return false
}

// first returns the number of the oldest call that is kept.
func (r *ring) first() uint64 { return r.n - min(r.n, ringSize) }

// pending returns the oldest call that is not known to be complete.
func (r *ring) pending() (record, bool) {
	for i := r.first(); i < r.n; i++ {
		if !r.isComplete(i) {
			return r.records[i%ringSize], true
		}
	}
	return record{}, false
}

// compared returns the collective calls to compare with other ranks' calls:
// the oldest that are not known to be complete.
func (r *ring) compared() (all []record) {
	for i := r.first(); i < r.n && len(all) < reported; i++ {
		if e := r.records[i%ringSize]; !e.Kind.paired() && !r.isComplete(i) {
			all = append(all, e)
		}
	}
	return all
}

// hash is equal for equal calls.
func (k Call) hash() uint64 {
	h := fnv.New64a()
	b := []byte{byte(k.Kind), byte(k.Type), 0}
	if k.Kind == AllReduce || k.Kind == ReduceScatter {
		b[2] = byte(k.Op)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(k.Count))
	if k.Kind == Broadcast {
		b = binary.LittleEndian.AppendUint64(b, uint64(k.Peer))
	}
	h.Write(b)
	return h.Sum64()
}

// String lists the calls, oldest first, a line each.
func (r *ring) String() string {
	var b strings.Builder
	for i := r.first(); i < r.n; i++ {
		e := r.records[i%ringSize]
		state := "launched"
		if r.isComplete(i) {
			state = "complete"
		}
		fmt.Fprintf(&b, "call %d on stream %#x: %v: %s\n", e.seq, uint64(e.stream), e.Call, state)
	}
	return b.String()
}
