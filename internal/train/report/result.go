package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/sparse"
)

// Result is the result of a job and the JSON line of `wdlrun train --json`. Steps and Samples
// count from the beginning of the training. Times count this job only, which began after step
// Since: SamplesPerSecond is NewSamples divided by TrainSeconds, the time that rank 0 spent
// in training steps. Seconds includes the time before, between and after the steps.
type Result struct {
	WorldSize        int               `json:"world_size"`
	Addresses        map[string]string `json:"addresses,omitempty"` // address of the ranks of each host, if there are several hosts
	Steps            int64             `json:"steps"`
	Samples          int64             `json:"samples"`
	Began            int64             `json:"began_step,omitempty"` // step of the model that the training began with
	Since            int64             `json:"since_step"`           // step after which this job began
	NewSamples       int64             `json:"new_samples"`          // samples since then
	TrainSeconds     float64           `json:"train_seconds"`        // time in steps since then
	Seconds          float64           `json:"seconds"`
	SamplesPerSecond float64           `json:"samples_per_second"`
	InputWaitShare   float64           `json:"input_wait_share"` // share of the time in steps, mean of the ranks
	Input            InputReport       `json:"input"`
	StepSeconds      float64           `json:"step_seconds"` // mean duration of this job's steps
	Rates            RatesReport       `json:"learning_rates"`
	TrainLogLoss     float64           `json:"train_logloss"` // mean over the last epoch, during the training; if BestEpoch is set, over that one
	TestAUC          *float64          `json:"test_auc"`      // null without test data, or if it has one class only
	TestLogLoss      *float64          `json:"test_logloss"`
	TestAccuracy     *float64          `json:"test_accuracy"`
	ValidAUC         *float64          `json:"valid_auc,omitempty"` // AUC of the epoch of the result
	ValidLogLoss     *float64          `json:"valid_logloss,omitempty"`
	Valid            *metrics.Metrics  `json:"valid,omitempty"` // all metrics of that epoch
	Test             *metrics.Metrics  `json:"test,omitempty"`
	ValidData        string            `json:"valid_data,omitempty"` // identity of the rows of Valid
	TestData         string            `json:"test_data,omitempty"`  // identity of the rows of Test
	Gate             *Gate             `json:"gate,omitempty"`       // with train.gate: the comparison with the model before it
	Day              *rundir.Day       `json:"day,omitempty"`        // with train -by: the partition
	Skipped          string            `json:"skipped,omitempty"`    // why the partition was not trained on
	Chosen
	Tables           []TableReport `json:"tables"`
	Ranks            []RankReport  `json:"ranks"`                  // ranks as owners of rows, measured and planned
	MovedShards      int64         `json:"moved_shards,omitempty"` // shards moved to other ranks at checkpoints of this job
	Imbalance        float64       `json:"imbalance"`              // bytes of the busiest owner divided by the mean
	PlannedImbalance float64       `json:"planned_imbalance"`      // planned Imbalance
	SparseBytesSent  int64         `json:"sparse_bytes_sent"`      // over all ranks: keys, rows and gradients
	RunDir           string        `json:"run_dir"`
	Checkpoint       string        `json:"checkpoint"`                // checkpoint of the model; empty if it could not be written
	LastCheckpoint   string        `json:"last_checkpoint,omitempty"` // in that case, the last good checkpoint
	Lost             []string      `json:"lost,omitempty"`            // files of RunFiles that could not be written by some rank
	Warnings         []string      `json:"warnings,omitempty"`        // lines that this job printed, the first ones
	NoTimeline       bool          `json:"no_timeline,omitempty"`     // no timeline was requested
	Events           bool          `json:"events,omitempty"`          // event files of TensorBoard were written
	Spans            int64         `json:"spans,omitempty"`           // spans of a stream
	Ended            string        `json:"ended,omitempty"`           // why the stream ended
	Stopped          bool          `json:"stopped,omitempty"`         // stopped on request; it can be resumed
	EarlyStopped     int           `json:"early_stopped,omitempty"`   // number of evaluations without improvement before early stopping
	Healed           int           `json:"healed,omitempty"`          // number of times that training resumed from memory after the loss of ranks

	// Ranks that were lost during the job. Their work is in the model and in the numbers of
	// steps and samples. It is not in the counters of ranks: the bytes, inserted, rejected and
	// evicted rows of Tables, Ranks and SparseBytesSent, Input, and TrainUnknown.
	Uncounted []Uncounted `json:"uncounted,omitempty"`

	save.Costs // costs of checkpoints

	// If steps do not wait for all ranks: the mode; the number of microbatches that were too
	// late for the step in which they began, since the first step of the training; and the mean
	// samples of a step.
	Mode           string  `json:"mode,omitempty"`
	Backup         int     `json:"backup,omitempty"` // at the end
	LateSlots      int64   `json:"late_slots,omitempty"`
	EffectiveBatch float64 `json:"effective_batch,omitempty"`

	SlowRanks  []SlowRank  `json:"slow_ranks,omitempty"`  // ranks that were reported as slow
	LossyLinks []LossyLink `json:"lossy_links,omitempty"` // links that were reported for lost packets

	UnknownValues
	Inherited

	// By field: numbers outside the range of the training data. Validation data is included only
	// if this job evaluated it.
	ValidOutside []Outside `json:"valid_outside_range,omitempty"`
	TestOutside  []Outside `json:"test_outside_range,omitempty"`
}

