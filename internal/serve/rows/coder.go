package rows

import (
	"fmt"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Fault is what is wrong with a request. Row is −1 if it is not the fault of one row.
type Fault struct {
	Input string // "": the row, or the request
	Row   int
	Why   string
}

func (f *Fault) Error() string {
	text := ""
	if f.Input != "" {
		text = "input " + strconv.Quote(f.Input) + ": "
	}
	if f.Row >= 0 {
		text += "row " + strconv.Itoa(f.Row) + ": "
	}
	return text + f.Why
}

// Counts is what was noticed about the inputs of one request.
type Counts struct {
	Rows    int
	Ignored int     // inputs that the model does not have
	Missing []int64 // by field: rows without a value of it; valid until the next request
	Unknown []int64 // by Encoder.Sparse: keys that a vocabulary does not hold; the same
}

// Coder encodes requests for one model.
type Coder struct {
	fields  []string
	place   map[string]int
	batcher *encode.Batcher
	counts  Counts

	source  source
	row     int
	tensors tensors
	example examples
	columns columns
}

// source is what a request's rows are read from.
type source interface {
	// fill fills a list for each field with the values of row i.
	fill(i int, lists []value.List) *record.Flaw
}

// NewCoder encodes requests by an encoder that was fitted to a source.
func NewCoder(e *encode.Encoder, src schema.Source) (*Coder, error) {
	c := &Coder{place: map[string]int{}}
	r, err := e.InputCoder(src, func(fields []string) record.Decoder {
		c.fields = fields
		return c
	})
	if err != nil {
		return nil, err
	}
	for i, name := range c.fields {
		c.place[name] = i
	}
	c.batcher = encode.NewBatcher(r)
	n := len(c.fields)
	c.counts.Missing = make([]int64, n)
	c.tensors.of, c.columns.of = make([]tensor, n), make([]*Column, n)
	c.example = examples{decoder: tfrecord.NewDecoder(c.fields), context: make([]value.List, n)}
	return c, nil
}

// Fields names the inputs in the order of Counts.Missing.
func (c *Coder) Fields() []string { return c.fields }

// Decode is the record.Decoder of the encoder: it reads the row that encode has reached.
func (c *Coder) Decode(_ []byte, lists []value.List) *record.Flaw {
	fl := c.source.fill(c.row, lists)
	if fl == nil {
		for i := range lists {
			if lists[i].Kind == value.None {
				c.counts.Missing[i]++
			}
		}
	}
	return fl
}

// encode makes a batch of the rows of a source.
func (c *Coder) encode(b *encode.Batch, from source, rows, ignored int) (Counts, error) {
	clear(c.counts.Missing)
	c.counts.Unknown = c.batcher.Unknowns()
	clear(c.counts.Unknown)
	c.counts.Rows, c.counts.Ignored = rows, ignored
	c.source = from
	c.batcher.Start(b, rows)
	for c.row = range rows {
		row, fl := c.batcher.Row(nil)
		if fl == nil {
			fl = c.batcher.Add(b, row)
		}
		if fl != nil {
			return c.counts, c.fault(fl)
		}
	}
	c.batcher.Finish(b)
	return c.counts, nil
}

// fault is a flaw of the current row.
func (c *Coder) fault(fl *record.Flaw) *Fault {
	why := fl.Want
	if fl.Column != "" {
		why = strconv.Quote(fl.Value) + " " + why
	}
	return &Fault{Input: fl.Column, Row: c.row, Why: why}
}

// sameRows checks the rows of an input against those of the inputs before it. One row
// counts for all.
func sameRows(rows *int, by *[]byte, name []byte, n int) error {
	switch {
	case *rows < 0 || *rows == 1 && n != 1:
		*rows, *by = n, name
	case n != *rows && n != 1:
		return &Fault{Input: string(name), Row: -1, Why: fmt.Sprintf("has %d rows, input %q has %d", n, *by, *rows)}
	}
	return nil
}
