package tfrecord

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// message returns a field of bytes.
func message(number protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), slices.Concat(parts...))
}

// listed returns the entry of a feature list with the given steps; texts are steps of one value
// or, separated by commas, of several, and "" is one without a value.
func listed(name string, steps ...string) []byte {
	var all []byte
	for _, s := range steps {
		var values []byte
		for v := range strings.SplitSeq(s, ",") {
			if v != "" {
				values = append(values, message(1, []byte(v))...)
			}
		}
		all = append(all, message(1, message(1, values))...)
	}
	return message(1, message(1, []byte(name)), message(2, all))
}

// sequence returns a tf.SequenceExample with the context x = 7.
func sequence(lists ...[]byte) []byte {
	context := AppendExample(nil, []string{"x"}, []value.List{{Kind: value.Int, Ints: []int64{7}}})
	return append(context, message(2, lists...)...)
}

func TestSequence(t *testing.T) {
	record := sequence(listed("a", "t0", "", "t2"), listed("b"), listed("c", "1", "2,3"))
	got := make([]value.List, 3)
	fatal.If(t, NewDecoder([]string{"a", "x", "b"}).Decode(record, got))
	want := []value.List{{Kind: value.Text, Texts: [][]byte{[]byte("t0"), []byte("t2")}}, {Kind: value.Int, Ints: []int64{7}}, {}}
	for i := range want {
		if !equal(&got[i], &want[i]) {
			t.Errorf("field %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if !slices.Equal(got[0].Nulls, []int32{1}) {
		t.Errorf("nulls at %v, want 1", got[0].Nulls)
	}
	var names, nested []string
	fatal.If(t, Names(record, func(n []byte) { names = append(names, string(n)) }))
	fatal.If(t, Nested(record, func(n []byte) { nested = append(nested, string(n)) }))
	if fmt.Sprint(names, nested) != "[x a b] [c]" {
		t.Errorf("fields %q, nested %q", names, nested)
	}
	d := NewDecoder([]string{"a", "x"})
	for _, x := range []struct {
		record []byte
		want   string
	}{
		{sequence(listed("a", "1", "2,3")), `step 2 of the feature list "a" has 2 values`},
		{sequence(listed("x", "1")), `the feature list "x" has the name of another feature`},
		{sequence(message(1, message(1, []byte("a")), message(2, message(1, message(1, message(1, []byte("t")))), message(1, message(3, []byte{8, 1}))))), "several types"},
		{message(1, AppendExample(nil, []string{"x"}, want[1:2])), "ExampleListWithContext"},
		{message(2, AppendExample(nil, []string{"x"}, want[1:2])), "ExampleListWithContext"},
	} {
		if err := d.Decode(x.record, got[:2]); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("error %v, want %s", err, x.want)
		}
	}
}
