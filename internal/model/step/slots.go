package step

import (
	"time"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/slots"
)

// Source returns the microbatches of a rank in one epoch. Number n is the rank's part of
// global batch n.
type Source interface {
	// Batch returns microbatch n, which does not change before Done. Numbers ascend, except
	// for microbatches that were requested before.
	Batch(n int64) (*encode.Batch, error)
	// Done reports that microbatch n counts and will not be requested again.
	Done(n int64)
}

// Tolerant is the mode in which slow ranks do not delay the steps of a Trainer. Every rank
// makes the same calls. The goroutine of the caller only makes collective
// calls, so it always answers. Another goroutine computes and may be late; see asyncWorker.
//
// All ranks run the same state machine of package slots. They pass it the same reports in the
// same order, from an all-gather, so they make the same decisions. No rank leads, and all
// messages are collective calls.
type Tolerant struct {
	t       *Trainer
	rank    int
	size    int
	machine *slots.Machine
	source  Source
	async   *asyncWorker
	say     func(string)

	leases    []slots.Lease // not yet begun
	leased    []slots.Lease // begun in this step
	pulls     []*work       // works of this step, one per group of leases
	spare     []*work
	current   *work // work of the asyncWorker; nil: it is idle
	cancelled bool  // the current work was cancelled
	undone    []int64
	empty     encode.Batch

	clock          clock
	words          []int64
	reports        []slots.Report
	ask            func(n int64) error // obtains further leases of step n, or its commit set
	decided        *slots.Record
	last           slots.Record
	ended          bool
	script         *script // nil: ranks decide
	forwardBuffers forwardBuffers
}

// clock decides when a rank enters a round.
type clock struct {
	start  time.Time       // origin of the clock; all ranks use the clock of rank 0
	now    time.Duration   // time on that clock at the last round
	begun  time.Time       // when the first leases of the step began
	looked time.Time       // when the last round ended
	usual  time.Duration   // time of a microbatch: moving mean of the medians of steps
	times  []time.Duration // times of the microbatches computed in this step
	timer  *time.Timer
}

// script is a log to replay.
type script struct {
	records []slots.Record // remaining steps
	now     *slots.Record  // current step; nil: it has not begun
	left    []slots.Piece  // microbatches of the current step to compute
}

// forwardBuffers holds the buffers of the microbatches and gradients that ranks exchange.
type forwardBuffers struct {
	sendCounts, recvCounts []int
	sendSizes, recvSizes   []int64
	sendBytes, recvBytes   []byte
	sendFloats, recvFloats []float32
}

func (p *forwardBuffers) init(size int) {
	p.sendCounts, p.recvCounts = make([]int, size), make([]int, size)
	p.sendSizes, p.recvSizes = make([]int64, size), make([]int64, size)
}

func (p *forwardBuffers) reset() {
	clear(p.sendCounts)
	clear(p.recvCounts)
}
