package input

import (
	"context"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/trace"
)

// Survey reads the training data once and fits the features. If encoded, the section of a
// checkpoint, is not nil, it restores the features from there.
func (in *Input) Survey(ctx context.Context, encoded []byte) error {
	var fit *encode.Fit
	if encoded == nil && in.Config.Data.Index == "" {
		fit = encode.NewFit(SchemaOf(in.Config))
	}
	if fit == nil { // Scan needs the formats of dates
		if err := in.encode(nil, encoded); err != nil {
			return err
		}
	}
	if in.Train != nil {
		if err := in.Scan(ctx, in.Train, fit); err != nil {
			return err
		}
	}
	if fit != nil {
		if err := in.encode(fit, nil); err != nil {
			return err
		}
	}
	return countRates(ctx, in)
}

// SurveyOthers counts the records of the datasets to which features are not fitted.
func (in *Input) SurveyOthers(ctx context.Context) error {
	for _, d := range in.datasets() {
		if d == in.Train {
			continue
		}
		if err := in.Scan(ctx, d, nil); err != nil {
			return err
		}
	}
	return nil
}

// scanTimes determines, with all ranks, which records are the newest, if those are held out.
func (in *Input) scanTimes(ctx context.Context, d *data.Dataset) error {
	if !d.NeedsTimes() {
		return nil
	}
	own, err := d.ScanTimes(ctx, in.Comm.Rank(), in.Comm.Size(), in.Shown.Reached)
	if err != nil {
		return err
	}
	in.Rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(in.Comm, own.Marshal(), maxShare)
	if err != nil {
		return err
	}
	in.Rec.Enter(trace.Scan)
	var merged data.Times
	for rank, b := range all {
		if err := merged.Merge(b); err != nil {
			return fmt.Errorf("times of rank %d: %w", rank, err)
		}
	}
	if err := d.UseTimes(&merged); err != nil {
		return err
	}
	if merged.Usable == 0 {
		return nil // the scan says why
	}
	field := in.Config.Data.ValidTime
	if merged.Unread > 0 {
		in.Warn(fmt.Sprintf("%d values of field %s are not times; their records are trained on", merged.Unread, field))
	}
	in.Say(fmt.Sprintf("validation on the newest %d of %d records (%.1f %%): %s from %s on", merged.Held, merged.All, 100*float64(merged.Held)/float64(merged.All), field, merged.From()))
	return nil
}

// Scan reads a dataset once, divided among the ranks. Afterwards all ranks know the number of
// records in each block, and fit, if not nil, holds the statistics of all records.
//
// Without fit, it warns of values that should be dates and are none.
func (in *Input) Scan(ctx context.Context, d *data.Dataset, fit *encode.Fit) error {
	var dates *encode.Fit
	if fit == nil && in.Encoder != nil {
		dates = in.Encoder.NewDates(in.Use.Schema(in.Config))
		fit = dates
	}
	own, err := in.count(ctx, d, fit)
	if err != nil {
		return err
	}
	if d == in.Train && own.Records() == 0 && !hasDates(in.Config.Features) { // their formats are not known yet
		in.early = scanEarly(ctx, in)
	}
	if err := in.share(d, own, fit); err != nil || dates == nil {
		return err
	}
	noteUndated(in, d, dates)
	for _, x := range in.Undated[d] {
		in.Warn(FirstFew(d.Names()) + ": " + x.Warning())
	}
	return nil
}

// hasDates reports whether a feature is encoded from dates.
func hasDates(features []schema.Feature) bool {
	return slices.ContainsFunc(features, func(f schema.Feature) bool {
		e, _ := schema.EncodingOf(f.Encode)
		return e.Date()
	})
}

// noteUndated keeps which values of a dataset should be dates and are none.
func noteUndated(in *Input, d *data.Dataset, fit *encode.Fit) {
	if in.Undated == nil {
		in.Undated = map[*data.Dataset][]encode.Dates{}
	}
	in.Undated[d] = fit.Undated()
}

// scanEarly scans this rank's part of the other datasets while other ranks scan the training data:
// a file of one row group, for example, is scanned by one rank.
func scanEarly(ctx context.Context, in *Input) map[*data.Dataset]early {
	all := map[*data.Dataset]early{}
	for _, d := range in.datasets() {
		if d != in.Train && !d.NeedsTimes() {
			before := int64(0)
			counts, err := d.Scan(ctx, partOf(in, d, in.Comm.Rank()), in.Comm.Size(), nil, func(bytes int64) {
				in.Shown.Advance(int(bytes - before))
				before = bytes
			})
			all[d] = early{counts, err}
		}
	}
	return all
}

