package export

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// Numbers of the fields and types of onnx.proto (ONNX 1.12, IR version 8) that are used.
const (
	modelIR, modelProducer, modelGraph, modelOpset, modelMetadata = 1, 2, 7, 8, 14
	opsetDomain, opsetVersion                                     = 1, 2
	graphNode, graphName, graphInitializer, graphInput, graphOut  = 1, 2, 5, 11, 12
	nodeInput, nodeOutput, nodeName, nodeOp, nodeAttr, nodeDomain = 1, 2, 3, 4, 5, 7
	attrName, attrFloat, attrInt, attrInts, attrStrings, attrType = 1, 2, 3, 8, 9, 20
	typeFloat, typeInt, typeInts, typeStrings                     = 1, 2, 7, 8
	tensorDims, tensorType, tensorName, tensorRaw                 = 1, 2, 8, 9
	tensorExternal, tensorLocation                                = 13, 14
	valueName, valueType                                          = 1, 2
	entryKey, entryValue                                          = 1, 2

	onnxFloat, onnxInt32, onnxInt64, onnxString, onnxDouble = 1, 6, 7, 8, 11

	onnxIR, onnxOpset, onnxML = 8, 17, 3
	mlDomain                  = "ai.onnx.ml"
)

// message is an encoded protocol buffer.
type message []byte

func (m *message) number(field protowire.Number, x int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(x))
}

func (m *message) text(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

func (m *message) float(field protowire.Number, x float32) {
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, field, protowire.Fixed32Type), math.Float32bits(x))
}

func (m *message) entry(field protowire.Number, key, value string) {
	var e message
	e.text(entryKey, key)
	e.text(entryValue, value)
	m.bytes(field, e)
}

// attr is an attribute of a node: an int, a float32, []int or []string.
type attr struct {
	name  string
	value any
}

func (a attr) encode() (m message) {
	m.text(attrName, a.name)
	switch v := a.value.(type) {
	case int:
		m.number(attrInt, int64(v))
		m.number(attrType, typeInt)
	case float32:
		m.float(attrFloat, v)
		m.number(attrType, typeFloat)
	case []int:
		var packed message
		for _, x := range v {
			packed = protowire.AppendVarint(packed, uint64(x))
		}
		m.bytes(attrInts, packed)
		m.number(attrType, typeInts)
	case []string:
		for _, x := range v {
			m.text(attrStrings, x)
		}
		m.number(attrType, typeStrings)
	default:
		panic(fmt.Sprintf("export: attribute %s of type %T", a.name, a.value))
	}
	return m
}

// valuePrefix is the prefix of the names of intermediate values.
const valuePrefix = "wdlrun:"

// graph collects nodes. Intermediate values are named by valuePrefix and a number.
type graph struct {
	nodes, inits, inputs, outputs message
	names                         int
	consts                        map[string]string // by content
	rows                          bool              // OnnxOptions.Rows
	data                          *writer           // of large tensors
	err                           error
}

// node appends a node and returns the name of its output.
func (g *graph) node(op string, in []string, attrs ...attr) string {
	out := g.name()
	g.append(op, in, []string{out}, attrs)
	return out
}

// name returns a name for a value.
func (g *graph) name() string {
	g.names++
	return valuePrefix + strconv.Itoa(g.names)
}

func (g *graph) append(op string, in, out []string, attrs []attr) {
	var m message
	for _, x := range in {
		m.text(nodeInput, x)
	}
	for _, x := range out {
		m.text(nodeOutput, x)
	}
	m.text(nodeName, "node_"+out[0])
	m.text(nodeOp, op)
	for _, a := range attrs {
		m.bytes(nodeAttr, a.encode())
	}
	if op == "LabelEncoder" {
		m.text(nodeDomain, mlDomain)
	}
	g.nodes.bytes(graphNode, m)
}

// on is node for operators without attributes.
func (g *graph) on(op string, in ...string) string { return g.node(op, in) }

// inlineBytes is the size up to which tensors are stored in the graph.
const inlineBytes = 1 << 10

