package wdl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/trace"
	"github.com/wdlrun/wdlrun/wdl/config"
)

// inputs are the data of a job. Validation rows come from files of their own or
// are held out of the training files.
type inputs struct {
	train       *data.Dataset
	valid, test *data.Dataset // nil: none
	validRows   data.Select   // which rows of valid
}

// maxShare bounds what one rank tells the others of a scan: statistics and
// vocabularies.
const maxShare = 1 << 30

// openInputs opens the data that a configuration names. An evaluation's stand in
// the place of training data.
func openInputs(c *config.Config, eval bool) (in inputs, err error) {
	training := "training"
	if eval {
		training = "test"
	}
	s := data.Schema{Label: c.Label, Features: c.Features, Crosses: c.Crosses}
	open := func(what string, patterns []string) *data.Dataset {
		if len(patterns) == 0 || err != nil {
			return nil
		}
		d, e := data.Open(c.Data, s, patterns)
		if e != nil {
			err = fmt.Errorf("%s data: %w", what, e)
		}
		return d
	}
	in.train, in.valid, in.test = open(training, c.Data.Train), open("validation", c.Data.Valid), open("test", c.Data.Test)
	in.validRows = data.All
	if err == nil && in.train == nil {
		err = errors.New("training data: data.train names no file")
	}
	if err == nil && c.Data.ValidFraction > 0 {
		in.valid, in.validRows = in.train, data.Valid
		err = in.train.HoldOut(c.Data.ValidFraction, c.Train.Seed)
	}
	return in, err
}

// scan reads a dataset once, shared by the ranks, so that all know how many
// records its blocks hold; fit, if not nil, then holds the statistics of all.
func (j *job) scan(ctx context.Context, d *data.Dataset, fit *data.Fit) error {
	j.rec.Enter(trace.Scan)
	own, err := d.Scan(ctx, j.comm.Rank(), j.comm.Size(), fit, func(bytes int64) { j.shown.progress.Store(bytes) })
	if err != nil {
		return err
	}
	j.rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(j.comm, own.Marshal(), maxShare)
	if err != nil {
		return err
	}
	var merged data.Counts
	for rank, b := range all {
		if err := merged.Merge(b); err != nil {
			return fmt.Errorf("wdl: counts of rank %d: %w", rank, err)
		}
	}
	if err := d.Use(&merged); err != nil {
		return err
	}
	j.tellBad(d)
	if fit == nil {
		return nil
	}
	if all, err = collective.AllGatherBytes(j.comm, fit.Marshal(), maxShare); err != nil {
		return err
	}
	for rank, b := range all {
		if rank == j.comm.Rank() {
			continue
		}
		if err := fit.Merge(b); err != nil {
			return fmt.Errorf("wdl: statistics of rank %d: %w", rank, err)
		}
	}
	return nil
}

// tellBad tells the user of the records of a dataset that are left out.
func (j *job) tellBad(d *data.Dataset) {
	bad, first := d.Bad()
	if bad == 0 || j.comm.Rank() != 0 {
		return
	}
	line := fmt.Sprintf("records left out because they cannot be used: %d", bad)
	if len(first) > 0 {
		line += fmt.Sprintf("; the first: %v", &first[0])
	}
	j.opt.Warn(line)
}

// evalBatch is how many samples a rank evaluates at once.
const evalBatch = 1024

// evaluate computes the figures of the selected rows of a dataset, and how many
// values of each feature its vocabulary does not hold.
func (j *job) evaluate(ctx context.Context, d *data.Dataset, rows data.Select) (m Metrics, unknown map[string]int64, err error) {
	j.rec.Enter(trace.Eval)
	r, err := data.NewReader(d, j.encoder, data.ReaderConfig{
		GlobalBatch: evalBatch * j.comm.Size(), Rank: j.comm.Rank(), Size: j.comm.Size(), Select: rows,
	})
	if err != nil {
		return m, nil, err
	}
	defer r.Close()
	j.shown.reader.Store(r)
	defer j.shown.reader.Store(nil)
	var last *data.Batch
	m, err = j.trainer.Evaluate(func() (*data.Batch, error) {
		if last != nil {
			r.Recycle(last)
			j.shown.progress.Add(1)
		}
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		last = b
		return b, err
	})
	if err != nil {
		return m, nil, err
	}
	counts := r.Unknown()
	if err := collective.AllReduce(j.comm, counts, collective.Sum); err != nil {
		return m, nil, err
	}
	unknown = map[string]int64{}
	for i, c := range j.encoder.Sparse() {
		if counts[i] > 0 {
			unknown[c.Name] = counts[i]
		}
	}
	return m, unknown, nil
}
