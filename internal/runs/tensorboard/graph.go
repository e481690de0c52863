package tensorboard

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
)

// Field numbers, see the package comment.
const (
	graphNode, graphVersions, producer        = 1, 4, 1
	nodeName, nodeOp, nodeInput, nodeAttr     = 1, 2, 3, 5
	attrList, attrText, attrInt, listOfShapes = 1, 2, 3, 7
	producerVersion                           = 22 // of GraphDef, TensorFlow 1.0
)

// graph is a GraphDef under construction. Nodes are added after their inputs. TensorBoard
// groups nodes by the parts of their names before a slash.
type graph struct {
	def   []byte
	c     *config.Config
	l     layout.Layout
	names map[string]string // nodes of inputs and tables, by scope and name
	added map[string]int    // number of each node
	taken map[string]bool   // names of those nodes
}

// graphOf returns the model of a filled configuration as a GraphDef, from the inputs through
// tables and layers to the scores. It returns nil if the configuration is not valid.
func graphOf(c *config.Config) []byte {
	s := schema.Schema{Label: c.Label, Labels: c.Labels, Features: c.Features, Crosses: c.Crosses}
	columns, dense, err := encode.Outputs(s)
	if err != nil {
		return nil
	}
	g := &graph{c: c, l: layout.New(c, columns, dense), names: map[string]string{}, added: map[string]int{}, taken: map[string]bool{}}
	g.inputs(s)
	x := g.tables()
	for t, label := range s.All() {
		g.label(t, label, x)
	}
	g.def = message(g.def, graphVersions, protowire.AppendVarint(protowire.AppendTag(nil, producer, protowire.VarintType), producerVersion))
	return g.def
}

// attr is an attribute of a node, an int or a string.
type attr struct {
	name  string
	value any
}

// add adds a node whose output has the given columns, and returns its name.
func (g *graph) add(name, op string, inputs []string, columns int, attrs ...attr) string {
	n := protowire.AppendString(protowire.AppendTag(nil, nodeName, protowire.BytesType), name)
	n = protowire.AppendString(protowire.AppendTag(n, nodeOp, protowire.BytesType), op)
	for _, x := range inputs {
		n = protowire.AppendString(protowire.AppendTag(n, nodeInput, protowire.BytesType), x)
	}
	put := func(name string, value []byte) {
		entry := protowire.AppendString(protowire.AppendTag(nil, mapKey, protowire.BytesType), name)
		n = message(n, nodeAttr, message(entry, mapValue, value))
	}
	for _, a := range attrs {
		if i, is := a.value.(int); is {
			put(a.name, protowire.AppendVarint(protowire.AppendTag(nil, attrInt, protowire.VarintType), uint64(i)))
		} else if text := fmt.Sprint(a.value); text != "" {
			put(a.name, protowire.AppendString(protowire.AppendTag(nil, attrText, protowire.BytesType), text))
		}
	}
	if columns > 0 {
		put("_output_shapes", message(nil, attrList, message(nil, listOfShapes, shape(-1, columns))))
	}
	g.def = message(g.def, graphNode, n)
	g.added[name] = len(g.added)
	return name
}

// safe returns a name with the characters that node names may have.
func safe(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 128 && (r == '_' || r == '.' || r == '-' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z') {
			return r
		}
		return '_'
	}, name)
}

func (g *graph) input(name string) string { return g.node("inputs/", name) }
func (g *graph) table(name string) string { return g.node("tables/", name) }

// node returns the name of the node for an input or a table.
func (g *graph) node(scope, name string) string {
	known := g.names[scope+name]
	if known != "" {
		return known
	}
	node := scope + safe(name)
	for n := 2; g.taken[node]; n++ { // a_b and a/b
		node = fmt.Sprintf("%s%s.%d", scope, safe(name), n)
	}
	g.names[scope+name], g.taken[node] = node, true
	return node
}

// inputs adds a node for each feature and cross.
func (g *graph) inputs(s schema.Schema) {
	for _, f := range s.Features {
		width := 0 // a bag of keys
		if enc, _ := schema.EncodingOf(f.Encode); !enc.Sparse() {
			if width = f.Width(); !*g.c.Model.Deep {
				continue // only networks read it
			}
		}
		g.add(g.input(f.Name), "Placeholder", nil, width, attr{"field", f.Field}, attr{"encode", f.Encode})
	}
	for _, x := range s.Crosses {
		var of []string
		for _, name := range x.Of {
			of = append(of, g.input(name))
		}
		g.add(g.input(x.Name), "Cross", of, 0, attr{"buckets", int(x.Buckets)})
	}
}

