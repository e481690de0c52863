// Package config reads, checks and writes the YAML file of a training job. The file describes
// the data, the meaning of its columns, the model and the training.
//
// # From a file to a job
//
//	c, err := config.Load("ctr.yaml")            // as written, checked
//	err = config.Set(c, "train.seed", "7")       // flags and sweeps, checked too
//	c.Fill()                                     // defaults for all that was left out
//	os.WriteFile("effective.yaml", c.YAML(), 0o644)
//
// Parse, Load and Default return a Config that holds only what was written. A zero value
// means the default, so that Set can still replace one setting by an alternative. Call Fill
// last. Parsing the output of YAML gives the filled Config again, bit for bit.
//
// # Strictness
//
// Unknown keys, values of the wrong type or out of range, contradictory settings and unused
// settings are rejected. All faults are reported at once, each with file, line and column
// (type Error). Nothing is guessed: "7" in quotes is not a number, and a label value that
// looks like a number must be quoted. The supported YAML is mappings, sequences, scalars,
// block scalars and comments. Anchors, merge keys, tags and several documents are rejected,
// since the effective configuration is printed without them.
//
// A file has at most MaxBytes bytes and 16 levels of nesting, so that parsing takes time and
// memory in proportion to the file.
//
// # Units
//
// Batches and windows are in samples. The key of an interval
// names its unit: training steps, epochs or seconds. Rates are factors of a rule's learning rate. An L2 strength λ adds λ/2·‖w‖²
// to the mean log-loss, so a gradient grows by λ·w. Reference lists every key.
//
// The package does not read the environment or write files, and its functions do not panic on
// any input. A Config is plain data: it may be shared while no goroutine writes it.
package config

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/optim"
)

// MaxBytes bounds a configuration file. Thousands of features need less.
const MaxBytes = 1 << 20

// Config holds all settings of the file.
type Config struct {
	Data     schema.Source    `yaml:"data"`
	Label    schema.Label     `yaml:"label"`
	Labels   []schema.Label   `yaml:"labels"` // labels after the first
	Features []schema.Feature `yaml:"features"`
	Crosses  []schema.Cross   `yaml:"crosses"`
	Tables   []Table          `yaml:"tables"` // only tables that differ from the settings of the model
	Model    Model            `yaml:"model"`
	Train    Train            `yaml:"train"`
}

// Table holds the settings by which one embedding table differs from the others. A rule given
// here is independent: it takes no constants from the rules of Train.
type Table struct {
	Name    string      `yaml:"name"`
	Dim     int         `yaml:"dim"`     // E of its deep part
	Pooling string      `yaml:"pooling"` // sum, mean or sqrtn
	Init    Init        `yaml:"init"`    // initialisation of embeddings; wide weights start at 0
	Deep    *optim.Rule `yaml:"deep"`    // rule of its embeddings
	Wide    *optim.Rule `yaml:"wide"`    // rule of its wide weights
	L2      TableL2     `yaml:"l2"`
	Values  string      `yaml:"values"` // float32 or bfloat16
	Admit   Admit       `yaml:"admit"`
	Evict   Evict       `yaml:"evict"`
	Wire    Wire        `yaml:"wire"`
	// Strategy is auto, rows or pooled.
	Strategy string `yaml:"strategy"`
	Tier     Tier   `yaml:"tier"`
}

// Admit is the condition for a key to get a row.
type Admit struct {
	After    int `yaml:"after"`    // steps in which the key occurs
	Counters int `yaml:"counters"` // bytes of the counters
}

// Evict is the condition for a row to be removed.
type Evict struct {
	Age      int     `yaml:"age"`       // steps
	MaxRows  int     `yaml:"max_rows"`  // over all ranks; divided among the shards
	HalfLife int     `yaml:"half_life"` // steps
	MinScore float64 `yaml:"min_score"`
}

// Wire is the format of rows and gradients in messages: float32 or bfloat16.
type Wire struct {
	Rows      string `yaml:"rows"`
	Gradients string `yaml:"gradients"`
}

