package wdl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/nearest"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
	"github.com/wdlrun/wdlrun/trace"
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
func openInputs(c *config.Config, eval *EvalOptions) (in inputs, err error) {
	training := "training"
	if eval != nil {
		training = "test"
	}
	s := eval.schemaOf(c)
	open := func(what string, patterns []string) *data.Dataset {
		if len(patterns) == 0 || err != nil {
			return nil
		}
		look := data.OpenEval
		if what == "training" {
			look = data.Open
		}
		by := s
		if what == "training" {
			by.HoldOut = c.Data.ValidTime + c.Data.ValidGroup // one of them at most
		} else if eval != nil {
			by.HoldOut = eval.Group // it is read like one
		}
		d, e := look(c.Data, by, patterns)
		if e != nil {
			err = fmt.Errorf("%s data: %w", what, e)
		}
		return d
	}
	grows := c.Data.Follow.On
	if !grows {
		in.train = open(training, c.Data.Train)
	}
	if err == nil && in.train != nil && eval == nil {
		err = keepNegatives(in.train, c)
	}
	in.valid, in.test = open("validation", c.Data.Valid), open("test", c.Data.Test)
	in.validRows = data.All
	if err == nil && in.train == nil && !grows {
		err = errors.New("training data: data.train names no file")
	}
	if err == nil && c.Data.ValidFraction > 0 {
		in.valid, in.validRows = in.train, data.Valid
		err = holdOut(in.train, c)
	}
	return in, err
}

// holdOut chooses the validation rows of the training data.
func holdOut(d *data.Dataset, c *config.Config) error {
	s := &c.Data
	switch {
	case s.ValidTime != "":
		return d.HoldOutNewest(s.ValidTime, s.ValidFraction)
	case s.ValidGroup != "":
		return d.HoldOutGroups(s.ValidGroup, s.ValidFraction, c.Train.Seed)
	}
	return d.HoldOut(s.ValidFraction, c.Train.Seed)
}

// keepNegatives leaves negatives out of training data.
func keepNegatives(d *data.Dataset, c *config.Config) error {
	if c.Data.NegativeRate == 0 {
		return nil
	}
	return d.KeepNegatives(c.Data.NegativeRate, c.Train.Seed)
}

// scanTimes finds with all ranks which records are the newest, if those are held out.
func (j *job) scanTimes(ctx context.Context, d *data.Dataset) error {
	if !d.NeedsTimes() {
		return nil
	}
	own, err := d.ScanTimes(ctx, j.comm.Rank(), j.comm.Size(), func(bytes int64) { j.shown.Reached(bytes) })
	if err != nil {
		return err
	}
	j.rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(j.comm, own.Marshal(), maxShare)
	if err != nil {
		return err
	}
	j.rec.Enter(trace.Scan)
	var merged data.Times
	for rank, b := range all {
		if err := merged.Merge(b); err != nil {
			return fmt.Errorf("wdl: times of rank %d: %w", rank, err)
		}
	}
	if err := d.UseTimes(&merged); err != nil {
		return err
	}
	field := j.config.Data.ValidTime
	if merged.Unread > 0 {
		j.warn(fmt.Sprintf("%d values of field %s are no times; their records are trained on", merged.Unread, field))
	}
	j.say(fmt.Sprintf("validation on the newest %d of %d records (%.1f %%): %s from %s on", merged.Held, merged.All, 100*float64(merged.Held)/float64(merged.All), field, merged.From()))
	return nil
}

