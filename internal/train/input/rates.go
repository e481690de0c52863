package input

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/trace"
)

// countRates counts the training records by value for the features with encode: rate, unless the
// encoder has the counts of these records in this order. The counts of earlier trainings (train
// -from) stay. All ranks read a part of the records and get the counts of all.
func countRates(ctx context.Context, in *Input) error {
	was, rated := in.Encoder.Rated()
	if !rated || in.Use.Evaluates || in.Use.Judges || in.Train == nil {
		return nil
	}
	order := encode.RateOrder{Data: in.Train.Fingerprint()}
	switch field := in.Config.Data.ValidTime; {
	case field == "":
	case in.InTime || data.InTimeOrder(in.Train):
		order.Rows = in.Train.Rows(data.All)
	case in.Valid == nil: // train.refit, whose first training has said it
	default:
		in.Say(fmt.Sprintf("encode: rate: the records are not in the order of field %s, so a training record gets its rates from nine random tenths of the training records, later ones among them; sort the records by %s for rates of earlier records only", field, field))
	}
	if was == order {
		return nil
	}
	in.Rec.Enter(trace.Scan)
	t := in.Encoder.Tally(order)
	if err := tally(ctx, in, t); err != nil {
		return err
	}
	in.Rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(in.Comm, t.Marshal(), maxShare)
	if err != nil {
		return err
	}
	in.Rec.Enter(trace.Plan)
	for rank, b := range all {
		if rank == in.Comm.Rank() {
			continue
		}
		if err := t.Merge(b); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	if in.Encoder, err = in.Encoder.WithRates(t, in.Counted); err == nil {
		in.Encoded, err = in.Encoder.Marshal()
	}
	return err
}

// tally counts this rank's part of the training records.
func tally(ctx context.Context, in *Input, t *encode.Tally) error {
	const batch = 4096
	size := in.Comm.Size()
	r, err := data.NewReader(in.Train, t.Encoder, data.ReaderConfig{GlobalBatch: batch * size, Rank: in.Comm.Rank(), Size: size, Select: data.Train, Apart: true})
	if err != nil {
		return err
	}
	defer r.Close()
	in.Shown.Read(r)
	defer in.Shown.Unread()
	for {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = t.Add(b)
		}
		if err != nil {
			return err
		}
		r.Recycle(b)
		in.Shown.Advance(1)
	}
}
