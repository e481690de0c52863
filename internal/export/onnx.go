package export

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse"
)

// table adds a table to the graph.
func (g *graph) table(src Source, of sparse.Table) (*onnxTable, error) {
	s := sorted{of: of}
	if err := s.load(src.Checkpoint, compareSigned); err != nil {
		return nil, err
	}
	t, n, width := &onnxTable{keys: s.keys}, len(s.keys), widthOf(of)
	from := 0
	for _, p := range of.Parts {
		part := make([]float32, 0, (n+1)*p.Dim)
		for i := range n {
			part = append(part, s.rows[i*width+from:i*width+from+p.Dim]...)
		}
		part = append(part, make([]float32, p.Dim)...)
		t.parts = append(t.parts, g.floats("table/"+of.Name+"/"+p.Name, []int{n + 1, p.Dim}, part))
		from += p.Dim
	}
	return t, g.err
}

// pool sums the rows of a part for each sample: N×dim.
func (g *graph) pool(rows string, x found, pooling sparse.Pooling) string {
	got := g.on("Gather", rows, x.at)
	if x.mask == "" {
		return got
	}
	w := g.node("Cast", []string{x.mask}, attr{"to", onnxFloat})
	if x.weights != "" {
		w = g.on("Mul", w, x.weights)
	}
	if pooling != sparse.Sum {
		of := w
		if pooling == sparse.SqrtN {
			of = g.on("Mul", w, w)
		}
		of = g.node("ReduceSum", []string{of, g.ints(1)}, attr{"keepdims", 1})
		if pooling == sparse.SqrtN {
			of = g.on("Sqrt", of)
		}
		none := g.on("Equal", of, g.scalar(0))
		w = g.on("Where", none, g.scalar(0), g.on("Div", w, g.on("Where", none, g.scalar(1), of)))
	}
	return g.node("ReduceSum", []string{g.on("Mul", got, g.on("Unsqueeze", w, g.ints(2))), g.ints(1)}, attr{"keepdims", 0})
}

// body adds inputs, tables and pooling.
func (g *graph) body(src Source, c *config.Config, l layout.Layout, index []byte) (b onnxBody, in []OnnxInput, err error) {
	fits, err := features(index)
	if err != nil {
		return b, nil, err
	}
	var tables []*onnxTable
	for _, of := range l.Tables {
		t, err := g.table(src, of)
		if err != nil {
			return b, nil, err
		}
		tables = append(tables, t)
	}
	_, e, _, err := parse(src.Config, src.Encoder)
	if err != nil {
		return b, nil, err
	}
	for i := range fits {
		if f := &fits[i]; f.MaxLen != 0 {
			return b, nil, fmt.Errorf("feature %s: max_len is not part of an ONNX graph; train without it on lists that are cut before", f.Name)
		}
	}
	s := &inputSet{g: g, e: e}
	labels := 1 + len(c.Labels)
	b.wide = make([][]string, labels)
	all := s.locate(l, fits, e.Sparse(), tables)
	for i, ft := range l.Features {
		parts := tables[ft.Table].parts
		if ft.DeepPart >= 0 && *c.Model.Deep {
			b.embeddings = append(b.embeddings, g.pool(parts[ft.DeepPart], all[i], ft.Pooling))
		}
		for label := 0; ft.WidePart >= 0 && *c.Model.Wide && label < labels; label++ {
			b.wide[label] = append(b.wide[label], g.pool(parts[ft.WidePart+label], all[i], ft.Pooling))
		}
	}
	for _, f := range fits {
		if e, _ := schema.EncodingOf(f.Encode); !e.Sparse() {
			b.dense = append(b.dense, s.dense(&f))
		}
	}
	return b, s.all, g.err
}

// OnnxResult describes the output of WriteONNX.
type OnnxResult struct {
	Inputs []OnnxInput
}

// WriteONNX writes a model as DIR/model.onnx, opset 17 with ai.onnx.ml 3, and DIR/model.data.
// Its outputs are logit and score, N × labels.
func WriteONNX(ctx context.Context, src Source, dir string) (r OnnxResult, err error) {
	err = publish(dir, func(tmp string) error {
		if err := os.Mkdir(tmp, 0o755); err != nil {
			return err
		}
		r.Inputs, err = writeGraph(src, tmp)
		if err == nil {
			err = writeJSON(tmp, "inputs.json", r.Inputs)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		return system{}.Sync(tmp)
	})
	if err != nil {
		err = fmt.Errorf("export: onnx: %w", err)
	}
	return r, err
}

// writeJSON writes x as JSON.
func writeJSON(dir, name string, x any) error {
	text, err := json.MarshalIndent(x, "", "  ")
	if err == nil {
		_, err = whole(system{}, dir, name, content(append(text, '\n')))
	}
	return err
}

func writeGraph(src Source, dir string) ([]OnnxInput, error) {
	c, _, l, err := parse(src.Config, src.Encoder)
	if err != nil {
		return nil, err
	}
	p, err := step.NewParameters(c, l)
	if err == nil {
		err = p.Load(src.Checkpoint)
	}
	if err != nil {
		return nil, err
	}
	g := &graph{consts: map[string]string{}, data: newWriter(system{}, dir, onnxData)}
	if g.err = g.data.err; g.err != nil {
		return nil, g.err
	}
	body, inputs, err := g.body(src, c, l, src.Encoder)
	if err == nil {
		err = g.networks(c, l, p, body)
	}
	g.data.end("content", 1)
	if _, e := g.data.close(); err == nil {
		err = e
	}
	if err == nil {
		err = g.err
	}
	if err != nil {
		return nil, err
	}
	name := filepath.Base(dir)
	text := g.model(name, [][2]string{{"step", fmt.Sprint(src.Checkpoint.Step())}, {"kind", c.Model.Kind}})
	const most = 1 << 31 // bytes of a protocol buffer
	if len(text) >= most {
		return nil, fmt.Errorf("%s has %d bytes with the keys of all tables, at most %d are possible: use encode: hash with fewer buckets", onnxModel, len(text), most-1)
	}
	_, err = whole(system{}, dir, onnxModel, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	return inputs, err
}
