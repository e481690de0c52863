package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/plan"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/sparse"
)

// Result is what a finished job reports, and the JSON line of `wdlrun train
// --json`. Steps and Samples count from the very start of training; all that is said
// of time counts this job alone, which began after step Since: SamplesPerSecond is
// NewSamples by TrainSeconds, the time that rank 0 spent in training steps, and Seconds
// has also the time before, between and after them.
type Result struct {
	WorldSize        int               `json:"world_size"`
	Addresses        map[string]string `json:"addresses,omitempty"` // at which the ranks of each host listen, if there are several hosts
	Steps            int64             `json:"steps"`
	Samples          int64             `json:"samples"`
	Since            int64             `json:"since_step"`    // after which this job began
	NewSamples       int64             `json:"new_samples"`   // trained on since
	TrainSeconds     float64           `json:"train_seconds"` // in steps since
	Seconds          float64           `json:"seconds"`
	SamplesPerSecond float64           `json:"samples_per_second"`
	InputWaitShare   float64           `json:"input_wait_share"` // of the time in steps, mean of the ranks
	Input            InputReport       `json:"input"`
	StepSeconds      float64           `json:"step_seconds"` // mean of this job's steps
	Rates            RatesReport       `json:"learning_rates"`
	TrainLogLoss     float64           `json:"train_logloss"` // over the last epoch, while it was trained
	TestAUC          *float64          `json:"test_auc"`      // null without test data, and where it is of one class alone
	TestLogLoss      *float64          `json:"test_logloss"`
	TestAccuracy     *float64          `json:"test_accuracy"`
	ValidAUC         *float64          `json:"valid_auc,omitempty"` // of the epoch that the result is of
	ValidLogLoss     *float64          `json:"valid_logloss,omitempty"`
	Valid            *metrics.Metrics  `json:"valid,omitempty"` // all metrics of that epoch, and of the test data
	Test             *metrics.Metrics  `json:"test,omitempty"`
	BestEpoch        int               `json:"best_epoch,omitempty"` // that early stopping restored
	BestStep         int64             `json:"best_step,omitempty"`  // the same, if evaluations are counted in steps
	Improving        string            `json:"improving,omitempty"`  // metric of the validation data that still improved when train.epochs ended the training
	Tables           []TableReport     `json:"tables"`
	Ranks            []RankReport      `json:"ranks"`                  // as owners of rows, measured and planned
	Hot              *HotReport        `json:"hot,omitempty"`          // where ranks keep rows of each other
	MovedShards      int64             `json:"moved_shards,omitempty"` // to other ranks, at checkpoints of this job
	Imbalance        float64           `json:"imbalance"`              // busiest owner over the mean, in bytes
	PlannedImbalance float64           `json:"planned_imbalance"`      // the same as planned
	SparseBytesSent  int64             `json:"sparse_bytes_sent"`      // of all ranks: keys, rows and gradients
	RunDir           string            `json:"run_dir"`
	Checkpoint       string            `json:"checkpoint"`                // of the model; empty if it could not be written
	LastCheckpoint   string            `json:"last_checkpoint,omitempty"` // if so: the last good one, to resume from
	Lost             []string          `json:"lost,omitempty"`            // files of RunFiles that could not be written, timelines by any rank
	NoTimeline       bool              `json:"no_timeline,omitempty"`     // none was asked for
	Spans            int64             `json:"spans,omitempty"`           // of a stream
	Ended            string            `json:"ended,omitempty"`           // why the stream did
	Stopped          bool              `json:"stopped,omitempty"`         // on request, before the end; resume continues
	EarlyStopped     int               `json:"early_stopped,omitempty"`   // after so many evaluations without a better one
	Healed           int               `json:"healed,omitempty"`          // how often training went on from what was left of its group

	// What ranks that were lost had done is in the model and in the figures of steps and
	// samples, but not in what each rank counts: the bytes, inserted, rejected and evicted
	// rows of Tables, Ranks and SparseBytesSent, Input, and TrainUnknown.
	Uncounted []Uncounted `json:"uncounted,omitempty"`

	save.Costs // of checkpoints

	// Where steps do not wait for all ranks: how they got on without, microbatches that
	// were too late for the step they were begun in, since the training's first step, and
	// samples of a step, on average.
	Mode           string  `json:"mode,omitempty"`
	Backup         int     `json:"backup,omitempty"` // at the end
	LateSlots      int64   `json:"late_slots,omitempty"`
	EffectiveBatch float64 `json:"effective_batch,omitempty"`

	SlowRanks []SlowRank `json:"slow_ranks,omitempty"` // those that were named while they were

	// By feature, how many values of the training data that this job read share the
	// key of the unknown, and how many of the test data training has not seen.
	TrainUnknown map[string]int64 `json:"train_unknown,omitempty"`
	TestUnknown  map[string]int64 `json:"test_unknown,omitempty"`

	// By field, numbers outside the range of the training data. Validation data counts
	// only if this job evaluated it.
	ValidOutside []Outside `json:"valid_outside_range,omitempty"`
	TestOutside  []Outside `json:"test_outside_range,omitempty"`
}