// tensor adds an initializer. Large ones go to the data file, aligned for mapping.
func (g *graph) tensor(name string, kind int64, dims []int, b []byte) string {
	var m message
	for _, d := range dims {
		m.number(tensorDims, int64(d))
	}
	m.number(tensorType, kind)
	m.text(tensorName, name)
	if len(b) <= inlineBytes {
		m.bytes(tensorRaw, b)
	} else {
		const page = 4096
		if _, err := g.data.Write(make([]byte, -g.data.n&(page-1))); g.err == nil {
			g.err = err
		}
		m.entry(tensorExternal, "location", onnxData)
		m.entry(tensorExternal, "offset", strconv.FormatInt(g.data.n, 10))
		m.entry(tensorExternal, "length", strconv.Itoa(len(b)))
		m.number(tensorLocation, 1)
		if _, err := g.data.Write(b); g.err == nil {
			g.err = err
		}
	}
	g.inits.bytes(graphInitializer, m)
	return name
}

func (g *graph) floats(name string, dims []int, x []float32) string {
	return g.tensor(name, onnxFloat, dims, raw.Bytes(x))
}

// constant adds a small unnamed tensor; equal ones are shared.
func (g *graph) constant(kind int64, dims []int, b []byte) string {
	id := fmt.Sprint(kind, dims, b)
	if name, ok := g.consts[id]; ok {
		return name
	}
	g.consts[id] = g.tensor(g.name(), kind, dims, b)
	return g.consts[id]
}

func (g *graph) ints(x ...int64) string { return g.constant(onnxInt64, []int{len(x)}, raw.Bytes(x)) }

func (g *graph) scalar(x float32) string {
	return g.constant(onnxFloat, nil, binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
}

func (g *graph) scalarInt(x int64) string {
	return g.constant(onnxInt64, nil, binary.LittleEndian.AppendUint64(nil, uint64(x)))
}

// numberType is the type of inputs of numbers.
func (g *graph) numberType() string {
	if g.rows {
		return "float"
	}
	return "double"
}

func (g *graph) scalarNumber(x float64) string { return g.numbers(nil, []float64{x}) }

// numbers adds a small tensor of the type of inputs of numbers.
func (g *graph) numbers(dims []int, x []float64) string {
	if !g.rows {
		return g.constant(onnxDouble, dims, raw.Bytes(x))
	}
	short := make([]float32, len(x))
	for i, v := range x {
		short[i] = float32(v)
	}
	return g.constant(onnxFloat, dims, raw.Bytes(short))
}

func (g *graph) scalarRow(x int) string {
	return g.constant(onnxInt32, nil, binary.LittleEndian.AppendUint32(nil, uint32(int32(x))))
}

// valueInfo describes an input or output: dims are numbers or names of dimensions.
func valueInfo(name string, kind int64, dims ...any) (m message) {
	var shape, tensor, of message
	for _, d := range dims {
		var dim message
		switch d := d.(type) {
		case int:
			dim.number(1, int64(d))
		case string:
			dim.text(2, d)
		}
		shape.bytes(1, dim)
	}
	tensor.number(1, kind)
	tensor.bytes(2, shape)
	of.bytes(1, tensor)
	m.text(valueName, name)
	m.bytes(valueType, of)
	return m
}

// model returns the whole file.
func (g *graph) model(name string, meta [][2]string) []byte {
	var m, body, opset message
	body = append(body, g.nodes...)
	body.text(graphName, name)
	body = append(append(append(body, g.inits...), g.inputs...), g.outputs...)
	m.number(modelIR, onnxIR)
	m.text(modelProducer, "wdlrun")
	m.bytes(modelGraph, body)
	opset.text(opsetDomain, "")
	opset.number(opsetVersion, onnxOpset)
	m.bytes(modelOpset, opset)
	opset = nil
	opset.text(opsetDomain, mlDomain)
	opset.number(opsetVersion, onnxML)
	m.bytes(modelOpset, opset)
	for _, e := range meta {
		m.entry(modelMetadata, e[0], e[1])
	}
	return m
}

const (
	onnxModel = "model.onnx"
	onnxData  = "model.data"
	onnxCheck = "check.json"
	onnxLogit = "logit"
	onnxScore = "score"
)