// partOf returns which part of a dataset a rank scans, and which rank scans a part. Parts of the
// other datasets are in the opposite order, because the last ranks scan more of a few blocks. With
// data.hosts, ranks scan the files of their hosts.
func partOf(in *Input, d *data.Dataset, rank int) int {
	if d == in.Train || len(in.Shares) > 0 {
		return rank
	}
	return in.Comm.Size() - 1 - rank
}

// count reads this rank's part of a dataset.
func (in *Input) count(ctx context.Context, d *data.Dataset, fit *encode.Fit) (*data.Counts, error) {
	in.Rec.Enter(trace.Scan)
	if err := in.scanTimes(ctx, d); err != nil {
		return nil, err
	}
	if late := d.Late(); late != "" {
		in.Warn("these fields, which features need, have not been seen yet; if no record has them, training does not begin: " + late)
	}
	for _, text := range data.Partial(d) {
		in.Warn(text)
	}
	if empty := data.Empty(d); len(empty) > 0 {
		in.Warn(fmt.Sprintf("%s without records: %s", plural.Of(len(empty), "file"), FirstFew(empty)))
	}
	if x, ok := in.early[d]; ok {
		delete(in.early, d)
		return x.counts, x.err
	}
	return d.Scan(ctx, partOf(in, d, in.Comm.Rank()), in.Comm.Size(), fit, in.Shown.Reached)
}

// share sums the counts of all ranks.
func (in *Input) share(d *data.Dataset, own *data.Counts, fit *encode.Fit) error {
	counted := own.Marshal()
	in.Rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(in.Comm, counted, maxShare)
	if err != nil {
		return err
	}
	defer in.Rec.Enter(trace.Wait)
	in.Rec.Enter(trace.Plan)
	var merged data.Counts
	for part := range all {
		rank := partOf(in, d, part)
		if err := merged.Merge(all[rank]); err != nil {
			return fmt.Errorf("counts of rank %d: %w", rank, err)
		}
		in.Shown.Advance(1)
	}
	if err := d.Use(&merged); err != nil {
		return err
	}
	if in.Keep {
		in.Counts = append(in.Counts, merged.Marshal())
	}
	in.warnOfBad(d)
	if d != in.Train || !in.Config.Data.Follow.On { // each span of a stream continues the previous ones
		in.warnOfAbsent(d)
	}
	if d != in.Train || in.Use.Evaluates {
		if line := oneClass(d, &in.Config.Label); line != "" && !in.Use.Predicts {
			in.Warn(line)
		}
	} else if in.Comm.Rank() == 0 && !in.Config.Data.Follow.On {
		if line := data.Leaking(d.Leaks()); line != "" {
			in.Warn(line)
		}
	}
	if fit == nil {
		return nil
	}
	return in.shareFit(fit)
}

// shareFit merges the statistics of all ranks.
func (in *Input) shareFit(fit *encode.Fit) error {
	fitted := fit.Marshal()
	in.Rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(in.Comm, fitted, maxShare)
	if err != nil {
		return err
	}
	in.Rec.Enter(trace.Plan)
	for rank, b := range all {
		if rank == in.Comm.Rank() {
			continue
		}
		if err := fit.Merge(b); err != nil {
			return fmt.Errorf("statistics of rank %d: %w", rank, err)
		}
		in.Shown.Advance(1)
	}
	return nil
}

// encode makes the encoder of a new training from the statistics or the feature index, or
// restores that of a checkpoint.
func (in *Input) encode(fit *encode.Fit, encoded []byte) (err error) {
	in.Rec.Enter(trace.Plan)
	switch {
	case encoded != nil:
		in.Encoded = encoded
		if in.Encoder, err = encode.LoadEncoder(encoded); err == nil && in.Use.Evaluates {
			s := in.Use.Schema(in.Config)
			in.Encoder = in.Encoder.WithLabels(s.Label, s.Labels)
		}
		return err
	case fit != nil:
		err = in.Fit(fit)
	default:
		in.Encoder, err = in.indexed()
	}
	if err == nil && in.From != nil {
		in.Encoder, in.Same, err = in.Encoder.Grow(in.From, encode.Growth{Fit: fit, Was: in.Was, Renew: in.Renew})
	}
	if err == nil {
		in.Encoded, err = in.Encoder.Marshal()
	}
	return err
}

// Fit makes the encoder from statistics.
func (in *Input) Fit(fit *encode.Fit) (err error) {
	if in.Encoder, err = encode.NewEncoder(fit); err != nil {
		return err
	}
	noteUndated(in, in.Train, fit)
	for _, line := range fit.Warnings(in.Encoder) {
		in.Warn(line)
	}
	return nil
}
