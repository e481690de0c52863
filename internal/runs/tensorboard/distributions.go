package tensorboard

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/model/metrics"
)

// Field numbers, see the package comment.
const (
	tensorDoubles, typeDouble  = 6, 2
	classTensor                = 2
	curveThresholds, curveRows = 2, 6
)

// distribution appends an event with the histograms of the tables and the curves of the
// labels.
func (f *file) distribution(d *metrics.Distributions) error {
	var summary []byte
	add := func(tag, plugin string, content, tensor []byte) {
		v := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), tag)
		v = message(v, valueTensor, tensor)
		if !f.known[tag] {
			f.known[tag] = true
			data := protowire.AppendString(protowire.AppendTag(nil, pluginName, protowire.BytesType), plugin)
			m := message(nil, metadataPlugin, message(data, pluginContent, content))
			m = protowire.AppendVarint(protowire.AppendTag(m, metadataClass, protowire.VarintType), classTensor)
			v = message(v, valueMetadata, m)
		}
		summary = message(summary, summaryValue, v)
	}
	for _, t := range d.Tables {
		for _, x := range []struct {
			name string
			of   metrics.Histogram
		}{{"embedding_norm/", t.Embeddings}, {"gradient_norm/", t.Gradients}} {
			if len(x.of.Counts) > 0 {
				add(x.name+t.Table, "histograms", nil, histogram(x.of))
			}
		}
	}
	for _, x := range d.PR {
		tag := "pr_curve"
		if x.Label != "" {
			tag += "/" + x.Label
		}
		n := protowire.AppendVarint(protowire.AppendTag(nil, curveThresholds, protowire.VarintType), uint64(len(x.Positive)))
		add(tag, "pr_curves", n, prCurve(x))
	}
	if len(summary) == 0 {
		return nil
	}
	return f.event(d.Time, d.Step, eventSummary, summary)
}

// histogram returns a tensor [k,3]: the lower and the upper limit of each bin, and its
// count.
func histogram(h metrics.Histogram) []byte {
	var packed []byte
	for i, n := range h.Counts {
		low, high := metrics.NormBin(h.First + i)
		for _, x := range []float64{low, high, float64(n)} {
			packed = protowire.AppendFixed64(packed, math.Float64bits(x))
		}
	}
	return message(tensorOf(typeDouble, len(h.Counts), 3), tensorDoubles, packed)
}

// prCurve returns a tensor [6,n]: by threshold, the true and the false positives, the true
// and the false negatives, precision and recall.
func prCurve(x metrics.Thresholds) []byte {
	n := len(x.Positive)
	packed := make([]byte, 0, 4*curveRows*n)
	for row := range curveRows {
		for i, tp := range x.Positive {
			fp := x.Negative[i]
			tn, fn := x.Negative[0]-fp, x.Positive[0]-tp
			precision, recall := 1.0, 0.0
			if tp+fp > 0 {
				precision = tp / (tp + fp)
			}
			if tp+fn > 0 {
				recall = tp / (tp + fn)
			}
			value := [curveRows]float64{tp, fp, tn, fn, precision, recall}[row]
			packed = protowire.AppendFixed32(packed, math.Float32bits(float32(value)))
		}
	}
	return message(tensorOf(typeFloat, curveRows, n), tensorFloats, packed)
}

// tensorOf returns a TensorProto without values.
func tensorOf(kind uint64, dims ...int) []byte {
	t := protowire.AppendVarint(protowire.AppendTag(nil, tensorType, protowire.VarintType), kind)
	return message(t, tensorShape, shape(dims...))
}

// shape returns a TensorShapeProto. -1 is an unknown size.
func shape(dims ...int) (s []byte) {
	for _, n := range dims {
		s = message(s, shapeDim, protowire.AppendVarint(protowire.AppendTag(nil, dimSize, protowire.VarintType), uint64(n)))
	}
	return s
}
