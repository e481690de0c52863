package step

import (
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Trainer takes synchronous steps of one model with the other ranks of its group. All ranks
// call Step and Evaluate in the same order. Their batches may have different sizes or be
// empty. After every step all ranks hold the same dense parameters, bit for bit, and each
// row of a table has been updated once, by its owner. By default a step waits for all ranks
// and has one slot for each; InSlots, Tolerate or Replay change this before the first step.
// Close ends its threads and frees its tables.
type Trainer struct {
	comm    *collective.Comm
	rec     *trace.Recorder
	model   *model
	clip    float64
	scaled  bool                   // learning rates grow with the batch
	image   func() (*model, error) // makes another model over the same store
	late    *model                 // the image if a device computes it; else nil
	tally   []metrics.Counter      // by label
	unknown []int64                // by feature: values of the last evaluation whose keys had no row
	norm    []float64              // one number, for the norm of the sharded gradients
	ahead   bool                   // the next batch is prepared during compute, or announced so that tiers read ahead

	mode     mode
	coming   Input
	prepared *work // work of the prepared batch; nil: none

	copies bool        // another rank keeps a copy of this rank's shards
	ready  sparse.Step // last step whose data are complete here; other ranks may not have taken it
}

// model is the part of a model on one rank that all kinds have in common. It pulls and
// pools rows of tables and computes
//
//	logit = bias + Σ wide weights of the sample's keys + network([pooled embeddings, dense inputs])
//
// It works through a batch in chunks, on one or more threads (see worker).
type model struct {
	layout layout.Layout
	objective
	store    *sparse.Store
	lookup   *sparse.Lookup // lookup of the current batch
	arena    *dense.Arena
	workers  []*worker // the first runs on the goroutine of the caller
	crew     *crew
	chunk    int // rows that a worker takes at once
	distinct distinct

	device *offload // nil: the CPU computes the dense part
	alone  bool     // this rank repeats a batch, so that statistics are not summed over the ranks
	pauses

	sums     *buckets // sums dense gradients over the ranks; nil: the caller sums
	requests Requests // stored behind them
	last     bool     // this backward pass is for the last rows, so gradients become final

	bags   []sparse.Bags // by feature: keys of the batch to pull
	batch  *encode.Batch
	train  bool
	step   int64
	logit  []float32 // B values for each label
	dlogit []float32 // like logit: gradient of the summed loss with respect to the logits
	dx     []float32 // B × width, with several workers: gradient with respect to the networks' input
}

// pauses contains what delays or stops the computation of a model.
type pauses struct {
	// hold, if not nil, returns how long to sleep after a chunk of training that took the
	// given time. halt is true if the batch must be given up. gone, if not nil, is closed
	// when the model is closed.
	hold      func(step int64, took time.Duration) time.Duration
	halt      *atomic.Bool
	gone      chan struct{}
	gaveUp    bool          // this batch was given up
	overslept time.Duration // by how much sleeps took longer than they should have
	seen      int           // rows computed until then

	pace  func(Progress) time.Duration // if not nil, the modelled time from the beginning of compute to a place
	began time.Time                    // beginning of compute, for pace
}

// Progress is a place in the compute of a step.
type Progress struct {
	Rows, Of int  // rows whose forward pass is complete; all rows of the batch
	Final    int  // dense gradients from here on are final
	Done     bool // the gradients of keys are complete as well
}

// worker computes an equal, contiguous share of each batch, in chunks, with its own
// activations and dense gradients. Shares, chunks and the order of all sums depend only on
// the batch and the number of workers, so the same number of workers gives the same bits.
type worker struct {
	model    *model
	i        int                   // index in model.workers
	arena    *dense.Arena          // the first worker's is the model's; the others' are attached to it
	tower    []tower               // by label
	distinct *dense.DistinctWorker // nil: never computes distinct rows

	x     []float32 // chunk × width: the network's input
	loss  float64   // loss of the worker's rows in this batch
	err   error
	spent Spent
}

// Spent is the time that the first worker has spent in the parts of compute.
type Spent struct {
	Pool     time.Duration // rows → network input and wide logit
	Forward  time.Duration // network and loss
	Backward time.Duration // network
	Keys     time.Duration // gradients → gradients of unique keys
}

// distinct computes the first layer of a network once for each distinct row of a batch.
// Keys follow Zipf's law, so most values of most features repeat. It is used in training
// only: in an evaluation, the logit of a sample must not depend on the other samples, not
// even by rounding.
type distinct struct {
	layer   *dense.Distinct   // with as many workers as the model; nil: never used
	fm      *dense.DistinctFM // factorization machine over the same input; nil: none
	on      bool              // used for this batch
	deep    []int             // features of the network computed by distinct rows
	other   []int             // the other features of the network, computed by sample
	columns []dense.Columns   // input columns of deep
	rest    []float32         // B×R: the input in the other columns
	wide    []wide            // by feature; used for features of deep that are also wide
	values  []float32         // distinct rows and wide weights, followed by their gradients
	spared  int64             // operations saved in matrix products since NewTrainer
}

// wide holds the wide weights of a feature's distinct rows contiguously. In the rows
// themselves, each weight would need its own cache line.
type wide struct {
	of          []uint32  // by row of the batch: the index of its distinct row; empty: none
	value, grad []float32 // by distinct row
}

// offload is the dense part of a model on a device.
type offload struct {
	to    Device
	batch *DeviceBatch
	index indexer
	newer bool // the device's parameters are newer than the arena's
}

// indexer makes the DeviceIndex of batches.
type indexer struct {
	size     DeviceSize
	features []DeviceFeature
	tables   []DeviceTable
	values   []sparse.Values // by feature
	own      []uint32        // by feature whose values have rows of their own: the first, among the values of its table
	order    []uint32        // by table: place of its values in Order
}

// Input describes the next step. Number and rate must be the same on every rank.
type Input struct {
	N        int64   // steps count from 1
	Rate     float64 // the schedule's factor of the learning rates
	Requests Requests

	// Batches are the batches of this rank's slots; empty if a Source provides them. Next
	// are those of the following step, and must not change before it. Next is empty if they
	// are not known, and then on every rank.
	Batches, Next []*encode.Batch

	taken int // slots begun
}

// mode determines which slots of a step a rank computes, and when it is decided which of
// them count.
type mode interface {
	// next returns the work for the next slot of the step, for which all ranks pull
	// together. It returns nil when it is decided which slots count.
	next(*Input) (*work, error)
	// compute computes the gradients of a work, or starts another goroutine that does. They
	// are stored in its lookup and in the arena or in the work.
	compute(*work) error
	// push sends gradients of rows to their owners, unless it is still undecided whether
	// they count.
	push(*work) error
	// sumGradients sums the gradients of the slots that count: the gradients of rows at their owners,
	// dense ones in the arena.
	sumGradients(*Input) error
}

// work is one pull on this rank, with the batch of this rank's slot.
type work struct {
	lookup *sparse.Lookup
	batch  *encode.Batch // without rows if this rank has no slot
	own    int           // index among this rank's slots, in modes with fixed slots
	lease

	gradients int64 // bytes of gradients of rows that push sends
}

// Requests holds what a rank requests of the group at the end of a step.
type Requests struct {
	Save, Stop bool
	Compare    bool // search for slow ranks
	Publish    bool // publish a version of the model
}

// lease is the state of a work that the worker and the caller share. In the zero
// value this rank has no slot.
type lease struct {
	slots.Lease
	assigned bool
	received encode.Batch // the batch, if another rank sent it
	grads    []float32    // dense gradients and the tail
	step     int64

	complete bool
	done     uint8 // computed part, in 1/255
	took     time.Duration
	err      error
}

// tower predicts one label. All towers read the same embeddings.
type tower struct {
	net  *layers      // nil: wide model only
	bias *dense.Param // bias of the wide model; nil: deep model only
}

// objective is the loss that a model minimises: the sum of the losses of its labels, each
// multiplied by its share, over weighted samples.
type objective struct {
	labels   []schema.Label
	classes  config.Classes
	weighted bool
	weight   []float32 // weights of the samples of the current batch; nil: all 1
	total    float64   // sum of the weights
	shift    float32   // added to the first label's logit in training
	further  []partial // the labels after the first in the current batch
}

// partial is a label that some samples of a batch do not have: it is NaN there. They have the
// label 0 and the weight 0 for it.
type partial struct {
	missing       bool // in some samples
	label, weight []float32
	logit         []float32 // of the samples that have it, for metrics
}
