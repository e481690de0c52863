package rows

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// examples is the source of a request of serialised tf.Examples.
type examples struct {
	decoder *tfrecord.Decoder
	all     [][]byte
	context []value.List // defaults for features that an example does not have
	shared  bool         // there is a context
}

func (s *examples) fill(i int, lists []value.List) *record.Flaw {
	if err := s.decoder.Decode(s.all[i], lists); err != nil {
		return &record.Flaw{Field: -1, Want: err.Error()}
	}
	if !s.shared {
		return nil
	}
	for k := range lists {
		if lists[k].Kind == value.None {
			copyList(&lists[k], &s.context[k])
		}
	}
	return nil
}

// Decode implements the record.Decoder of the encoder: it decodes the current example.
func (c *Coder) Decode(_ []byte, lists []value.List) *record.Flaw {
	fl := c.example.fill(c.row, lists)
	if fl == nil {
		for i := range lists {
			if lists[i].Kind == value.None {
				c.counts.Missing[i]++
			}
			if c.single[i] && isSeveral(&lists[i]) {
				return &record.Flaw{Field: i, Column: c.fields[i], Value: string(lists[i].Append(nil, 0)), Want: fmt.Sprintf("is the first of %d values"+oneValue, lists[i].Len())}
			}
		}
	}
	return fl
}

// copyList sets to to the values of from.
func copyList(to, from *value.List) {
	to.Reset()
	to.Begin(from.Kind)
	to.Nulls = append(to.Nulls, from.Nulls...)
	switch from.Kind {
	case value.None:
	case value.Text:
		to.Texts = append(to.Texts, from.Texts...)
	case value.Int:
		to.Ints = append(to.Ints, from.Ints...)
	default:
		to.Reals = append(to.Reals, from.Reals...)
	}
}

// Examples encodes serialised tf.Examples as a batch. The features of context, if not nil,
// are defaults for every example.
func (c *Coder) Examples(b *encode.Batch, all [][]byte, context []byte) (Counts, error) {
	c.counts.New = nil
	return c.examples(b, all, context, 0)
}

func (c *Coder) examples(b *encode.Batch, all [][]byte, context []byte, ignored int) (Counts, error) {
	s := &c.example
	if s.all, s.shared = all, context != nil; s.shared {
		if err := s.decoder.Decode(context, s.context); err != nil {
			return Counts{}, &Fault{Row: -1, Why: "context: " + err.Error()}
		}
	}
	c.begin(len(all), ignored)
	c.batcher.Start(b, len(all))
	for c.row = range all {
		row, fl := c.batcher.Row(nil)
		if fl == nil {
			fl = c.batcher.Add(b, row)
		}
		if fl != nil {
			return c.counts, fault(fl, c.row)
		}
	}
	c.batcher.Finish(b)
	return c.counts, nil
}
