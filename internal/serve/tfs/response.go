package tfs

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Output is one output of a PredictResponse: a DT_FLOAT tensor of rows.
type Output struct {
	Name   string
	Values []float32
	Column bool // its shape is [N,1] instead of [N]
}

// PredictResponseBytes returns the maximum length of a PredictResponse.
func PredictResponseBytes(spec *ModelSpec, outputs []Output) int {
	const around = 64 // bytes of tags, lengths, types and numbers, per output and for the spec
	n := around + len(spec.Name) + len(spec.Signature)
	for i := range outputs {
		n += around + len(outputs[i].Name) + 4*len(outputs[i].Values)
	}
	return n
}

// AppendPredictResponse appends a PredictResponse.
func AppendPredictResponse(dst []byte, spec *ModelSpec, outputs []Output) []byte {
	for i := range outputs {
		o := &outputs[i]
		dst = appendMessage(dst, 1, func(dst []byte) []byte {
			dst = appendString(dst, 1, o.Name)
			return appendMessage(dst, 2, func(dst []byte) []byte { return appendFloats(dst, o.Values, o.Column) })
		})
	}
	return appendSpec(dst, 2, spec)
}

// appendFloats appends the TensorProto of a vector, or of a matrix of one column.
func appendFloats(dst []byte, x []float32, column bool) []byte {
	dst = appendVarint(dst, 1, uint64(Float))
	dst = appendMessage(dst, 2, func(dst []byte) []byte {
		if dst = appendDim(dst, int64(len(x))); column {
			dst = appendDim(dst, 1)
		}
		return dst
	})
	dst = protowire.AppendTag(dst, 5, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(4*len(x)))
	for _, v := range x {
		dst = protowire.AppendFixed32(dst, math.Float32bits(v))
	}
	return dst
}

// appendDim appends a dimension of a TensorShapeProto.
func appendDim(dst []byte, size int64) []byte {
	return appendMessage(dst, 2, func(dst []byte) []byte { return appendVarint(dst, 1, uint64(size)) })
}

func appendSpec(dst []byte, number protowire.Number, m *ModelSpec) []byte {
	return appendMessage(dst, number, func(dst []byte) []byte {
		dst = appendString(dst, 1, m.Name)
		if m.HasVersion {
			dst = appendMessage(dst, 2, func(dst []byte) []byte { return appendVarint(dst, 1, uint64(m.Version)) })
		}
		if m.Signature != "" {
			dst = appendString(dst, 3, m.Signature)
		}
		return dst
	})
}

// Class is a label with its score for each row.
type Class struct {
	Label  string
	Scores []float32
}

// AppendClassificationResponse appends a ClassificationResponse for the rows of classes.
func AppendClassificationResponse(dst []byte, spec *ModelSpec, classes []Class) []byte {
	dst = appendMessage(dst, 1, func(dst []byte) []byte { return appendClassifications(dst, classes) })
	return appendSpec(dst, 2, spec)
}

// appendClassifications appends the fields of a ClassificationResult.
func appendClassifications(dst []byte, classes []Class) []byte {
	for row := range classes[0].Scores {
		dst = appendMessage(dst, 1, func(dst []byte) []byte {
			for i := range classes {
				c := &classes[i]
				dst = appendMessage(dst, 1, func(dst []byte) []byte {
					return appendFloat(appendString(dst, 1, c.Label), 2, c.Scores[row])
				})
			}
			return dst
		})
	}
	return dst
}

func appendFloat(dst []byte, number protowire.Number, x float32) []byte {
	return protowire.AppendFixed32(protowire.AppendTag(dst, number, protowire.Fixed32Type), math.Float32bits(x))
}

// AppendRegressionResponse appends a RegressionResponse of one value per row.
func AppendRegressionResponse(dst []byte, spec *ModelSpec, values []float32) []byte {
	dst = appendMessage(dst, 1, func(dst []byte) []byte { return appendRegressions(dst, values) })
	return appendSpec(dst, 2, spec)
}

// appendRegressions appends the fields of a RegressionResult.
func appendRegressions(dst []byte, values []float32) []byte {
	for _, v := range values {
		dst = appendMessage(dst, 1, func(dst []byte) []byte { return appendFloat(dst, 1, v) })
	}
	return dst
}

// Inference is the result of one task: Classes, or Values if there are none.
type Inference struct {
	Spec    ModelSpec
	Classes []Class
	Values  []float32
}

// AppendMultiInferenceResponse appends a MultiInferenceResponse.
func AppendMultiInferenceResponse(dst []byte, results []Inference) []byte {
	for i := range results {
		r := &results[i]
		dst = appendMessage(dst, 1, func(dst []byte) []byte {
			dst = appendSpec(dst, 1, &r.Spec)
			if r.Classes != nil {
				return appendMessage(dst, 2, func(dst []byte) []byte { return appendClassifications(dst, r.Classes) })
			}
			return appendMessage(dst, 3, func(dst []byte) []byte { return appendRegressions(dst, r.Values) })
		})
	}
	return dst
}
