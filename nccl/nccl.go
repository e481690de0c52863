package nccl

import (
	"errors"
	"fmt"
)

// ErrNotBuilt is the error of Open in a program that was built without the tag gpu.
var ErrNotBuilt = errors.New("nccl: this program was built without GPU support; build it with: CGO_ENABLED=1 go build -tags gpu -o wdlrun-gpu ./cmd/wdlrun")

// ID names a communicator. One rank makes it, and all have it before they initialise.
type ID [128]byte

// Context is a CUcontext, Stream a CUstream, Pointer an address in memory that the device
// can read and write.
type (
	Context uintptr
	Stream  uintptr
	Pointer uintptr
)

// Kind is an operation.
type Kind uint8

// The operations. Count is the number of elements that Send has. ReduceScatter is the
// exception: there it is the number that Recv has, and Send has Size times as many.
const (
	AllReduce     Kind = iota
	ReduceScatter      // chunk r of the sum goes to rank r
	AllGather          // Recv has Size times as many elements
	Broadcast          // from rank Peer; the others do not read Send
	Send               // to rank Peer
	Recv               // Count elements from rank Peer
	split              // of Comm.Split, for the record
	kinds
)

var kindNames = [kinds]string{"AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Send", "Recv", "Split"}

func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("operation %d", uint8(k))
	}
	return kindNames[k]
}

// paired reports whether the operation is between two ranks, not all.
func (k Kind) paired() bool { return k == Send || k == Recv }

// Type is an element type, with NCCL's number.
type Type uint8

// The element types.
const (
	Uint8    Type = 1
	Int64    Type = 4
	Float32  Type = 7
	BFloat16 Type = 9
)

// size returns the bytes of an element, 0 for no type.
func (t Type) size() int {
	switch t {
	case Uint8:
		return 1
	case BFloat16:
		return 2
	case Float32:
		return 4
	case Int64:
		return 8
	}
	return 0
}

func (t Type) String() string {
	switch t {
	case Uint8:
		return "uint8"
	case Int64:
		return "int64"
	case Float32:
		return "float32"
	case BFloat16:
		return "bf16"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Op is how a reduction joins elements, with NCCL's number.
type Op uint8

// The operations of reductions. The order of a sum is NCCL's: it depends on the number of
// ranks and on where they are.
const (
	Sum Op = 0
	Max Op = 2
	Min Op = 3
)

func (o Op) String() string {
	switch o {
	case Sum:
		return "sum"
	case Max:
		return "max"
	case Min:
		return "min"
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// Call is one call of a Launch.
type Call struct {
	Kind  Kind
	Type  Type
	Op    Op  // of a reduction
	Peer  int // the root of a Broadcast, the other rank of a Send or Recv
	Send  Pointer
	Recv  Pointer // may be Send: in place, as NCCL defines it
	Count int
	Place string // where in the program, for messages: "dense, bucket 2"; optional
}

// String describes the call for a reader: "AllReduce(sum) of 10 float32 (dense, bucket 2)".
func (k Call) String() string {
	s := k.Kind.String()
	switch k.Kind {
	case AllReduce, ReduceScatter:
		s += fmt.Sprintf("(%v)", k.Op)
	case Broadcast, Recv:
		s += fmt.Sprintf(" from rank %d", k.Peer)
	case Send:
		s += fmt.Sprintf(" to rank %d", k.Peer)
	}
	if k.Kind != split {
		s += fmt.Sprintf(" of %d %v", k.Count, k.Type)
	}
	if k.Place != "" {
		s += " (" + k.Place + ")"
	}
	return s
}

// check panics if a call cannot be right on any rank.
func (k Call) check(size int) {
	if k.Kind >= split || k.Type.size() == 0 || k.Count < 0 || k.Peer < 0 || k.Peer >= size {
		panic(fmt.Sprintf("nccl: Launch: %v, with rank %d of %d", k, k.Peer, size))
	}
}

// Version is the version of a library, as NCCL encodes it: 21903 is 2.19.3.
type Version int

// oldest is the first version that frees all of a communicator which is aborted while it is
// initialised.
const oldest Version = 21900

func (v Version) String() string {
	if v < 10000 { // before 2.9
		return fmt.Sprintf("%d.%d.%d", v/1000, v/100%10, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// minor returns major and minor: libraries that differ in these do not work together.
func (v Version) minor() Version { return v / 100 }

// Error is an error of NCCL or of the driver in one operation.
type Error struct {
	Doing string // the operation
	Rank  int    // this rank
	Code  int    // NCCL's
	Text  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("nccl: rank %d: %s: %s (error %d)", e.Rank, e.Doing, e.Text, e.Code)
}

// StuckError means that communicators could not be aborted in time. Memory and threads of
// the library are still in use, so the process must end.
type StuckError struct {
	Rank, Left, Of int
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("nccl: rank %d: %d of %d communicators were not aborted within %s; the process ends", e.Rank, e.Left, e.Of, abortTime)
}
