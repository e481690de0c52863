package record

import (
	"context"
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

// TestListsOfExamplesAreNamed: a list of examples with a context is no tf.Example, though its
// encoding is valid for one.
func TestListsOfExamplesAreNamed(t *testing.T) {
	_, err := OpenSet(schema.Source{Format: "tfrecord"}, []string{"testdata/elwc.tfrecord"})
	if err == nil || !strings.Contains(err.Error(), "ExampleListWithContext") {
		t.Errorf("opened: %v", err)
	}
}
