package tfs

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxRows is the maximum number of rows of a request by default.
const MaxRows = 1 << 16

// ModelSpec names a model and, by number or by label, optionally a version.
type ModelSpec struct {
	Name       string
	Version    int64
	HasVersion bool
	Label      string
	Signature  string
}

func (m *ModelSpec) decode(b []byte) error {
	return eachField(b, func(f field) error {
		var err error
		switch f.number {
		case 1:
			err, m.Name = f.isBytes("name"), string(f.bytes)
		case 2:
			if err = f.isBytes("version"); err == nil {
				m.HasVersion = true
				err = eachField(f.bytes, func(f field) error {
					if f.number != 1 {
						return nil
					}
					m.Version = int64(f.bits)
					return f.is(protowire.VarintType, "version.value")
				})
			}
		case 3:
			err, m.Signature = f.isBytes("signature_name"), string(f.bytes)
		case 4:
			err, m.Label = f.isBytes("version_label"), string(f.bytes)
		}
		return err
	})
}

// field decodes a field of type ModelSpec.
func (m *ModelSpec) field(f field) error {
	if err := f.isBytes("model_spec"); err != nil {
		return err
	}
	return within("model_spec", m.decode(f.bytes))
}

// NamedTensor is one input of a PredictRequest.
type NamedTensor struct {
	Name []byte
	Tensor
}

// PredictRequest requests outputs for the rows of tensors.
type PredictRequest struct {
	Spec    ModelSpec
	Inputs  []NamedTensor // of equal names, the last counts
	Outputs []string      // requested outputs; none means all

	values memory
}

// Decode decodes a request.
func (r *PredictRequest) Decode(b []byte, limits Limits) error {
	r.Spec, r.Inputs, r.Outputs = ModelSpec{}, r.Inputs[:0], r.Outputs[:0]
	r.values.reset()
	err := eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return r.Spec.field(f)
		case 2:
			if err := f.isBytes("inputs"); err != nil {
				return err
			}
			return r.input(f.bytes, &limits)
		case 3:
			if len(r.Outputs) == limits.Inputs {
				return fmt.Errorf("output_filter has more than %d names", limits.Inputs)
			}
			r.Outputs = append(r.Outputs, string(f.bytes))
			return f.isBytes("output_filter")
		}
		return nil
	})
	return within("PredictRequest", err)
}

// input decodes an entry of the map of inputs.
func (r *PredictRequest) input(b []byte, left *Limits) error {
	n := len(r.Inputs)
	if n == left.Inputs {
		return fmt.Errorf("more than %d inputs", left.Inputs)
	}
	if n < cap(r.Inputs) {
		r.Inputs = r.Inputs[:n+1]
	} else {
		r.Inputs = append(r.Inputs, NamedTensor{})
	}
	in := &r.Inputs[n]
	in.Name = nil
	in.reset()
	var tensor []byte
	err := eachField(b, func(f field) error {
		switch f.number {
		case 1:
			in.Name = f.bytes
			return f.isBytes("key")
		case 2:
			tensor = f.bytes
			return f.isBytes("value")
		}
		return nil
	})
	if err == nil {
		err = in.Tensor.decode(tensor, left, &r.values)
	}
	if err != nil {
		return within(fmt.Sprintf("inputs[%q]", in.Name), err)
	}
	return nil
}

// Input is the list of examples of a request. The features of Context are defaults for
// examples without them.
type Input struct {
	Examples [][]byte // serialised tf.Examples
	Context  []byte   // a serialised tf.Example; may be nil
	Given    bool     // the request has a list of examples, which may be empty
}

func (in *Input) decode(b []byte, limits Limits) error {
	return eachField(b, func(f field) error {
		if f.number != 1 && f.number != 2 {
			return nil
		}
		name := [...]string{1: "example_list", 2: "example_list_with_context"}[f.number]
		if err := f.isBytes(name); err != nil {
			return err
		}
		in.Examples, in.Context, in.Given = in.Examples[:0], nil, true // the last of a oneof counts
		return within(name, eachField(f.bytes, func(g field) error {
			switch {
			case g.number == 1:
				if len(in.Examples) == limits.Rows {
					return fmt.Errorf("more than %d examples", limits.Rows)
				}
				in.Examples = append(in.Examples, g.bytes)
				return g.isBytes("examples")
			case g.number == 2 && f.number == 2:
				in.Context = g.bytes
				return g.isBytes("context")
			}
			return nil
		}))
	})
}

func (in *Input) reset() { in.Examples, in.Context, in.Given = in.Examples[:0], nil, false }

func (in *Input) field(f field, limits Limits) error {
	if err := f.isBytes("input"); err != nil {
		return err
	}
	return within("input", in.decode(f.bytes, limits))
}

// ExamplesRequest is a ClassificationRequest or a RegressionRequest, which have the same
// fields.
type ExamplesRequest struct {
	Spec  ModelSpec
	Input Input
}

// Decode decodes a request.
func (r *ExamplesRequest) Decode(b []byte, limits Limits) error {
	r.Spec = ModelSpec{}
	r.Input.reset()
	return eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return r.Spec.field(f)
		case 2:
			return r.Input.field(f, limits)
		}
		return nil
	})
}

// Task is one task of a MultiInferenceRequest.
type Task struct {
	Spec   ModelSpec
	Method string // tensorflow/serving/classify or tensorflow/serving/regress
}

// MultiInferenceRequest requests several results for the same examples.
type MultiInferenceRequest struct {
	Tasks []Task
	Input Input
}

// Decode decodes a request.
func (r *MultiInferenceRequest) Decode(b []byte, limits Limits) error {
	r.Tasks = r.Tasks[:0]
	r.Input.reset()
	err := eachField(b, func(f field) error {
		switch f.number {
		case 1:
			if len(r.Tasks) == limits.Inputs {
				return fmt.Errorf("more than %d tasks", limits.Inputs)
			}
			if err := f.isBytes("tasks"); err != nil {
				return err
			}
			var t Task
			err := eachField(f.bytes, func(f field) error {
				switch f.number {
				case 1:
					return t.Spec.field(f)
				case 2:
					t.Method = string(f.bytes)
					return f.isBytes("method_name")
				}
				return nil
			})
			r.Tasks = append(r.Tasks, t)
			return within("tasks", err)
		case 2:
			return r.Input.field(f, limits)
		}
		return nil
	})
	return within("MultiInferenceRequest", err)
}

// MetadataRequest is a GetModelMetadataRequest or, without Fields, a
// GetModelStatusRequest.
type MetadataRequest struct {
	Spec   ModelSpec
	Fields []string
}

// Decode decodes a request.
func (r *MetadataRequest) Decode(b []byte, limits Limits) error {
	r.Spec, r.Fields = ModelSpec{}, nil
	return eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return r.Spec.field(f)
		case 2:
			if len(r.Fields) == limits.Inputs {
				return fmt.Errorf("metadata_field has more than %d names", limits.Inputs)
			}
			r.Fields = append(r.Fields, string(f.bytes))
			return f.isBytes("metadata_field")
		}
		return nil
	})
}
