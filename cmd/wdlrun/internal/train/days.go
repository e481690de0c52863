package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/member"
)

// dayResult is the result of the training on one of the partitions of -day.
type dayResult struct {
	report.Result
	Part int `json:"part"` // its place among them
}

// dayReport is what rank 0 reports of the training on a partition after which others follow.
type dayReport struct {
	Part    int
	RunDir  string
	Day     *rundir.Day
	Skipped string
}

// brief returns the report of a result.
func (r *dayResult) brief() dayReport { return dayReport{r.Part, r.RunDir, r.Day, r.Skipped} }

// days trains, on one rank, on the partitions of -day, one after the other. A model stays in memory
// until the next partition has taken it.
type days struct {
	p   *command.Program
	c   *cli.Context
	m   *member.Member
	all []dayOptions

	from    string       // run directory of the model
	skipped []rundir.Day // since that model
	kept    train.Kept
}

// trainRank runs one rank of the job.
func trainRank(ctx context.Context, p *command.Program, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
	if c.IsSet("day") {
		return trainDays(ctx, p, c, m, warn)
	}
	return trainOne(ctx, p, c, m, warn, nil)
}

// trainDays runs one rank of the trainings on the partitions of -day.
func trainDays(ctx context.Context, p *command.Program, c *cli.Context, m *member.Member, warn func(string)) (result any, err error) {
	d := days{p: p, c: c, m: m}
	var first dayOptions
	if err := json.Unmarshal([]byte(c.String("day")), &first); err != nil {
		return nil, err
	}
	d.from, d.skipped = first.From, first.Ledger.Skipped
	then := first.Then
	first.Then = nil
	d.all = append([]dayOptions{first}, then...)
	begin, err := d.begin()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.kept.Close()) }()
	for i := begin; ; i++ {
		if err := d.c.Set("day", command.Flow(d.all[i])); err != nil {
			return nil, err
		}
		var kept *train.Kept
		if len(d.all) > 1 {
			kept = &d.kept
		}
		r := dayResult{Part: i}
		if r.Result, err = trainOne(ctx, p, c, m, warn, kept); err != nil {
			return nil, err
		}
		if i == len(d.all)-1 || r.Skipped == "" && (command.Unfinished("wdlrun", r.Result) != nil || r.Day == nil) {
			return r, nil
		}
		if err := d.next(&r); err != nil {
			return nil, err
		}
	}
}

// maxNext bounds the message about the next partition.
const maxNext = 64 << 20

// next completes the options of the partition after a result.
func (d *days) next(r *dayResult) error {
	next := &d.all[r.Part+1]
	if err := d.c.Set("into", ""); err != nil {
		return err
	}
	if r.Skipped != "" {
		d.skipped = append(d.skipped, rundir.Day{Day: d.all[r.Part].Day.Day, Mark: d.all[r.Part].Mark})
	} else {
		d.from, d.skipped = r.RunDir, nil
	}
	next.From = d.from
	next.Ledger.Skipped = d.skipped
	if d.m.World.Rank == 0 {
		b, err := json.Marshal(r.brief())
		if err != nil {
			return err
		}
		d.m.Session.Report(command.AboutPart, b)
	}
	return d.retire(next)
}

// retire sets the step up to which rows are removed before the training on a partition.
func (d *days) retire(next *dayOptions) error {
	if next.Retain == 0 || next.From == "" {
		return nil
	}
	return d.share(&next.Retire, func() error {
		l, err := rundir.ReadDays(next.From)
		next.Retire = train.Retires(&l, next.Begin, next.Retain)
		return err
	})
}

// share calls f on rank 0, and sends value, which f sets, to all ranks.
func (d *days) share(value any, f func() error) error {
	var message struct {
		Fault string
		Value json.RawMessage
	}
	var b []byte
	if d.m.World.Rank == 0 {
		err := f()
		if err == nil {
			message.Value, err = json.Marshal(value)
		}
		if err != nil {
			message.Fault = err.Error()
		}
		if b, err = json.Marshal(message); err != nil {
			return err
		}
	}
	b, err := collective.BroadcastBytes(d.m.Comm, b, 0, maxNext)
	if err == nil {
		err = json.Unmarshal(b, &message)
	}
	if err == nil && message.Fault != "" {
		err = errors.New(message.Fault)
	}
	if err == nil {
		err = json.Unmarshal(message.Value, value)
	}
	return err
}

// runOf returns the run directory of the checkpoint of a model; "" if there is none.
func runOf(from string) string {
	if from == "" {
		return ""
	}
	return filepath.Dir(filepath.Dir(from))
}

// resumed is where the trainings continue after a failure.
type resumed struct {
	Part int
	From string // run directory of the model before the partition
	Into string // run directory of the training on it; "": a new one
}

// begin returns the first partition to train on: after a failure, the one after those that have been
// trained on.
func (d *days) begin() (int, error) {
	if d.m.World.Generation == 0 || !d.m.World.Launched || len(d.all) == 1 {
		return 0, nil
	}
	var at resumed
	if err := d.share(&at, func() (err error) { at, err = d.resume(); return err }); err != nil {
		return 0, err
	}
	o := &d.all[at.Part]
	d.from, o.From, o.Into = at.From, at.From, at.Into
	if err := d.c.Set("into", at.Into); err != nil {
		return 0, err
	}
	return at.Part, d.retire(o)
}

// resume finds where the trainings continue. The last finished one made its run the latest; the one
// that failed may have a run directory.
func (d *days) resume() (at resumed, err error) {
	out := command.PathOf(d.c, "out")
	at.From = d.all[0].From
	if real := rundir.LatestOf(out); real != "" && real != d.all[0].From {
		l, err := rundir.ReadDays(real)
		if err != nil {
			return at, err
		}
		n := len(l.Days)
		i := slices.IndexFunc(d.all, func(o dayOptions) bool {
			return n > 0 && l.Days[n-1].Day == o.Day.Day && l.Days[n-1].Run == filepath.Base(real)
		})
		if last := len(d.all) - 1; i == last { // its result is not known
			about, err := rundir.ReadAbout(real)
			return resumed{last, runOf(about.From), real}, err
		} else if i >= 0 {
			at.Part, at.From = i+1, real
		}
	}
	into := cmp.Or(d.c.String("into"), rundir.Of(out, d.m.World.Job), d.all[0].Into)
	if about, err := rundir.ReadAbout(into); into != "" && err == nil && about.Day == d.all[at.Part].Day.Day && about.Mark == d.all[at.Part].Mark {
		at.Into = into
	}
	return at, nil
}
