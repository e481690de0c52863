package record

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestSequenceExamples: the feature lists of a tf.SequenceExample are lists, next to the features
// of its context. The file was written by TensorFlow's protocol buffers.
func TestSequenceExamples(t *testing.T) {
	f, err := OpenFiles(schema.Source{Format: "tfrecord"}, []string{"testdata/sequence.tfrecord"})
	fatal.If(t, err)
	names := []string{"click", "dwell", "hist", "user"}
	if !slices.Equal(f.set.Fields, names) {
		t.Errorf("fields %q, want %q", f.set.Fields, names)
	}
	var all []string
	w, err := f.Walk(context.Background(), names, 1, func(lists []value.List) error {
		text := ""
		for i := range lists {
			for k := range lists[i].Len() {
				text += string(lists[i].Append(nil, k)) + ","
			}
			text += " "
		}
		all = append(all, text)
		return nil
	}, nil)
	fatal.If(t, err)
	if w.Bad != 0 || len(all) != 6 || all[0] != "0, 1.0,2.0, t0,t1, 0, " || all[5] != "1, 1.0,2.0, t5,t6, 5, " {
		t.Errorf("%d bad, %q", w.Bad, all)
	}
}

// TestListsOfExamples: each example of a list is a record with the features of its context, also
// if a reader begins in the middle of the file. The file has 20 lists of two, written by
// TensorFlow's protocol buffers.
func TestListsOfExamples(t *testing.T) {
	f, err := OpenFiles(schema.Source{Format: "tfrecord"}, []string{"testdata/elwc.tfrecord"})
	fatal.If(t, err)
	names := []string{"click", "item", "user"}
	if !slices.Equal(f.set.Fields, names) {
		t.Errorf("fields %q, want %q", f.set.Fields, names)
	}
	var all []string
	w, err := f.Walk(context.Background(), names, 1, func(lists []value.List) error {
		text := ""
		for i := range lists {
			text += string(lists[i].Append(nil, 0)) + " "
		}
		all = append(all, text)
		return nil
	}, nil)
	fatal.If(t, err)
	if w.Bad != 0 || len(all) != 40 || strings.Join(all[:4], "; ") != "1 0 7 ; 0 1 7 ; 1 1 7 ; 0 2 7 " {
		t.Errorf("%d bad, %d records, %q", w.Bad, len(all), all[:4])
	}
	b, err := os.ReadFile("testdata/elwc.tfrecord")
	fatal.If(t, err)
	r := exampleFormat{}.Records(nil)
	fatal.If(t, r.Begin(memory{bytes.NewReader(b)}, &f.set.Files[0], Block{Hi: int64(len(b))}, 105, 2))
	for i, want := range []Unit{{Offset: 105, Number: 2}, {Offset: 105, Number: 3, Rest: true}, {Offset: 210, Number: 4}} {
		if u, err := r.Next(); err != nil || u.Flaw != nil || u.Offset != want.Offset || u.Number != want.Number || u.Rest != want.Rest {
			t.Errorf("unit %d is %+v, %v", i, u, err)
		}
	}
}
