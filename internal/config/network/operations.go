package network

import (
	"slices"
)

// Operation is the kind of an Op.
type Operation int

// The operations. x is the value of In[0].
const (
	Linear     Operation = iota // x·W + b, or x·W
	BatchNorm                   // each column normalised over the global batch
	LayerNorm                   // each group of columns of a row normalised
	Activation                  // Op.Act of each element
	Dropout                     // elements dropped in training
	CrossLayer                  // x₀ ⊙ (y·W + b) + y, or with W = V·U; reads x₀ and y
	FM                          // Σ_{f<g} ⟨e_f, e_g⟩ of the embeddings
	CINLayer                    // maps of weighted products of the embeddings and the maps below; reads x₀ and those maps
	CINSums                     // the sum of each map of all layers that it reads
	Add                         // sum of equal shapes
	Multiply                    // product of equal shapes, element by element
	Concat                      // columns of all inputs, side by side
)

// String returns the name of an operation for messages.
func (k Operation) String() string {
	return [...]string{
		"linear", "batch normalisation", "layer normalisation", "activation", "dropout", "cross layer", "factorization machine",
		"compressed interaction", "sums of feature maps", "addition", "multiplication", "concatenation",
	}[k]
}

// Support states what an operation can be combined with.
type Support struct {
	DistinctRows bool // it can read the input once for each distinct row of a batch
	SharedPrefix bool // it can read the columns that all rows share once
	BF16         bool // a perceptron that contains it can compute in bfloat16
	Threads      bool // several threads can compute parts of a batch
	Device       bool // a GPU can compute it
	OneWidth     bool // it requires embeddings of one width
	Unweighted   bool // it reads embeddings without weights: those of a new field change its value unless they are 0
}

// Supports returns what the operation supports. Outside perceptrons, bfloat16 has no meaning: the
// operation computes in float32.
func (o *Op) Supports() Support {
	s := Support{BF16: true, Threads: true, Device: true}
	switch o.Kind {
	case Linear:
		s.DistinctRows, s.SharedPrefix = o.Part != "", o.Part != ""
	case BatchNorm:
		s.BF16, s.Threads = false, false
	case Activation:
		s.BF16 = o.Act == "relu"
	case Dropout:
		s.BF16 = false
	case FM:
		s.DistinctRows, s.OneWidth, s.Unweighted = true, true, true
	case CINLayer:
		s.OneWidth = true
	case LayerNorm, Multiply, Concat:
		s.Device = false
	}
	return s
}

// Input stands for the network's input among the inputs of an Op.
const Input = -1

// Op is one operation of a network.
type Op struct {
	Kind   Operation
	Name   string  // prefix of the names of its parameters, such as deep/linear0; "" for sums at the end
	Part   string  // perceptron that contains it, such as deep; "" outside
	In     []int   // operations whose values it reads, or Input
	Cols   int     // columns of its value
	Params []Param // in the order of their declaration

	Setting string  // key of the configuration without which the operation is absent or another; "" for none
	Act     string  // of Activation: relu, tanh, sigmoid or identity
	Rate    float64 // of Dropout
	Rank    int     // of CrossLayer; 0: full
	Maps    int     // of CINLayer
	Groups  []int   // of LayerNorm: widths; columns after the last group are copied
}

// Param is a parameter of an Op.
type Param struct {
	Name       string
	Rows, Cols int
}

// Field is a feature with embeddings.
type Field struct {
	Name string
	Cols int
}

// Shape describes a row of the network's input: the embeddings of the fields, one after the
// other, and the dense inputs.
type Shape struct {
	Fields []Field
	Dense  int
}

// Width returns the columns of the input.
func (s Shape) Width() (n int) {
	for _, f := range s.Fields {
		n += f.Cols
	}
	return n + s.Dense
}

// Embed returns the width of the first embedding, which all have if an operation requires one
// width; 0 without embeddings.
func (s Shape) Embed() int {
	if len(s.Fields) == 0 {
		return 0
	}
	return s.Fields[0].Cols
}

// Network is a list of operations. Each follows its inputs. The last has one column, the logit.
type Network struct {
	Shape Shape
	Ops   []Op
}

// Cols returns the columns of the value of an operation, or of the input.
func (n *Network) Cols(op int) int {
	if op == Input {
		return n.Shape.Width()
	}
	return n.Ops[op].Cols
}

// Readers returns the operations that read the value of op, or the input.
func (n *Network) Readers(op int) (all []int) {
	for i := range n.Ops {
		if slices.Contains(n.Ops[i].In, op) {
			all = append(all, i)
		}
	}
	return all
}

// Chain returns the end of the longest sequence of operations from number from on of which each
// reads only the previous one, satisfies in, and is read by no other: [from, end).
func (n *Network) Chain(from int, in func(*Op) bool) (end int) {
	for end = from; end < len(n.Ops) && in(&n.Ops[end]); end++ {
		if end > from && (!slices.Equal(n.Ops[end].In, []int{end - 1}) || len(n.Readers(end-1)) > 1) {
			break
		}
	}
	return end
}

// First returns the first operation for which is returns true; nil if there is none.
func (n *Network) First(is func(Support) bool) *Op {
	for i := range n.Ops {
		if is(n.Ops[i].Supports()) {
			return &n.Ops[i]
		}
	}
	return nil
}

// String describes the operation in a message, such as: layer normalisation mask0/norm.
func (o *Op) String() string {
	if o.Name == "" {
		return o.Kind.String()
	}
	return o.Kind.String() + " " + o.Name
}
