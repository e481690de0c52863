package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/machine/cgroup"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/shared"
)

// CheckTiers returns an error for each tier folder that does not exist or is not writable. It
// runs on a host of the ranks, before any rank starts.
func CheckTiers(o Options) error {
	from, err := o.openCheckpoint()
	if err == nil && from != nil && o.Away && incomplete(from) || o.Away && errors.Is(err, fs.ErrNotExist) {
		return nil // the ranks read it from their hosts
	}
	if err != nil {
		return err
	}
	c, _, err := o.config(from)
	if err != nil {
		return err
	}
	var faults []error
	for i, t := range c.Tables {
		if t.Tier.Dir == "" {
			continue
		}
		try, err := os.MkdirTemp(t.Tier.Dir, ".wdlrun-")
		if err != nil {
			faults = append(faults, fmt.Errorf("tables[%d].tier.dir: cannot create a file in %s: %w: it must be a folder that is there, on a fast disk of each host of ranks", i, t.Tier.Dir, rundir.Cause(err)))
			continue
		}
		os.Remove(try)
	}
	return errors.Join(faults...)
}

// checkCombination returns all conflicts between options and configuration, and everything that is not
// possible with size ranks.
func (o Options) checkCombination(c *config.Config, size int) error {
	how, err := o.Tolerance.Of(c)
	if err != nil {
		return err
	}
	errs := []error{how.Validate(c, size), replicable(c, o.Replicas, size)}
	if n := c.Train.Global(size); n > data.MaxBatch {
		errs = append(errs, fmt.Errorf("train.batch: %d samples of each of %d ranks are %d, and a step may have %d: give at most %d", c.Train.Batch, size, n, data.MaxBatch, data.MaxBatch/size))
	}
	if c.Train.MayUseGPU() && o.Replicas > 1 {
		errs = append(errs, errors.New("train.device: "+c.Train.Device+" cannot be combined with -replicas, which does not restore the parameters on a device; leave out -replicas"))
	}
	if c.Train.Slots > 0 {
		errs = append(errs, checkSlots(c, o.Replicas, size))
	}
	if c.Train.Gate.Data == "next" && o.Day == nil && o.From != "" {
		errs = append(errs, errors.New("train.gate.data: next: needs train -by, which names the next partition; or validate on newer files: leave it out, and name them in data.valid"))
	}
	if c.Train.Retain.Days > 0 && o.Day == nil && o.From != "" {
		errs = append(errs, errors.New("train.retain: needs train -by, which knows the dates of the data; tables[].evict.age counts steps"))
	}
	if c.Data.Follow.On && !how.Off() {
		errs = append(errs, errors.New("data.follow: steps that do not wait for slow ranks need data that does not grow: leave out -backup and -mode (train.backup, train.mode)"))
	}
	return errors.Join(errs...)
}

// Check finds the faults of the configuration and of its files that one process can find
// before any rank starts. If Resume names one checkpoint rather than a run, Check reads all
// of it: no other checkpoint could replace it.
func Check(ctx context.Context, o Options, ranks int) error {
	from, c, err := o.open(ctx)
	if err != nil {
		return ofOtherHosts(err)
	}
	if err = o.checkCombination(c, ranks); err == nil && from != nil {
		err = errors.Join(checkVersion(from), o.resumable(from, c, ranks))
	}
	if err == nil && o.Here > 0 {
		err = errors.Join(step.Able(c), o.hasDevices(c))
	}
	if err != nil {
		return err
	}
	if from == nil {
		if err := input.CheckIndexed(c); err != nil {
			return err
		}
		if o.Here > 0 { // else the ranks find the files on their hosts
			if err := CheckVectors(c); err != nil {
				return err
			}
		}
		if c.Data.Follow.On && o.From != "" {
			return errors.New("from: a stream has no whole to take statistics of new features from: train on files with -from, then follow the stream with -resume")
		}
	}
	if c.Data.Follow.On {
		feed, err := data.NewFeed(c.Data, stream.Position{})
		if err != nil {
			return err
		}
		feed.Close()
	}
	if !c.Data.EachHost() || !o.Away { // else the ranks find the files of their hosts
		if err := o.openData(c); err != nil && !(o.Day != nil && IsEmpty(err)) {
			return err
		}
	}
	return o.checkMemory(c, ranks, cgroup.Read())
}

// openData opens the data. The ranks open every file; of many, some show here most faults of a
// configuration. Only if these have one, which the others may explain, all are opened.
func (o Options) openData(c *config.Config) error {
	x := input.Setup{Rank: shared.Rank{PrintWarning: o.Warn}, Config: c, Lacks: o.Day.missingColumns(), Part: true}
	_, err := input.Open(x)
	if err != nil {
		x.Part = false
		_, err = input.Open(x)
	}
	return err
}

