package arrays

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// The machine of pickle, for state dicts only: it knows the opcodes and the functions that a state
// dict of PyTorch contains, and builds values from them without calling anything. Any other opcode
// or function is an error.

type (
	pyMark   struct{}
	pyTuple  []any
	pyGlobal string // module.name
	pyDict   struct{ keys, values []any }
	pyList   struct{ items []any }
	// pyStorage is a persistent id: ('storage', type, key, location, elements).
	pyStorage struct {
		kind, key string
		elements  int64
	}
	// pyTensor is torch._utils._rebuild_tensor_v2(storage, offset, size, stride, …).
	pyTensor struct {
		storage pyStorage
		offset  int64
		shape   []int
		strides []int64
	}
	pyOpaque string // a value that a state dict may contain and that is no array
)

// Limits of a pickle.
const (
	maxPickle = 256 << 20
	maxStack  = 1 << 20
)

// storages maps the types of storages to types of elements.
var storages = map[string]string{
	"torch.DoubleStorage": "F64", "torch.FloatStorage": "F32", "torch.HalfStorage": "F16", "torch.BFloat16Storage": "BF16",
	"torch.LongStorage": "I64", "torch.IntStorage": "I32", "torch.ShortStorage": "I16", "torch.CharStorage": "I8",
	"torch.ByteStorage": "U8", "torch.BoolStorage": "BOOL",
}

// harmless are functions whose results are no arrays: they are replaced by a placeholder.
var harmless = map[string]bool{"torch.device": true, "torch.Size": true, "torch.serialization._get_layout": true}

// refused is the error of a file that contains more than arrays.
type refused struct{ what string }

func (e refused) Error() string { return e.what }

type unpickler struct {
	in    *bytes.Reader
	stack []any
	memo  map[uint64]any
}

// unpickle returns the value of a pickle.
func unpickle(b []byte) (x any, err error) {
	u := &unpickler{in: bytes.NewReader(b), memo: map[uint64]any{}}
	defer func() {
		if p := recover(); p != nil {
			e, mine := p.(error)
			if _, is := e.(refused); !mine || !is {
				e = fmt.Errorf("pickle: offset %d: %v: it is damaged", len(b)-u.in.Len(), p)
			}
			x, err = nil, e
		}
	}()
	for {
		if len(u.stack) > maxStack || len(u.memo) > maxStack {
			panic("more values than are possible")
		}
		if op := u.byte(); op == '.' {
			return u.pop(), nil
		} else {
			u.step(op)
		}
	}
}

func (u *unpickler) byte() byte {
	c, err := u.in.ReadByte()
	if err != nil {
		panic("it ends too early")
	}
	return c
}

func (u *unpickler) bytes(n uint64) []byte {
	if n > uint64(u.in.Len()) {
		panic(fmt.Sprintf("a string of %d bytes, %d are left", n, u.in.Len()))
	}
	b := make([]byte, n)
	u.in.Read(b) // it has n bytes
	return b
}

func (u *unpickler) line() string {
	var b []byte
	for c := u.byte(); c != '\n'; c = u.byte() {
		b = append(b, c)
	}
	return string(b)
}

func (u *unpickler) push(x any) { u.stack = append(u.stack, x) }

func (u *unpickler) pop() any {
	x := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	return x
}

// marked returns the values above the last mark, and removes them and the mark.
func (u *unpickler) marked() []any {
	for i := len(u.stack) - 1; ; i-- {
		if _, is := u.stack[i].(pyMark); is {
			items := append([]any(nil), u.stack[i+1:]...)
			u.stack = u.stack[:i]
			return items
		}
	}
}

func (u *unpickler) step(op byte) {
	switch op {
	case 0x80: // PROTO
		if v := u.byte(); v > 5 {
			panic(fmt.Sprintf("protocol %d", v))
		}
	case 0x95: // FRAME
		u.bytes(8)
	case '(': // MARK
		u.push(pyMark{})
	case '}', ']', ')': // EMPTY_DICT, EMPTY_LIST, EMPTY_TUPLE
		u.push(map[byte]any{'}': &pyDict{}, ']': &pyList{}, ')': pyTuple{}}[op])
	case 't': // TUPLE
		u.push(pyTuple(u.marked()))
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		n := int(op - 0x84)
		items := append(pyTuple(nil), u.stack[len(u.stack)-n:]...)
		u.stack = u.stack[:len(u.stack)-n]
		u.push(items)
	case 'N', 0x88, 0x89: // NONE, NEWTRUE, NEWFALSE
		u.push(map[byte]any{'N': nil, 0x88: true, 0x89: false}[op])
	case 'q', 'r', 0x94: // BINPUT, LONG_BINPUT, MEMOIZE
		u.memo[u.slot(op)] = u.stack[len(u.stack)-1]
	case 'h', 'j': // BINGET, LONG_BINGET
		x, ok := u.memo[u.slot(op)]
		if !ok {
			panic("a reference to no value")
		}
		u.push(x)
	case 'c': // GLOBAL
		module := u.line()
		u.push(u.global(module, u.line()))
	case 0x93: // STACK_GLOBAL
		name := u.pop().(string)
		u.push(u.global(u.pop().(string), name))
	case 'R': // REDUCE
		args := u.pop().(pyTuple)
		u.push(u.call(u.pop(), args))
	case 'Q': // BINPERSID
		u.push(persistent(u.pop().(pyTuple)))
	case 's', 'u', 'a', 'e', 'b': // SETITEM, SETITEMS, APPEND, APPENDS, BUILD
		u.change(op)
	default:
		u.scalar(op)
	}
}