// Uncounted says up to which step of a job the counters of a rank were lost with it.
type Uncounted struct {
	Rank int   `json:"rank"`
	Step int64 `json:"until_step"`
}

// RunFile is one entry of a run directory.
type RunFile struct{ Name, What string }

// RunFiles says what a finished job leaves in its run directory.
func (r Result) RunFiles() []RunFile {
	files := []RunFile{
		{save.FileConfig, "the configuration in effect"},
		{save.FileMetrics, "loss, speed and evaluations, one JSON object a line"},
		{save.FileResult, "the result"},
		{save.FileTraces, "timeline of each rank, for ui.perfetto.dev"},
	}
	switch {
	case r.Checkpoint != "":
		files = append(files, RunFile{checkpoint.Folder + "/", "the model, to resume from or to evaluate"})
	case r.LastCheckpoint != "":
		files = append(files, RunFile{checkpoint.Folder + "/", "up to " + filepath.Base(r.LastCheckpoint) + ", to resume from"})
	}
	return slices.DeleteFunc(files, func(f RunFile) bool {
		return slices.Contains(r.Lost, f.Name) || r.NoTimeline && f.Name == save.FileTraces
	})
}

// Differs compares in a line what was measured with what was planned.
func (r Result) Differs() string {
	var rows, bytes, sent [2]int64
	var others []string
	for _, t := range r.Tables {
		for i, x := range [2]Needs{t.Planned, {t.Rows, t.Bytes, t.Sent}} {
			rows[i], bytes[i], sent[i] = rows[i]+x.Rows, bytes[i]+x.Bytes, sent[i]+x.Sent
		}
		if t.Strategy != sparse.Rows.String() {
			others = append(others, t.Name+" "+t.Strategy)
		}
	}
	line := fmt.Sprintf("planned %d rows (%s), %s sent in steps, busiest owner %.2f of the mean; actual %s sent, busiest owner %.2f",
		rows[0], plan.Bytes(bytes[0]), plan.Bytes(sent[0]), r.PlannedImbalance, plan.Bytes(sent[1]), r.Imbalance)
	if rows[0] == 0 { // a stream has no sample to foresee by
		line = fmt.Sprintf("%s sent in steps; busiest owner %.2f of the mean", plan.Bytes(sent[1]), r.Imbalance)
	}
	if r.Hot != nil {
		line += fmt.Sprintf("; %d rows on every rank, copied %d times", r.Hot.Rows, r.Hot.Choices)
	}
	if len(others) > 0 {
		line += "; " + strings.Join(others, ", ")
	}
	for _, x := range r.Uncounted {
		line += fmt.Sprintf("; not measured: rank %d until step %d, whose counters were lost with it", x.Rank, x.Step)
	}
	return line
}

// InputReport says how the training rows were read during the steps. Threads that
// read and the one that trains share the cores of the host: what reading costs
// where all are busy is work, not waiting.
type InputReport struct {
	// Time that the reader's threads were at work, by that of the steps, mean of the ranks.
	// It may exceed 1: they work before the first step and during evaluations too, and their
	// time has that in which others had the core.
	WorkShare float64 `json:"work_share"`
	Depth     int     `json:"depth"`   // batches that rank 0 was ahead at most
	Threads   int     `json:"threads"` // of rank 0's reader
	Bad       int64   `json:"bad"`     // records of all data that were left out because they cannot be used
}