// OpenConfig returns the configuration of the model that o.Resume names.
func OpenConfig(ctx context.Context, o Options) (*config.Config, error) {
	_, c, err := o.open(ctx)
	return c, err
}

// ErrElsewhere means that this host lacks parts of a checkpoint or data files, which the ranks
// read from their hosts and check there.
var ErrElsewhere = errors.New("the files are on other hosts")

// ofOtherHosts returns err, or nil if it is ErrElsewhere.
func ofOtherHosts(err error) error {
	if errors.Is(err, ErrElsewhere) {
		return nil
	}
	return err
}

// incomplete reports whether this host lacks parts of a checkpoint or of its bases.
func incomplete(c *checkpoint.Checkpoint) bool {
	return slices.ContainsFunc(c.Chain(), func(link *checkpoint.Checkpoint) bool { return len(link.Away()) > 0 })
}

// open opens the checkpoint to resume from, if any, and resolves the configuration.
func (o Options) open(ctx context.Context) (from *checkpoint.Checkpoint, c *config.Config, err error) {
	accept := checkConfig // the ranks read all of it, and take an earlier one if it is damaged
	if checkpoint.IsCheckpoint(o.Resume) {
		accept = func(c *checkpoint.Checkpoint) error { return c.Verify(ctx) }
	}
	from, err = o.openCheckpoint(func(c *checkpoint.Checkpoint) error {
		if o.Away && incomplete(c) {
			return nil
		}
		return accept(c)
	})
	if o.Away && (errors.Is(err, fs.ErrNotExist) || from != nil && incomplete(from)) {
		return nil, nil, ErrElsewhere
	}
	if err == nil {
		c, _, err = o.config(from)
	}
	return from, c, err
}

// checkMemory returns an error if the dense part exceeds the limit of a model, or the memory of
// this machine for the ranks that will run on it.
func (o Options) checkMemory(c *config.Config, ranks int, m cgroup.Memory) error {
	d, err := denseNeeds(c, ranks)
	if err != nil {
		return fmt.Errorf("model.hidden %v: %w", c.Model.Hidden, err)
	}
	if need := d.MemoryBytes(); o.Here > 0 && need > m.Available/int64(o.Here) {
		return fmt.Errorf("model.hidden %v: the dense part needs %v; %d ranks of it do not fit into the %s of memory that are left here: use narrower layers or fewer ranks on this host; -plan takes other hosts by -hosts",
			c.Model.Hidden, d, o.Here, plan.Bytes(m.Available))
	}
	return nil
}

// MaxReplicas is the largest number of ranks that can hold a shard: its owner and one copy.
const MaxReplicas = 2

// replicable returns an error if a configuration cannot be trained with copies of the shards.
func replicable(c *config.Config, replicas, size int) (err error) {
	switch {
	case replicas < 0 || replicas > MaxReplicas:
		err = fmt.Errorf("%d replicas: choose 1 or %d", replicas, MaxReplicas)
	case replicas < 2:
	case size < 2:
		err = errors.New("2 replicas need at least 2 ranks")
	case c.Data.Follow.On:
		err = errors.New("2 replicas: data.follow: the position of a stream is not known to every rank: remove -replicas; -restarts 3 resumes from the last checkpoint")
	case c.Data.EachHost():
		err = errors.New("2 replicas: data.hosts: each: a host that is replaced has other files: remove -replicas; -restarts 3 resumes from the last checkpoint")
	case c.Model.BatchNorm:
		err = errors.New("2 replicas: model.batch_norm changes its statistics within a step, which then cannot be taken again: turn it off")
	}
	return err
}

// hasDevices returns an error if the ranks of this machine cannot use the device that the
// configuration names.
func (o Options) hasDevices(c *config.Config) error {
	switch {
	case !c.Train.MayUseGPU() && len(o.OnGPU) > 0:
		return fmt.Errorf("no effect without train.device: gpu: %s: give -device gpu too", strings.Join(o.OnGPU, " and "))
	case !c.Train.MayUseGPU():
		return nil
	case o.Devices == nil:
		return ErrNoDevices
	case c.Train.Device == "auto":
		return nil // the ranks find out
	}
	return o.Devices.Check(c, o.Here)
}

// CheckReplay finds the faults of a replay that one process can find before any rank starts.
func CheckReplay(ctx context.Context, o Options, ranks int) error {
	if err := o.replay(ranks); err != nil {
		return err
	}
	if _, err := script(o.Replay); err != nil {
		return err
	}
	return Check(ctx, o, ranks)
}

// denseNeeds plans the dense part of a filled configuration. It reads no records.
func denseNeeds(c *config.Config, ranks int) (plan.Dense, error) {
	columns, inputs, err := encode.Outputs(input.SchemaOf(c).Fill())
	if err != nil {
		return plan.Dense{}, err
	}
	size, err := step.DenseSize(c, layout.New(c, columns, inputs))
	return plan.NewDense(size, c.Train.Threads, ranks), err
}