// datasets are the distinct ones, the training data first.
func (in inputs) datasets() (all []*data.Dataset) {
	for _, d := range []*data.Dataset{in.train, in.valid, in.test} {
		if d != nil && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// scan reads a dataset once, shared by the ranks, so that all know how many
// records its blocks hold; fit, if not nil, then holds the statistics of all.
func (j *job) scan(ctx context.Context, d *data.Dataset, fit *encode.Fit) error {
	own, err := j.count(ctx, d, fit)
	if err != nil {
		return err
	}
	return j.share(d, own, fit)
}

// count reads this rank's part of a dataset.
func (j *job) count(ctx context.Context, d *data.Dataset, fit *encode.Fit) (*data.Counts, error) {
	j.rec.Enter(trace.Scan)
	if err := j.scanTimes(ctx, d); err != nil {
		return nil, err
	}
	if late := d.Late(); late != "" && j.comm.Rank() == 0 {
		j.opt.Warn("these fields, which features need, have not been seen yet; if no record has them, training does not begin: " + late)
	}
	return d.Scan(ctx, j.comm.Rank(), j.comm.Size(), fit, func(bytes int64) { j.shown.Reached(bytes) })
}

// share tells the ranks what each of them has counted.
func (j *job) share(d *data.Dataset, own *data.Counts, fit *encode.Fit) error {
	counted := own.Marshal()
	j.rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(j.comm, counted, maxShare)
	if err != nil {
		return err
	}
	defer j.rec.Enter(trace.Wait)
	j.rec.Enter(trace.Plan)
	var merged data.Counts
	for rank, b := range all {
		if err := merged.Merge(b); err != nil {
			return fmt.Errorf("wdl: counts of rank %d: %w", rank, err)
		}
		j.shown.Advance(1)
	}
	if err := d.Use(&merged); err != nil {
		return err
	}
	if j.opt.Replicas > 1 {
		j.counts = append(j.counts, merged.Marshal())
	}
	j.tellBad(d)
	if d != j.train || !j.config.Data.Follow.On { // else each span goes on with the others
		j.tellAbsent(d)
	}
	if d != j.train || j.eval != nil {
		j.tellOneClass(d)
	} else if j.comm.Rank() == 0 && !j.config.Data.Follow.On {
		if line := data.Leaking(d.Leaks()); line != "" {
			j.opt.Warn(line)
		}
	}
	if fit == nil {
		return nil
	}
	fitted := fit.Marshal()
	j.rec.Enter(trace.Wait)
	if all, err = collective.AllGatherBytes(j.comm, fitted, maxShare); err != nil {
		return err
	}
	j.rec.Enter(trace.Plan)
	for rank, b := range all {
		if rank == j.comm.Rank() {
			continue
		}
		if err := fit.Merge(b); err != nil {
			return fmt.Errorf("wdl: statistics of rank %d: %w", rank, err)
		}
		j.shown.Advance(1)
	}
	return nil
}

// tellBad tells the user of the records of a dataset that are left out.
func (j *job) tellBad(d *data.Dataset) {
	bad, first := d.Bad()
	if n := d.Excluded(); n > 0 && j.comm.Rank() == 0 {
		j.opt.Warn(fmt.Sprintf("data.where leaves out %d of %d records of %s", n, n+d.Rows(data.All)+bad, firstFew(d.Names())))
	}
	if bad == 0 || j.comm.Rank() != 0 {
		return
	}
	line := fmt.Sprintf("records left out because they cannot be used: %d", bad)
	if j.eval != nil && j.eval.predicts != nil {
		line = fmt.Sprintf("records without a prediction because they cannot be used: %d", bad)
	}
	if len(first) > 0 {
		line += fmt.Sprintf("; the first: %v", &first[0])
	}
	j.opt.Warn(line)
}

// tellOneClass tells the user of a dataset to evaluate on whose labels are all the same.
func (j *job) tellOneClass(d *data.Dataset) {
	which, n := "none", d.Rows(data.All)
	switch ones := d.Positives(); {
	case j.comm.Rank() != 0 || n == 0 || j.eval != nil && j.eval.predicts != nil || j.config.Label.IsNumber() || ones > 0 && ones < n:
		return
	case ones > 0:
		which = "each"
	}
	j.opt.Warn(fmt.Sprintf("%s of the %d records of %s has the label 1, %s; so there is no AUC; the values that are there: wdlrun data show FILE", which, n, firstFew(d.Names()), j.labelRule()))
}

// warnOfFit prints what is doubtful about the columns that features are fitted to.
func (j *job) warnOfFit(fit *encode.Fit) {
	if j.comm.Rank() != 0 {
		return
	}
	for _, line := range fit.Doubts(j.encoder) {
		j.opt.Warn(line)
	}
}

// labelRule says which labels are 1, for people.
func (j *job) labelRule() string {
	l := &j.config.Label
	if l.Threshold != nil {
		return fmt.Sprintf("by field %s: label.threshold is %v", l.Field, *l.Threshold)
	}
	return fmt.Sprintf("by field %s: label.positive is %q", l.Field, l.Positive)
}

// tellAbsent tells the user of the fields that features need and of which no record of a
// dataset has a value.
func (j *job) tellAbsent(d *data.Dataset) {
	if j.comm.Rank() != 0 {
		return
	}
	if keys := j.absentKeys(d, map[string]bool{}); keys != "" {
		j.opt.Warn(fmt.Sprintf("no record of %s has a value of these fields, whose features learn nothing and tell nothing there: %s", firstFew(d.Names()), keys))
	}
}

// absentKeys lists those fields by the keys of the configuration, without those that are
// known, to which it adds them. "" stands for none.
func (j *job) absentKeys(d *data.Dataset, known map[string]bool) string {
	const most, mostListed = 8, 40 // that a person reads
	absent := d.Absent()
	var names, keys []string
	for i, f := range j.config.Features {
		for _, x := range [][2]string{{"field", f.Field}, {"weights", f.Weights}} {
			if name := x[1]; name != "" && !known[name] {
				if known[name] = true; slices.Contains(absent, name) {
					names, keys = append(names, name), append(keys, fmt.Sprintf("features[%d].%s %q", i, x[0], name))
				}
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	has, strange := d.First(), false
	for i, name := range names[:min(len(names), most)] {
		near := nearest.Of(name, has)
		switch {
		case slices.Contains(has, name):
			keys[i] += " (always missing)"
			continue
		case near != "":
			keys[i] += fmt.Sprintf(" (did you mean %q?)", near)
		}
		strange = true
	}
	if more := len(keys) - most; more > 0 {
		keys = append(keys[:most], fmt.Sprintf("and %d more", more))
	}
	list := strings.Join(keys, ", ")
	if strange && len(has) <= mostListed {
		list += "; there are: " + strings.Join(has, ", ")
	}
	return list
}

// feed is the reader of the training rows. It goes on from epoch to epoch, so that
// the next one's first batches are read while this one's last are trained on; each
// span of a stream has its own.
type feed struct {
	reader *data.Reader // nil: none, or there are others for slots or microbatches
	pace   data.Pace    // of the readers that have ended
}

// open returns the reader, which stands where the cursor does.
func (f *feed) open(j *job) (r *data.Reader, err error) {
	if f.reader == nil {
		left := int64(j.config.Train.Epochs) - j.cursor.Epoch
		if f.reader, err = j.reader(j.cursor.Consumed, max(left, 1)); err != nil {
			return nil, err
		}
	}
	j.shown.Read(f.reader)
	return f.reader, nil
}

func (f *feed) close(j *job) {
	if f.reader != nil {
		j.shown.Unread()
		f.reader.Close()
		f.took(f.reader)
		j.lack(f.reader)
		f.reader = nil
	}
}

// took adds up what a reader did, which has ended.
func (f *feed) took(r *data.Reader) {
	p := r.Pace()
	f.pace.Work += p.Work
	f.pace.Depth, f.pace.Threads = max(f.pace.Depth, p.Depth), max(f.pace.Threads, p.Threads)
}

// report tells of the reader, which is closed.
func (f *feed) report(in inputs) report.InputReport {
	r := report.InputReport{Depth: f.pace.Depth, Threads: f.pace.Threads}
	of := []*data.Dataset{in.train, in.test}
	if in.valid != in.train { // not held out of it
		of = append(of, in.valid)
	}
	for _, d := range of {
		if d != nil {
			bad, _ := d.Bad()
			r.Bad += bad
		}
	}
	return r
}

// reader reads this rank's part of some epochs, from row start of the current one
// on.
func (j *job) reader(start, epochs int64) (*data.Reader, error) {
	return data.NewReader(j.train, j.encoder, data.ReaderConfig{
		Seed: j.config.Train.Seed, Epoch: j.cursor.Epoch, Epochs: epochs, Start: start, GlobalBatch: j.config.Train.Global(j.comm.Size()),
		Rank: j.comm.Rank(), Size: j.comm.Size(), Shuffle: *j.config.Train.Shuffle, Select: data.Train,
		Growth: j.config.Train.Growth(), Trained: j.cursor.Samples - j.cursor.Consumed,
	})
}

// evalBatch is how many samples a rank evaluates at once.
const evalBatch = 1024

// evaluate computes the metrics of the selected rows of a dataset, and by group if groups
// is not nil.
func (j *job) evaluate(ctx context.Context, d *data.Dataset, rows data.Select, groups *metrics.Groups) (m report.Evaluated, err error) {
	return j.evaluateBatches(ctx, d, rows, groups, nil)
}

// evaluator computes the logits of batches: a trainer, or the scorer of an exported model.
type evaluator interface {
	Evaluate(next func() (*encode.Batch, error)) (metrics.Metrics, error)
	LogitsOf(label int) []float32
	Unknown() []int64
}

// evaluateBatches is evaluate; predictions, if it is not nil, takes the logits.
func (j *job) evaluateBatches(ctx context.Context, d *data.Dataset, rows data.Select, groups *metrics.Groups, predictions *predictions) (m report.Evaluated, err error) {
	j.rec.Enter(trace.Eval)
	m.Absent = d.Absent()
	probe, encoder, err := j.newProbe(groups)
	if err != nil {
		return m, err
	}
	r, err := data.NewReader(d, encoder, data.ReaderConfig{
		GlobalBatch: evalBatch * j.comm.Size(), Rank: j.comm.Rank(), Size: j.comm.Size(), Select: rows,
	})
	if err != nil {
		return m, err
	}
	defer r.Close()
	j.shown.Read(r)
	defer j.shown.Read(nil)
	var by evaluator = j.trainer
	if predictions != nil {
		by = predictions.by
	}
	var last *encode.Batch
	m.Metrics, err = by.Evaluate(func() (*encode.Batch, error) {
		if last != nil {
			probe.add(last, by.LogitsOf(0))
			if j.eval != nil && j.eval.Each != nil {
				if err := j.eval.Each(probe.without(last), by.LogitsOf(0)); err != nil {
					return nil, err
				}
			}
			if predictions != nil {
				if err := predictions.take(last); err != nil {
					return nil, err
				}
			}
			r.Recycle(last)
			j.shown.Advance(1)
		}
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if last = b; err != nil {
			return nil, err
		}
		if predictions != nil {
			predictions.complete(b)
		}
		return probe.without(b), nil
	})
	if err != nil {
		return m, err
	}
	if m.Unknown, err = j.unknown(probe.unknown(r.Unknown())); err != nil {
		return m, err
	}
	for i, n := range by.Unknown() {
		if name := j.encoder.Sparse()[i].Name; n > m.Unknown[name] {
			m.Unknown[name] = n
		}
	}
	m.Outside, err = probe.outside(j.comm)
	return m, err
}

// lack counts what vocabularies did not hold in training.
func (j *job) lack(r *data.Reader) {
	n := r.Unknown()
	if j.lacking == nil {
		j.lacking = make([]int64, len(n))
	}
	for i := range n {
		j.lacking[i] += n[i]
	}
}

// unknown adds up what the ranks counted of values that the vocabulary of a
// feature does not hold, by feature.
func (j *job) unknown(counts []int64) (map[string]int64, error) {
	if counts == nil {
		counts = make([]int64, len(j.encoder.Sparse()))
	}
	if err := collective.AllReduce(j.comm, counts, collective.Sum); err != nil {
		return nil, err
	}
	unknown := map[string]int64{}
	for i, c := range j.encoder.Sparse() {
		if counts[i] > 0 {
			unknown[c.Name] = counts[i]
		}
	}
	return unknown, nil
}
