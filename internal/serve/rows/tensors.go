package rows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/text/cut"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// ExamplesInput is the input of a PredictRequest with serialised tf.Examples, unless the
// model has a field of this name. TensorFlow's exporters also use the others.
const ExamplesInput = "examples"

func isExamples(name string) bool {
	return name == ExamplesInput || name == "inputs" || name == "input_example_tensor"
}

// tensors is the source of a request with a tensor per field.
type tensors struct{ of []tensor }

type tensor struct {
	*tfs.Tensor         // nil if the request does not have it
	sparse      *sparse // instead of Tensor
}

func (s *tensors) IsShared(field int) bool {
	if t := s.of[field]; t.sparse != nil {
		return t.sparse.rows == 1
	}
	return s.of[field].Tensor == nil || s.of[field].Rows() == 1
}

func (s *tensors) List(field, i int, l *value.List) {
	if t := s.of[field]; t.sparse != nil {
		t.sparse.list(i, l)
		return
	}
	if t := s.of[field]; t.Tensor != nil {
		t.View(i, l)
		return
	}
	l.Reset()
}

func (s *tensors) Single(field int) *value.List {
	if t := s.of[field]; t.Tensor != nil {
		return t.Single()
	}
	return nil
}

func (s *tensors) missing(field, rows int) int64 {
	if t := s.of[field]; t.sparse != nil {
		return t.sparse.missing(rows)
	}
	if t := s.of[field]; t.Tensor == nil || t.Elements() == 0 {
		return int64(rows)
	}
	return 0
}

func (s *tensors) mayHaveLists(field int) bool {
	t := s.of[field]
	return t.sparse != nil || t.Tensor != nil && t.Elements() > t.Rows()
}

// Tensors encodes the inputs of a PredictRequest as a batch.
func (c *Coder) Tensors(b *encode.Batch, in []tfs.NamedTensor) (Counts, error) {
	clear(c.tensors.of)
	c.counts.New = nil
	rows, ignored, by := -1, 0, []byte(nil)
	var packed *tfs.Tensor
	var parts map[string]*[sparseParts]*tfs.Tensor
	for i := range in {
		t := &in[i]
		k, ok := c.place[string(t.Name)]
		field, part := c.sparsePart(t.Name)
		switch {
		case ok:
			if err := sameRows(&rows, &by, t.Name, t.Rows()); err != nil {
				return Counts{}, err
			}
			c.tensors.of[k] = tensor{Tensor: &t.Tensor}
		case part >= 0:
			if parts == nil {
				parts = map[string]*[sparseParts]*tfs.Tensor{}
			}
			if parts[field] == nil {
				parts[field] = new([sparseParts]*tfs.Tensor)
			}
			parts[field][part] = &t.Tensor
		case isExamples(string(t.Name)):
			packed = &t.Tensor
		default:
			ignored++
			ignore(c, t.Name)
		}
	}
	for field, of := range parts {
		if err := c.sparseField(field, of, &rows, &by); err != nil {
			return Counts{}, err
		}
	}
	if packed != nil {
		if by != nil {
			return Counts{}, &Fault{Input: string(by), Row: -1, Why: "cannot be combined with the input " + ExamplesInput + "; put it in every example"}
		}
		return c.packed(b, packed, ignored)
	}
	if rows < 0 {
		names := make([]string, len(in))
		for i := range in {
			names[i] = string(in[i].Name)
		}
		return Counts{}, c.none(names, append(slices.Clone(c.fields), ExamplesInput))
	}
	return c.encode(b, &c.tensors, rows, ignored)
}

// none returns the fault of a request without any input of the model. It names the inputs of the request, and
// the nearest of valid.
func (c *Coder) none(names, valid []string) *Fault {
	const shown = 5
	why := "the request has none of the model's inputs"
	var sent, near []string
	for _, name := range names[:min(len(names), shown)] {
		sent = append(sent, strconv.Quote(cut.To(64, name)))
		if n := nearest.Of(name, valid); n != "" && !slices.Contains(near, n) {
			near = append(near, n)
		}
	}
	if len(sent) > 0 {
		why += "; it has " + strings.Join(sent, ", ")
	}
	if len(names) > shown {
		why += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	switch {
	case len(near) > 0:
		why += ": did you mean " + strings.Join(near, ", ") + "?"
	case len(sent) > 0 && len(c.fields) > 0:
		why += "; the model has inputs such as " + c.fields[0]
	case len(c.fields) > 0:
		why += ", such as " + c.fields[0]
	}
	return &Fault{Row: -1, Why: why}
}

// packed encodes a tensor of serialised examples as a batch.
func (c *Coder) packed(b *encode.Batch, t *tfs.Tensor, ignored int) (Counts, error) {
	switch {
	case t.Type != tfs.String:
		return Counts{}, &Fault{Input: ExamplesInput, Row: -1, Why: "is " + t.Type.String() + "; serialised tf.Examples are DT_STRING"}
	case t.Elements() != t.Rows():
		return Counts{}, &Fault{Input: ExamplesInput, Row: -1, Why: "has more than one value per row"}
	case len(t.Texts()) < t.Elements():
		return Counts{}, &Fault{Input: ExamplesInput, Row: len(t.Texts()), Why: "has no value"}
	}
	return c.examples(b, t.Texts(), nil, ignored)
}
