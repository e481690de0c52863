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

// Fault is a fault of a request. Row is −1 if it does not concern a single row.
type Fault struct {
	Input string // "" for the row, or the request
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

// Counts are statistics of the inputs of one request.
type Counts struct {
	Rows    int
	Ignored int      // inputs that the model does not have
	New     []string // names of those that no answered request had, see Coder.Answered
	Missing []int64  // by field: rows without a value; valid until the next request
	Invalid []int64  // by field: uses of numbers that are not finite; valid until the next request
	Undated []int64  // by field: uses of values that should be dates and are none; valid until the next request
	Unknown []int64  // by Encoder.Sparse and reason: keys not in a vocabulary; valid until the next request
}

// Coder encodes requests for one model.
type Coder struct {
	fields  []string
	place   map[string]int
	single  []bool // by field: a list is a fault, because the training data can have only one value
	batcher *encode.Batcher
	columns *encode.ColumnCoder
	counts  Counts

	ignored map[string]bool // names of inputs that the model does not have, of answered requests

	row     int // current row of examples
	tensors tensors
	example examples
	table   columns
}

// source has the rows of a request by field.
type source interface {
	encode.Fields
	// missing returns how many of the given number of rows have no value of a field.
	missing(field, rows int) int64
	// mayHaveLists reports whether a row may have several values of a field.
	mayHaveLists(field int) bool
}

// NewCoder returns a Coder with an encoder that was fitted to a source. With forgive, numbers that are
// NaN, infinite or beyond float32, and values that should be dates and are none, are missing values;
// otherwise they are faults.
func NewCoder(e *encode.Encoder, src schema.Source, forgive bool) (*Coder, error) {
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
	c.single = make([]bool, len(c.fields))
	for _, in := range e.Inputs(src) {
		if k, ok := c.place[in.Name]; ok && in.One && in.Kind != value.Float32 { // a list of numbers is a fault anyway
			c.single[k] = true
		}
	}
	c.batcher, c.columns = encode.NewBatcher(r), r.ByColumn()
	n := len(c.fields)
	c.counts.Missing, c.counts.Invalid, c.counts.Undated = make([]int64, n), make([]int64, n), make([]int64, n)
	r.CountUndated(func(column string, rows int64) {
		if k, ok := c.place[column]; ok {
			c.counts.Undated[k] += rows
		}
	}, !forgive)
	if forgive {
		r.Forgive(func(column string, rows int64) {
			if k, ok := c.place[column]; ok { // no derived column
				c.counts.Invalid[k] += rows
			}
		})
	}
	c.tensors.of, c.table.of = make([]tensor, n), make([]*Column, n)
	c.example = examples{decoder: tfrecord.NewDecoder(c.fields), context: make([]value.List, n)}
	return c, nil
}

// Fields returns the names of the inputs, in the order of Counts.Missing.
func (c *Coder) Fields() []string { return c.fields }

// maxIgnored limits the names of inputs that a model does not have.
const maxIgnored = 100

// ignore records an input that the model does not have.
func ignore[T string | []byte](c *Coder, name T) {
	if c.ignored[string(name)] || len(c.ignored)+len(c.counts.New) >= maxIgnored {
		return
	}
	c.counts.New = append(c.counts.New, string(name))
}

// Answered records that the last request was answered: its unknown inputs are not new any more.
func (c *Coder) Answered() {
	if len(c.counts.New) > 0 && c.ignored == nil {
		c.ignored = map[string]bool{}
	}
	for _, name := range c.counts.New {
		c.ignored[name] = true
	}
}

// begin resets the counts for a request.
func (c *Coder) begin(rows, ignored int) {
	clear(c.counts.Missing)
	clear(c.counts.Invalid)
	clear(c.counts.Undated)
	c.counts.Unknown = c.batcher.Unknowns()
	clear(c.counts.Unknown)
	c.counts.Rows, c.counts.Ignored = rows, ignored
}

// encode encodes the rows of a source as a batch.
func (c *Coder) encode(b *encode.Batch, from source, rows, ignored int) (Counts, error) {
	c.begin(rows, ignored)
	for k := range c.fields {
		c.counts.Missing[k] = from.missing(k, rows)
		if err := c.several(from, k, rows); err != nil {
			return c.counts, err
		}
	}
	row, fl := c.columns.Encode(b, from, rows)
	if fl != nil {
		return c.counts, fault(fl, row)
	}
	c.batcher.Count(b)
	return c.counts, nil
}

// several returns the fault of a list of values of a field that had one in the training data.
func (c *Coder) several(from source, field, rows int) error {
	if !c.single[field] || !from.mayHaveLists(field) {
		return nil
	}
	var l value.List
	for i := range rows {
		if from.List(field, i, &l); isSeveral(&l) {
			return &Fault{Input: c.fields[field], Row: i, Why: fmt.Sprintf("has %d values"+oneValue, l.Len())}
		}
	}
	return nil
}

// oneValue ends the fault of a list.
const oneValue = "; in the training data, this field has one"

// isSeveral reports whether a list has several values. An empty text is none.
func isSeveral(l *value.List) bool {
	n := l.Len()
	if n > 1 && l.Kind == value.Text {
		n = 0
		for _, text := range l.Texts {
			n += min(len(text), 1)
		}
	}
	return n > 1
}

// fault returns the fault for a flaw of a row.
func fault(fl *record.Flaw, row int) *Fault {
	why := fl.Want
	if fl.Column != "" {
		why = strconv.Quote(fl.Value) + " " + why
	}
	return &Fault{Input: fl.Column, Row: row, Why: why}
}

// sameRows checks the number of rows of an input against earlier inputs. One row counts
// for all.
func sameRows(rows *int, by *[]byte, name []byte, n int) error {
	switch {
	case *rows < 0 || *rows == 1 && n != 1:
		*rows, *by = n, name
	case n != *rows && n != 1:
		return &Fault{Input: string(name), Row: -1, Why: fmt.Sprintf("has %d rows, input %q has %d", n, *by, *rows)}
	}
	return nil
}
