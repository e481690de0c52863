package train

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/runs/live"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// Options are the options of a training job. Rank 0 sends its options to the other ranks.
type Options struct {
	Config *config.Config    // nil: the checkpoint's when resuming, else config.Default
	Set    []string          // settings that override the configuration's, "train.seed=7"
	Out    string            // folder in which the run directory is made, default "runs"
	Resume string            // run directory or checkpoint to resume from
	From   string            // run directory or checkpoint whose model a new training begins with
	Auto   bool              // Resume is the newest run, not one that the user named: a complete one is no error
	Read   bool              // Check has verified the checkpoint that Resume names
	Again  string            // run directory of an earlier generation of this job: the job resumes from its last checkpoint or restarts in it
	Began  func()            // called when Status has the run directory, once or more; may be nil
	Warn   func(line string) // prints a warning of one line; nil: silent
	Say    func(line string) // prints a line of progress; nil: silent

	Replay    string         // run directory whose steps are repeated with the microbatches that counted in them
	Tolerance step.Tolerance // treatment of slow ranks
	Peers
	rundir.Owner            // its job is the same in all its generations, and stored in a new run directory
	Chaos        chaos.Spec // injected faults; train.seed is the seed of random ones
	Survey       string     // folder of surveys shared by trainings of the same data; "": none
	Here         int        // number of ranks on this machine, for Check
	Devices      Devices    // GPUs of this machine; nil: the build does not support GPUs
	OnGPU        []string   // given flags that only affect GPUs
	Kill         func()     // ends this process at once, for Chaos; nil: kill faults are rejected
	Display
	About rundir.About // written to the run directory, with Hosts, unless its version is empty

	Day      *Day // partition of train -by; nil: none
	Replicas int  // ranks that hold each shard; 0 and 1: only its owner. It must be the same on all ranks
}

// Display is where a job shows its progress while it runs.
type Display struct {
	Board  *live.Board // dashboard of the job, on rank 0; may be nil
	Events bool        // rank 0 writes event files of TensorBoard into the run directory
}

// openCheckpoint opens the checkpoint to resume from. Without one it returns nil.
func (o Options) openCheckpoint(accept ...func(*checkpoint.Checkpoint) error) (*checkpoint.Checkpoint, error) {
	if o.Resume == "" {
		return nil, nil
	}
	c, _, err := checkpoint.Resolve(o.Resume, accept...)
	if err != nil {
		return nil, rundir.ResumeHint(err, o.Resume)
	}
	return c, nil
}

// config resolves the configuration: the given one, else the checkpoint's, else the default.
// Single settings are applied last. changed lists the settings that differ from the
// checkpoint's, one per line; a setting that a resumed training cannot change is an error.
func (o Options) config(from *checkpoint.Checkpoint) (c *config.Config, changed []string, err error) {
	var was *config.Config
	if from != nil {
		if was, err = save.ReadConfig(from); err != nil {
			return nil, nil, err
		}
		if was.Train.Scaling == "" { // written by a version before train.scaling
			was.Train.Scaling = "none"
		}
	}
	c = o.Config
	switch {
	case c != nil:
	case was != nil:
		c = was
	case o.From != "":
		if c, err = sourceConfig(o.From, nil); err != nil {
			return nil, nil, err
		}
		c.Train.From = config.From{} // described how the source took its own source
	default:
		c = config.Default()
	}
	c = c.Clone()
	removed, err := config.SetAll(c, o.Set)
	if err != nil {
		return nil, nil, err
	}
	if o.Warn != nil && o.Day == nil { // train -by has reported them
		for _, line := range removed {
			o.Warn("-set " + line)
		}
	}
	o.Tolerance.Write(c)
	c.Fill()
	if err := fitsSource(o.From, c); err != nil || was == nil {
		return c, nil, err
	}
	was.Fill()
	changed = config.Diff(was, c)
	return c, changed, checkChanges(changed)
}

// free matches the settings that a training may change when it resumes. They decide how long
// and how fast it learns, what travels between ranks, where its data is stored, and how many
// bad records it accepts. The content of the data is checked by its fingerprint. All other
// settings decide what the parameters mean or which samples are left in the epoch.
var free = pattern.Lazy(`^(data\.(train|test|valid|hosts|follow|max_bad)\b|train\.(epochs|threads|precision|device|mode|backup|batch|global_batch|clip_norm|eval_every|eval_steps|schedule|early_stop|gate|checkpoint|export|l2)\b|tables\[\d+\]\.(strategy|tier\.(dir|memory)):|` +
	`(train\.optimizer|tables\[\d+\])\.(dense|deep|wide)\.(learning_rate|beta|beta1|beta2|epsilon|weight_decay|l1|l2):)`)

func checkChanges(changed []string) error {
	var fixed []string
	for _, d := range changed {
		if !free().MatchString(d) {
			fixed = append(fixed, d)
		}
	}
	if len(fixed) == 0 {
		return nil
	}
	return fmt.Errorf("resume: a resumed training cannot change these settings; start a new training:\n  %s", strings.Join(fixed, "\n  "))
}

// picked reports whether the user named this checkpoint itself rather than its run.
func (o *Options) picked(from *checkpoint.Checkpoint) bool {
	return filepath.Clean(o.Resume) == filepath.Clean(from.Dir())
}