// slot returns the number of a value in the memo.
func (u *unpickler) slot(op byte) uint64 {
	switch op {
	case 'q', 'h':
		return uint64(u.byte())
	case 0x94:
		return uint64(len(u.memo))
	}
	return uint64(le.Uint32(u.bytes(4)))
}

// scalar pushes a number or a string.
func (u *unpickler) scalar(op byte) {
	switch op {
	case 'K': // BININT1
		u.push(int64(u.byte()))
	case 'M': // BININT2
		u.push(int64(le.Uint16(u.bytes(2))))
	case 'J': // BININT
		u.push(int64(int32(le.Uint32(u.bytes(4)))))
	case 0x8a: // LONG1
		b := u.bytes(uint64(u.byte()))
		if len(b) > 8 {
			panic("an integer of more than 64 bits")
		}
		x := int64(0)
		for i, c := range b {
			x |= int64(c) << (8 * i)
		}
		if n := len(b); n > 0 && n < 8 && b[n-1]&0x80 != 0 {
			x -= 1 << (8 * n)
		}
		u.push(x)
	case 'G': // BINFLOAT
		u.push(math.Float64frombits(binary.BigEndian.Uint64(u.bytes(8))))
	case 'X': // BINUNICODE
		u.push(string(u.bytes(uint64(le.Uint32(u.bytes(4))))))
	case 0x8c: // SHORT_BINUNICODE
		u.push(string(u.bytes(uint64(u.byte()))))
	default:
		panic(refused{fmt.Sprintf("it contains the pickle opcode %s, which a state dict does not", strconv.QuoteRune(rune(op)))})
	}
}

// change adds items to a dict or a list, or gives a dict attributes, which are ignored.
func (u *unpickler) change(op byte) {
	items := []any{}
	switch op {
	case 'u', 'e':
		items = u.marked()
	case 's':
		value := u.pop()
		items = []any{u.pop(), value}
	default:
		items = []any{u.pop()}
	}
	switch to := u.stack[len(u.stack)-1].(type) {
	case *pyDict:
		for i := 0; op != 'b' && i < len(items); i += 2 {
			to.keys, to.values = append(to.keys, items[i]), append(to.values, items[i+1])
		}
	case *pyList:
		to.items = append(to.items, items...)
	default:
		panic(refused{"it gives an object attributes: it contains more than a state dict"})
	}
}

// global returns a function or a type that a state dict may name.
func (u *unpickler) global(module, name string) any {
	full := module + "." + name
	_, storage := storages[full]
	switch full {
	case "collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter":
		return pyGlobal(full)
	}
	if storage || harmless[full] || module == "torch" && dtypes[name] {
		return pyGlobal(full)
	}
	panic(refused{fmt.Sprintf("it contains %s: it is a pickled object, not a state dict of tensors", full)})
}

var dtypes = map[string]bool{"float32": true, "float64": true, "float16": true, "bfloat16": true, "int64": true, "int32": true, "int16": true, "int8": true, "uint8": true, "bool": true}

// call returns what a function of a state dict builds.
func (u *unpickler) call(f any, args pyTuple) any {
	name, _ := f.(pyGlobal)
	switch {
	case name == "collections.OrderedDict" && len(args) == 0:
		return &pyDict{}
	case name == "torch._utils._rebuild_parameter" && len(args) > 0:
		return args[0]
	case harmless[string(name)]:
		return pyOpaque(name)
	case name == "torch._utils._rebuild_tensor_v2" && len(args) >= 4:
		t := pyTensor{storage: args[0].(pyStorage), offset: args[1].(int64)}
		for _, d := range args[2].(pyTuple) {
			t.shape = append(t.shape, int(d.(int64)))
		}
		for _, s := range args[3].(pyTuple) {
			t.strides = append(t.strides, s.(int64))
		}
		if len(t.shape) != len(t.strides) || t.offset < 0 {
			panic("a tensor of another number of strides than dimensions")
		}
		return t
	}
	panic(refused{fmt.Sprintf("it calls %v: it contains more than a state dict", f)})
}

// persistent returns the storage of a persistent id.
func persistent(id pyTuple) any {
	if len(id) != 5 || id[0] != "storage" {
		panic(refused{"it refers to something that is no storage"})
	}
	return pyStorage{storages[string(id[1].(pyGlobal))], id[2].(string), id[4].(int64)}
}