// Chosen is what early stopping has chosen. With Refit, the model is that of a second training, and the
// other fields, EarlyStopped and the validation metrics are of the first one.
type Chosen struct {
	BestEpoch int    `json:"best_epoch,omitempty"` // epoch restored by early stopping
	BestStep  int64  `json:"best_step,omitempty"`  // step restored by early stopping, with train.eval_steps
	Refit     *Refit `json:"refit,omitempty"`      // with train.refit
	Improving string `json:"improving,omitempty"`  // validation metric that still improved when train.epochs ended the training
}

// Refit describes the second training of a job, on all rows.
type Refit struct {
	Epochs     int64 `json:"epochs"`
	Rows       int64 `json:"rows"`
	FirstRows  int64 `json:"first_rows"` // training rows of the first training
	FirstSteps int64 `json:"first_steps"`
}

// Gate is the comparison of a model with the model that its training began with, on the same
// validation rows: Result.Valid has the metrics of the new one.
type Gate struct {
	From      string           `json:"from"`   // checkpoint of the model before it
	Source    *metrics.Metrics `json:"source"` // its metrics; null: they cannot be compared
	Metric    string           `json:"metric,omitempty"`
	Tolerance float64          `json:"tolerance"`
	Rejected  string           `json:"rejected,omitempty"` // why the new model does not become the latest
}

// Closed reports whether the new model is rejected.
func (g *Gate) Closed() bool { return g != nil && g.Rejected != "" }

// Uncounted records that the counters of a rank up to a step were lost with it.
type Uncounted struct {
	Rank int   `json:"rank"`
	Step int64 `json:"until_step"`
}

// RunFile is one entry of a run directory.
type RunFile struct{ Name, What string }

// RunFiles lists the files that a finished job writes to its run directory.
func (r Result) RunFiles() []RunFile {
	files := []RunFile{
		{rundir.FileConfig, "the configuration in effect"},
		{rundir.FileMetrics, "loss, speed and evaluations, one JSON object per line"},
		{rundir.FileResult, "the result"},
		{rundir.FileTraces, "timeline of each rank, for ui.perfetto.dev"},
	}
	if r.Events {
		files = append(files, RunFile{rundir.FolderEvents + "/", "event files: tensorboard --logdir " + filepath.Join(r.RunDir, rundir.FolderEvents)})
	}
	switch {
	case r.Checkpoint != "":
		files = append(files, RunFile{checkpoint.Folder + "/", "the model, to resume from or to evaluate"})
	case r.LastCheckpoint != "":
		files = append(files, RunFile{checkpoint.Folder + "/", "up to " + filepath.Base(r.LastCheckpoint) + ", to resume from"})
	}
	return slices.DeleteFunc(files, func(f RunFile) bool {
		return slices.Contains(r.Lost, f.Name) || r.NoTimeline && f.Name == rundir.FileTraces
	})
}

// UnknownValues counts, by feature, values of the training data of this job that share the key of
// unknown values, and values of the test data that training has not seen.
type UnknownValues struct {
	TrainUnknown map[string]int64           `json:"train_unknown,omitempty"`
	TestUnknown  map[string]int64           `json:"test_unknown,omitempty"`
	TrainWhy     map[string]metrics.Unknown `json:"train_unknown_why,omitempty"` // the same by reason
	TestWhy      map[string]metrics.Unknown `json:"test_unknown_why,omitempty"`

	// Fields with values that should be dates and are none, of the data that this job has scanned.
	TrainUndated []encode.Dates `json:"train_undated,omitempty"`
	TestUndated  []encode.Dates `json:"test_undated,omitempty"`
}

// Inherited is about the model that a training began with.
type Inherited struct {
	Kept       int64  `json:"kept_rows,omitempty"`   // rows of tables that the training began with (-from)
	NotLatest  string `json:"not_latest,omitempty"`  // why the link latest does not lead to this run
	TrainNewer bool   `json:"train_newer,omitempty"` // the training data has changed since the vocabularies were made
}

// Differs returns a line that compares measured with planned values.
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
	line := fmt.Sprintf("planned %d rows (%s), %s sent in steps, busiest rank %.2f × the mean; actual %s sent, busiest rank %.2f × the mean",
		rows[0], plan.Bytes(bytes[0]), plan.Bytes(sent[0]), r.PlannedImbalance, plan.Bytes(sent[1]), r.Imbalance)
	if rows[0] == 0 { // a stream has no sample to plan from
		line = fmt.Sprintf("%s sent in steps; busiest rank %.2f × the mean", plan.Bytes(sent[1]), r.Imbalance)
	}
	if r.Kept > 0 {
		line += fmt.Sprintf("; the plan has the rows of this data, not all %d that the training began with", r.Kept)
	}
	if len(others) > 0 {
		line += "; " + strings.Join(others, ", ")
	}
	for _, x := range r.Uncounted {
		line += fmt.Sprintf("; not measured: rank %d until step %d, whose counters were lost with it", x.Rank, x.Step)
	}
	return line
}

// InputReport describes the reading of training rows during the steps. Threads that read and
// the one that trains share the cores of the host. If all cores are busy, reading costs CPU
// time rather than waiting time.
type InputReport struct {
	// WorkShare is the working time of the reader's threads divided by the time in steps, mean
	// of the ranks. It may exceed 1: the threads also work before the first step and during
	// evaluations, and the time includes waiting for a core.
	WorkShare float64 `json:"work_share"`
	Depth     int     `json:"depth"`               // largest number of batches that rank 0 had read ahead
	Threads   int     `json:"threads"`             // threads of rank 0's reader
	Bad       int64   `json:"bad"`                 // faulty records left out, over all data
	BadFiles  int64   `json:"bad_files,omitempty"` // files of a stream that were left out
	Lost      int64   `json:"lost,omitempty"`      // records of a stream that no longer existed when they were to be read
}