// tables adds a node for each table, and the networks' input, whose name it returns; "" if
// the model has no network.
func (g *graph) tables() string {
	var join []string
	by, dims := make([][]string, len(g.l.Tables)), make([]int, len(g.l.Tables))
	for _, f := range g.l.Features {
		by[f.Table] = append(by[f.Table], g.input(f.Name))
		if f.DeepPart >= 0 {
			dims[f.Table] += g.l.Tables[f.Table].Parts[f.DeepPart].Dim
		}
	}
	for i, t := range g.l.Tables {
		name := g.add(g.table(t.Name), "EmbeddingTable", by[i], dims[i], attr{"values", t.Values})
		if dims[i] > 0 {
			join = append(join, name)
		}
	}
	if !*g.c.Model.Deep {
		return ""
	}
	for _, name := range g.l.Dense {
		join = append(join, g.input(name))
	}
	return g.add("embeddings_and_dense_inputs", "ConcatV2", join, g.l.Width)
}

// label adds the network of a label.
func (g *graph) label(t int, label schema.Label, x string) {
	scope, last := "", ""
	if t > 0 {
		scope, last = "tower/"+safe(label.Field)+"/", "_"+safe(label.Field)
	}
	var sum []string
	if *g.c.Model.Wide {
		bias := g.add(scope+"wide/bias", "VariableV2", nil, 1)
		wide := []string{bias}
		for i, t := range g.l.Tables {
			if g.wide(i) {
				wide = append(wide, g.table(t.Name))
			}
		}
		sum = append(sum, g.add(scope+"wide/sum", "AddN", wide, 1))
	}
	if x != "" {
		sum = append(sum, g.network(scope, x)...)
	}
	logit := g.add("logit"+last, "AddN", sum, 1)
	switch {
	case label.IsPoisson():
		g.add("score"+last, "Exp", []string{logit}, 1)
	case label.IsNumber():
		g.add("score"+last, "Identity", []string{logit}, 1)
	default:
		g.add("score"+last, "Sigmoid", []string{logit}, 1)
	}
}

// wide reports whether a table has wide weights of a feature.
func (g *graph) wide(table int) bool {
	for _, f := range g.l.Features {
		if f.Table == table && f.WidePart >= 0 {
			return true
		}
	}
	return false
}

// network adds a node for each operation with a name, and returns what adds to the logit.
func (g *graph) network(scope, x string) []string {
	n, err := network.New(g.c.Model, g.l.Shape())
	if err != nil {
		return nil
	}
	values := make([][]string, len(n.Ops))
	for i := range n.Ops {
		o := &n.Ops[i]
		var in []string
		for _, v := range o.In {
			if v == network.Input {
				in = append(in, x)
			} else {
				in = append(in, values[v]...)
			}
		}
		if values[i] = in; o.Name != "" {
			op, columns, attrs := nodeOf(o)
			values[i] = []string{g.add(scope+o.Name, op, in, columns, attrs...)}
		}
	}
	terms := values[len(n.Ops)-1]
	slices.SortStableFunc(terms, func(a, b string) int { return g.added[a] - g.added[b] })
	return terms
}

// nodeOf returns the kind of the node of an operation, its columns, which are 0 if the value is
// no matrix, and its attributes.
func nodeOf(o *network.Op) (op string, columns int, attrs []attr) {
	switch columns = o.Cols; o.Kind {
	case network.Linear:
		return "Linear", columns, nil
	case network.BatchNorm:
		return "BatchNorm", columns, nil
	case network.LayerNorm:
		return "LayerNorm", columns, nil
	case network.Activation:
		return strings.ToUpper(o.Act[:1]) + o.Act[1:], columns, nil
	case network.Dropout:
		return "Dropout", columns, []attr{{"rate", o.Rate}}
	case network.CrossLayer:
		return "CrossLayer", columns, []attr{{"rank", o.Rank}}
	case network.FM:
		return "FactorizationMachine", columns, nil
	case network.CINLayer:
		return "CompressedInteraction", 0, []attr{{"feature_maps", o.Maps}}
	case network.Multiply:
		return "Mul", columns, nil
	case network.Concat:
		return "ConcatV2", columns, nil
	}
	return "AddN", columns, nil
}
