package tfs

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestStringsInAnyOrder: fields of a tensor of strings may be in any order, between them fields
// of other types, and strings may be short, empty and long.
func TestStringsInAnyOrder(t *testing.T) {
	texts := []string{"a", "", strings.Repeat("x", 127), strings.Repeat("y", 128), strings.Repeat("z", 70_000), "b"}
	head := appendVarint(nil, 1, uint64(String))
	shape := appendString(nil, 2, appendString(nil, 2, appendVarint(nil, 1, uint64(len(texts)))))
	var values, between []byte
	for i, text := range texts {
		values = appendString(values, 8, text)
		between = appendVarint(appendString(between, 8, text), 3, uint64(i))
	}
	for name, b := range map[string][]byte{
		"head first": slices.Concat(head, shape, values), "values first": slices.Concat(values, shape, head),
		"between": slices.Concat(head, values, shape), "other fields": slices.Concat(head, shape, between),
	} {
		var x Tensor
		var m memory
		if err := x.decode(b, &Limits{Rows: 10, Values: 10}, &m); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, got := range x.Texts() {
			if string(got) != texts[i] {
				t.Errorf("%s: text %d has %d bytes, want %d", name, i, len(got), len(texts[i]))
			}
		}
		if n := len(x.Texts()); n != len(texts) {
			t.Errorf("%s: %d texts of %d", name, n, len(texts))
		}
	}
	for name, b := range map[string][]byte{
		"cut":          slices.Concat(head, shape, values[:len(values)-1]),
		"a number":     protowire.AppendVarint(protowire.AppendTag(slices.Concat(head, shape), 8, protowire.VarintType), 3),
		"one too many": slices.Concat(head, shape, values, appendString(nil, 8, "c")),
	} {
		var x Tensor
		var m memory
		if err := x.decode(b, &Limits{Rows: 10, Values: 10}, &m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
