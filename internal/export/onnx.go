package export

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse"
)

// table adds a table to the graph.
func (g *graph) table(s *sorted) (*onnxTable, error) {
	of := s.of
	t, n, width := &onnxTable{name: of.Name, keys: s.keys}, len(s.keys), widthOf(of)
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

// body adds inputs, tables and pooling. Records that are to be scored are scored with the rows of the tables.
func (g *graph) body(src Source, c *config.Config, e *encode.Encoder, l layout.Layout, records *sample) (b onnxBody, s *inputSet, err error) {
	fits, err := features(src.Encoder)
	if err != nil {
		return b, nil, err
	}
	for i := range fits {
		if f := &fits[i]; f.MaxLen != 0 {
			return b, nil, fmt.Errorf("feature %s: max_len is not part of an ONNX graph; train without it on lists that are cut before", f.Name)
		}
	}
	var tables []*onnxTable
	for i, of := range l.Tables {
		rows := sorted{of: of}
		if err := rows.load(src.Checkpoint, compareSigned); err != nil {
			return b, nil, err
		}
		t, err := g.table(&rows)
		if err != nil {
			return b, nil, err
		}
		tables = append(tables, t)
		records.loadRows(i, &rows)
	}
	s = &inputSet{g: g, e: e, fits: fits, multi: records.multi(c), features: map[string][]string{}, tables: map[string]*onnxTable{}}
	for _, ft := range l.Features {
		s.tables[ft.Name] = tables[ft.Table]
	}
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
	return b, s, g.err
}

// OnnxOptions configure WriteONNX.
type OnnxOptions struct {
	// Rows makes numbers of rows, int32, the inputs of categorical features, and float the type of
	// numbers: for runtimes without LabelEncoder, int64 or double.
	Rows bool
	// Warn, if not nil, is called with the reason if there are no records to check the model with.
	Warn func(line string)
}

// OnnxResult describes the output of WriteONNX.
type OnnxResult struct {
	Inputs  []OnnxInput
	Checked int // records in check.json
}

// WriteONNX writes a model as DIR/model.onnx, opset 17 with ai.onnx.ml 3, and DIR/model.data.
// Its outputs are logit and score, N × labels. DIR/check.json has records with their logits, with
// which DIR/check.py checks a runtime.
func WriteONNX(ctx context.Context, src Source, dir string, opt OnnxOptions) (r OnnxResult, err error) {
	err = publish(dir, func(tmp string) error {
		if err := os.Mkdir(tmp, 0o755); err != nil {
			return err
		}
		r, err = writeGraph(ctx, src, tmp, opt)
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

// writeGraph writes the files of a model.
func writeGraph(ctx context.Context, src Source, dir string, opt OnnxOptions) (r OnnxResult, err error) {
	c, e, l, err := parse(src.Config, src.Encoder)
	if err != nil {
		return r, err
	}
	p, err := step.NewParameters(c, l)
	if err == nil {
		err = p.Load(src.Checkpoint)
	}
	if err != nil {
		return r, err
	}
	records, none := takeSample(ctx, src.records(c), c.Features, e, len(l.Tables))
	if none != nil && src.Records != nil {
		return r, none
	}
	if none != nil && ctx.Err() == nil && opt.Warn != nil {
		opt.Warn(fmt.Sprintf("the model has no %s, records to check it with: %v; a field without separator is taken to have one value in a row; name files of records with -data", onnxCheck, none))
	}
	g := &graph{consts: map[string]string{}, rows: opt.Rows, data: newWriter(system{}, dir, onnxData)}
	if g.err = g.data.err; g.err != nil {
		return r, g.err
	}
	body, inputs, err := g.body(src, c, e, l, records)
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
	if err == nil {
		err = g.save(dir, [][2]string{{"step", fmt.Sprint(src.Checkpoint.Step())}, {"kind", c.Model.Kind}})
	}
	if err == nil && opt.Rows {
		err = inputs.lookups(dir)
	}
	if err == nil {
		err = writeJSON(dir, "inputs.json", inputs.all)
	}
	if err != nil {
		return r, err
	}
	r.Inputs = inputs.all
	r.Checked, err = records.write(dir, c, l, p, inputs)
	return r, err
}

// save writes the graph.
func (g *graph) save(dir string, meta [][2]string) error {
	text := g.model(filepath.Base(dir), meta)
	const most = 1 << 31 // bytes of a protocol buffer
	if len(text) >= most {
		return fmt.Errorf("%s has %d bytes with the keys of all tables, at most %d are possible: use encode: hash with fewer buckets", onnxModel, len(text), most-1)
	}
	_, err := whole(system{}, dir, onnxModel, content(text))
	return err
}
