package serve

import (
	"github.com/wdlrun/wdlrun/internal/serve/body"
	"github.com/wdlrun/wdlrun/internal/serve/rows"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

// batching encodes the batch of a request.
type batching func(w *worker) (rows.Counts, error)

// examples encodes a request of tf.Examples.
func examples(in *tfs.Input) batching {
	return func(w *worker) (rows.Counts, error) {
		if !in.Given {
			return rows.Counts{}, invalid("the request has no example list")
		}
		return w.coder.Examples(&w.batch, in.Examples, in.Context)
	}
}

// restBatch encodes the body of a predict request.
func restBatch(r *body.Request) batching {
	return func(w *worker) (rows.Counts, error) {
		if r.Instances && r.Rows == 0 { // no row, so no name of an input either
			return w.coder.Examples(&w.batch, nil, nil)
		}
		if r.Unnamed {
			if err := nameOnly(r, w.coder.Fields()); err != nil {
				return rows.Counts{}, err
			}
		}
		return w.coder.Columns(&w.batch, r.Columns)
	}
}

// nameOnly names the column of a request without names after the model's only input.
func nameOnly(r *body.Request, fields []string) error {
	if len(fields) != 1 || len(r.Columns) != 1 {
		return invalid("values without names are for models of one input; this one has %d: send objects of inputs", len(fields))
	}
	r.Columns[0].Name = fields[0]
	return nil
}

// columns encodes a request of examples.
func columns(r *body.Request) batching {
	return func(w *worker) (rows.Counts, error) {
		if r.Rows == 0 { // the columns are those of the context
			return w.coder.Examples(&w.batch, nil, nil)
		}
		return w.coder.Columns(&w.batch, r.Columns)
	}
}

// batchingOfPredict decodes a copy of a PredictRequest.
func batchingOfPredict(limits tfs.Limits) func([]byte) (batching, error) {
	return func(b []byte) (batching, error) {
		r := new(tfs.PredictRequest)
		err := r.Decode(b, limits)
		return func(w *worker) (rows.Counts, error) { return w.coder.Tensors(&w.batch, r.Inputs) }, err
	}
}

// batchingOfBody decodes a copy of the body of a predict request.
func batchingOfBody(limits tfs.Limits) func([]byte) (batching, error) {
	return func(b []byte) (batching, error) {
		r, err := body.Predict(b, limits)
		return restBatch(&r), err
	}
}