// Tier bounds the memory of a table on each rank; cold rows go to disk.
type Tier struct {
	Dir    string `yaml:"dir"`
	Memory int64  `yaml:"memory"` // MiB
}

// TableL2 is Train.L2 for one table. A nil field takes the value of Train.
type TableL2 struct {
	Deep *float64 `yaml:"deep"`
	Wide *float64 `yaml:"wide"`
}

// Model is the network. A kind of network has its own keys in package network.
type Model = network.Model

// Init is the initialisation of embedding rows.
type Init = network.Init

// Cross is the own key of dcn_v2.
type Cross = network.Cross

// Train holds the settings of the training.
type Train struct {
	Epochs      int        `yaml:"epochs"`
	Batch       int        `yaml:"batch"`        // samples per rank and step
	GlobalBatch int        `yaml:"global_batch"` // samples of all ranks per step
	Seed        uint64     `yaml:"seed"`
	Shuffle     *bool      `yaml:"shuffle"`
	Slots       int        `yaml:"slots"`     // 0: sums are by rank
	Threads     int        `yaml:"threads"`   // threads that compute, per rank
	Precision   string     `yaml:"precision"` // precision of the operands of products: fp32, tf32 or bf16
	Device      string     `yaml:"device"`    // for the dense layers: cpu, gpu or auto
	Mode        string     `yaml:"mode"`      // treatment of slow ranks: wait, drop or speculate
	Backup      int        `yaml:"backup"`    // with drop; 0: chosen by measurement
	Optimizer   Optimizer  `yaml:"optimizer"`
	Scaling     string     `yaml:"scaling"` // learning rates for large batches: sqrt or none
	L2          L2         `yaml:"l2"`
	ClassWeight Classes    `yaml:"class_weight"`
	ClipNorm    float64    `yaml:"clip_norm"` // 0: none
	Schedule    Schedule   `yaml:"schedule"`
	EvalEvery   int        `yaml:"eval_every"` // epochs
	EvalSteps   int64      `yaml:"eval_steps"` // instead of EvalEvery; 0: use EvalEvery
	EarlyStop   EarlyStop  `yaml:"early_stop"`
	Refit       bool       `yaml:"refit"` // train again on all rows
	Gate        Gate       `yaml:"gate"`
	From        From       `yaml:"from"`
	Retain      Retain     `yaml:"retain"`
	Checkpoint  Checkpoint `yaml:"checkpoint"`
	Export      Export     `yaml:"export"`
}

// Optimizer holds the update rules of the three kinds of parameters.
type Optimizer struct {
	Dense optim.Rule `yaml:"dense"` // MLP and biases
	Deep  optim.Rule `yaml:"deep"`  // embeddings
	Wide  optim.Rule `yaml:"wide"`  // wide weights
}

// L2 holds the strengths λ of the penalty λ/2·‖w‖² on weights. Biases have no penalty.
type L2 struct {
	Dense float64 `yaml:"dense"`
	Deep  float64 `yaml:"deep"`
	Wide  float64 `yaml:"wide"`
	Mode  string  `yaml:"mode"` // lazy: rows of the batch; dense: every row, every step
}

// Schedule determines the factor of all learning rates at each step.
type Schedule struct {
	Kind       string  `yaml:"kind"`        // constant, linear, cosine, step or plateau
	Warmup     int64   `yaml:"warmup"`      // steps
	Min        float64 `yaml:"min"`         // lower bound of the factor
	Factor     float64 `yaml:"factor"`      // step, plateau
	EverySteps int64   `yaml:"every_steps"` // step
	Patience   int     `yaml:"patience"`    // plateau: evaluations
}

// EarlyStop ends a training whose validation metric no longer improves, and restores the best
// epoch. Patience 0 disables it.
type EarlyStop struct {
	Patience int     `yaml:"patience"` // evaluations without improvement
	Metric   string  `yaml:"metric"`   // auc or logloss
	MinDelta float64 `yaml:"min_delta"`
}

