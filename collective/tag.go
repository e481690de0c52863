package collective

import (
	"encoding/binary"
	"fmt"
)

// Call identifies the collective to which a message belongs.
type Call uint8

// The collectives. Those with exported names are the ones that a caller of Costs compares.
const (
	callNone Call = iota
	CallAllReduce
	CallReduceScatter
	CallAllGather
	callAllGatherV
	CallAllToAll
	CallAllToAllV
	CallBroadcast
	CallBarrier
	callAllGatherBytes
	callGatherBytes
	callBroadcastBytes
	callAlloc
	callAllToAllVisit
	callGather
	callSplit
	callMeasure
	calls
)

var callNames = [calls]string{"no call", "AllReduce", "ReduceScatter", "AllGather", "AllGatherV", "AllToAll",
	"AllToAllV", "Broadcast", "Barrier", "AllGatherBytes", "GatherBytes", "BroadcastBytes", "Alloc", "AllToAllVisit", "Gather", "Split", "Measure"}

func (c Call) String() string {
	if c >= calls {
		return fmt.Sprintf("call %d", uint8(c))
	}
	return callNames[c]
}

// Tag identifies a message. Sender and receiver must have equal tags. All fields except
// Step and Algorithm are the same for every message of a call on every rank.
type Tag struct {
	Channel   uint16 // an independent order of calls
	Call      Call
	Op        Op        // of a reduction
	Type      Type      // of the elements
	Algorithm Algorithm // how the call is carried out
	Root      uint16    // of a rooted call
	Step      uint32    // round of the schedule
	Group     uint32    // subset of ranks that calls, as Split numbers them; 0: all
	Seq       uint64    // number of the call on its channel, from 1
	Count     uint64    // elements, equal on every rank; the limit of a call on byte strings
}

// Describe returns a description of the call without its number and channel: "AllReduce(sum) of
// 10 float32".
func (t Tag) Describe() string {
	s := t.Call.String()
	switch t.Call {
	case CallAllReduce, CallReduceScatter:
		s += fmt.Sprintf("(%v)", t.Op)
	case CallBroadcast, callBroadcastBytes:
		s += fmt.Sprintf(" from rank %d", t.Root)
	case callGatherBytes, callGather:
		s += fmt.Sprintf(" to rank %d", t.Root)
	}
	switch t.Call {
	case CallBarrier, callAlloc, callSplit, callMeasure:
	case CallAllToAllV, callAllToAllVisit:
		s += fmt.Sprintf(" of %v", t.Type)
	case callAllGatherBytes, callGatherBytes, callBroadcastBytes:
		s += fmt.Sprintf(" of at most %d bytes", t.Count)
	default:
		s += fmt.Sprintf(" of %d %v", t.Count, t.Type)
	}
	return s
}

// String returns a description of the message: "AllReduce(sum) of 10 float32, step 2 of
// call 7 on channel 0".
func (t Tag) String() string {
	s := t.Describe()
	if t.Algorithm != Windows {
		s += fmt.Sprintf(" by %v", t.Algorithm)
	}
	s += fmt.Sprintf(", step %d of call %d on channel %d", t.Step, t.Seq, t.Channel)
	if t.Group != 0 {
		s += " of a part of the ranks"
	}
	return s
}

// TagSize is the number of bytes of an encoded Tag.
const TagSize = 32

// Append appends the encoding of t to b: TagSize bytes, little-endian.
//
//	0        2     3    4     5    6      8      12     16    24      32
//	| channel| call| op | type| alg| root | step | group| seq | count |
func (t Tag) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, t.Channel)
	b = append(b, byte(t.Call), byte(t.Op), byte(t.Type), byte(t.Algorithm))
	b = binary.LittleEndian.AppendUint16(b, t.Root)
	b = binary.LittleEndian.AppendUint32(b, t.Step)
	b = binary.LittleEndian.AppendUint32(b, t.Group)
	b = binary.LittleEndian.AppendUint64(b, t.Seq)
	return binary.LittleEndian.AppendUint64(b, t.Count)
}

// ParseTag is the inverse of Append. It also parses values of later versions of this
// package; comparing the tags then shows the difference.
func ParseTag(b []byte) (Tag, error) {
	if len(b) != TagSize {
		return Tag{}, fmt.Errorf("collective: tag of %d bytes, want %d", len(b), TagSize)
	}
	return Tag{
		Channel:   binary.LittleEndian.Uint16(b),
		Call:      Call(b[2]),
		Op:        Op(b[3]),
		Type:      Type(b[4]),
		Algorithm: Algorithm(b[5]),
		Root:      binary.LittleEndian.Uint16(b[6:]),
		Step:      binary.LittleEndian.Uint32(b[8:]),
		Group:     binary.LittleEndian.Uint32(b[12:]),
		Seq:       binary.LittleEndian.Uint64(b[16:]),
		Count:     binary.LittleEndian.Uint64(b[24:]),
	}, nil
}
