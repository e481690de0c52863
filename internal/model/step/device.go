package step

import (
	"math"

	"github.com/wdlrun/wdlrun/optim"
)

// Device computes the steps of a Trainer in its own memory: pooling, networks, loss, the sum of
// the gradients of each distinct row, and the update of the dense parameters. It has a copy of
// an arena's parameters and optimizer state, which it renews when the version of the arena
// changes. Tables stay with their owners.
type Device interface {
	DeviceStep
	DeviceSum
	DeviceParameters
}

// DeviceStep computes the batch of a rank.
type DeviceStep interface {
	// Begin returns buffers for a batch, valid until the next call.
	Begin(size DeviceSize) (*DeviceBatch, error)
	// Compute computes the batch in the buffers that Begin returned, stores its results
	// there and returns the sum of its losses.
	Compute(step int64) (loss float64, err error)
	// Gradients waits for the gradients of the last Compute and stores them in the arena. It
	// does nothing if the devices sum gradients.
	Gradients() error
	// Skip replaces the other calls in a step without rows: all gradients are zero.
	Skip() error
}

// DeviceSum sums the gradients of all ranks in the memory of their devices. If it does not,
// the ranks sum the gradients in the arena.
type DeviceSum interface {
	// Sums reports whether the devices sum gradients. All ranks return the same. Compute and
	// Skip then begin the sum of the step.
	Sums() bool
	// Reduce sets the sum over the ranks, in place, of the statistics of batch normalisation,
	// which Compute and Skip call. It is called before the first step.
	Reduce(sum func([]float32) error)
	// Sum waits until the sum of this step is complete.
	Sum() error
	// End frees the communicator. All ranks call it after the last step.
	End()
}

// DeviceParameters are the parameters of a Device.
type DeviceParameters interface {
	// NormSq is Arena.GradNormSq. It reads the gradients of the arena, or of the devices if
	// they sum.
	NormSq(scale float32) (float64, error)
	// Apply is Arena.Apply for the gradients that NormSq reads. The values of the arena do
	// not change.
	Apply(at optim.Step) error
	// Fetch stores parameters and optimizer state in the arena.
	Fetch() error
	Close() error
}

// DeviceBatch holds one batch in host memory that the device chose. T is the number of
// labels, D of dense inputs; DeviceSize defines the other letters.
type DeviceBatch struct {
	Dense  []float32 // B×D
	Logit  []float32 // T×B: what precedes the wide weights and the bias; then the logits
	Label  []float32 // T×B
	Weight []float32 // B; empty if all weights are 1
	Row    []uint64  // B: numbers of the samples, which dropout reads

	Rows  []float32 // V: the distinct rows
	Index DeviceIndex
	Grads []float32 // result, V: their gradients
}

// DeviceSize contains the numbers that determine the memory of a batch on a device.
type DeviceSize struct {
	Rows    int // B: samples, at least 1
	Values  int // N: values of all features
	Keys    int // K: distinct rows of all tables
	Floats  int // V: values of the distinct rows
	Offsets int // of the features whose bags do not all have one value: B+1 each
	Factors int // of the values of features whose factors are not all 1
}

// DeviceIndex connects the values of a batch with its distinct rows. Values are numbered by
// feature, bag and place in the bag; rows are numbered by table.
type DeviceIndex struct {
	Features []DeviceFeature
	Tables   []DeviceTable
	Offsets  []uint32  // of the features that have any
	Factors  []float32 // of the features that have any
	Place    []uint32  // K: where a row begins in the rows of the batch
	Start    []uint32  // K+1: where the values of a row begin in Order
	Order    []uint32  // N: values by row; the values of one row ascend
}

// None is a number that does not exist.
const None = math.MaxUint32

// DeviceFeature describes the values of a feature.
type DeviceFeature struct {
	First   uint32 // its first value
	Offsets uint32 // place of its offsets, which count from its first value; None: each bag has one value
	Factors uint32 // place of the factor of its first value; None: all are 1
	Deep    uint32 // first column of its embedding in the input; None: not in the networks
	Wide    uint32 // place of the wide weight of the first label in its rows; None: not in the wide model
}

// DeviceTable describes the distinct rows of a table.
type DeviceTable struct {
	Row   uint32 // number of the first
	Width uint32 // values of a row
	Deep  uint32 // values of the embedding, with which a row begins
}