// Gate is the comparison of a training with the model that it began with. An empty Metric disables
// it.
type Gate struct {
	Metric    string  `yaml:"metric"` // auc or logloss
	Data      string  `yaml:"data"`   // valid, which is the default, or next
	Tolerance float64 `yaml:"tolerance"`
}

// Retain removes rows of tables by their age in event time.
type Retain struct {
	Days int `yaml:"days"` // 0: no limit
}

// Guard stops publishing a model whose predictions become bad. An empty Action disables it.
type Guard struct {
	Window      int64   `yaml:"window"` // samples
	LogLoss     float64 `yaml:"logloss"`
	Calibration float64 `yaml:"calibration"`
	AUCDrop     float64 `yaml:"auc_drop"`
	Action      string  `yaml:"action"` // warn, hold or stop
}

// From defines what a training takes from the model that it begins with.
type From struct {
	Optimizer  string   `yaml:"optimizer"`  // kept or reset
	Statistics string   `yaml:"statistics"` // kept or new
	Allow      []string `yaml:"allow"`      // differences that are otherwise rejected: dim, network
	Names      []Named  `yaml:"names"`      // arrays of a source that is no model of this program
	Inputs     []string `yaml:"inputs"`     // features in the order of the inputs of its first layer
}

// Named maps a table or a layer to an array of a model of another program.
type Named struct {
	Name    string `yaml:"name"`    // of the table or layer
	Array   string `yaml:"array"`   // name of the array
	Values  string `yaml:"values"`  // file with the value of each row of a table
	Unknown string `yaml:"unknown"` // value in this file whose row stands for unknown values
	Missing string `yaml:"missing"` // value in this file whose row stands for missing values
	Order   string `yaml:"order"`   // of the dimensions of a weight: in_out or out_in
}

// Allows reports whether a difference between the model and its source is allowed.
func (f From) Allows(what string) bool { return slices.Contains(f.Allow, what) }

// Checkpoint holds the intervals of checkpoints during the training. One is always written at
// the end.
type Checkpoint struct {
	EverySteps   int64   `yaml:"every_steps"`
	EverySeconds float64 `yaml:"every_seconds"`
	FullEvery    int     `yaml:"full_every"`
	Keep         int     `yaml:"keep"`
	Copies       int     `yaml:"copies"`
}

// Export holds the folder and the interval for publishing the model. An empty Dir disables
// it.
type Export struct {
	Dir          string  `yaml:"dir"`
	EverySeconds float64 `yaml:"every_seconds"`
	FullEvery    int     `yaml:"full_every"`
	Keep         Kept    `yaml:"keep"`
	Guard        Guard   `yaml:"guard"`
}

// Kept says which published versions are not removed.
type Kept struct {
	Versions int `yaml:"versions"`
	Complete int `yaml:"complete"`
	Hours    int `yaml:"hours"`
}

// batchShare limits a growing batch to 1/batchShare of the samples trained on before. An
// epoch of few whole batches then has as many steps as a model needs.
const batchShare = 32

// Growth returns how the global batch grows at the start. Modes that do not wait need
// microbatches of equal size, so their batches do not grow.
func (t Train) Growth() data.Growth {
	if t.Scaling == "none" || t.Mode != "wait" {
		return data.Growth{}
	}
	return data.Growth{Least: optim.ReferenceBatch, Share: batchShare}
}

// BF16OnCPU reports whether the CPU computes products in bfloat16. If a GPU does, the CPU
// evaluates in float32.
func (t Train) BF16OnCPU() bool { return t.Precision == "bf16" && t.Device != "gpu" }

// MayUseGPU reports whether the dense layers may be computed on a GPU.
func (t Train) MayUseGPU() bool { return t.Device == "gpu" || t.Device == "auto" }

// Global returns the number of samples in one whole step of all ranks.
func (t Train) Global(worldSize int) int {
	if t.GlobalBatch > 0 {
		return t.GlobalBatch
	}
	return t.Batch * worldSize
}

// Classes holds the factors of sample weights in training, by the class of the first label; 0
// means 1.
type Classes struct {
	Positive float64 `yaml:"positive"`
	Negative float64 `yaml:"negative"`
}
