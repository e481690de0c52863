package step

import (
	"math"
)

// The scalars behind the dense gradients in their allreduce. Changing their number would
// move the bounds of its chunks, and so change the bits of a training on 3 ranks.
const (
	tailRows    = iota // samples of the step, modulo tailBlock
	tailBlocks         // samples of the step, divided by tailBlock
	tailLoss           // sum of the losses of the samples
	tailSave           // > 0: at least one rank requests a checkpoint
	tailStop           // > 0: at least one rank requests a stop
	tailCompare        // ranks that request a search for slow ranks + tailBlock × ranks that request to publish the model
	tailWidth   = iota

	tailWeight = tailWidth // index of the sum of the weights, a further float if samples have weights
)

// tailBlock splits a number of samples into two integers that float32 sums exactly, below
// 2²⁴. This suffices for 4096 ranks and 2³⁶ samples.
const tailBlock = 1 << 12

// putRows stores the number of a rank's samples in its tail.
func putRows(tail []float32, rows int) {
	tail[tailRows], tail[tailBlocks] = float32(rows%tailBlock), float32(rows/tailBlock)
}

// rowsIn returns the samples of all ranks from the sum of their tails.
func rowsIn(tail []float32) int64 { return int64(tail[tailBlocks])*tailBlock + int64(tail[tailRows]) }

// tail writes the scalars behind the dense gradients.
func (m *model) tail(loss float64) {
	tail := m.arena.Tail()
	putRows(tail, m.batch.Rows)
	tail[tailLoss] = float32(loss)
	if m.weighted {
		tail[tailWeight] = float32(m.total)
	}
	m.requests.write(tail)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// write stores the requests in the tail of a rank's dense gradients.
func (w Requests) write(tail []float32) {
	tail[tailSave], tail[tailStop] = flag(w.Save), flag(w.Stop)
	tail[tailCompare] = flag(w.Compare) + float32(tailBlock*flag(w.Publish))
}

// requestsIn returns the requests of all ranks from the sum of their tails.
func requestsIn(tail []float32) Requests {
	n := int(tail[tailCompare])
	return Requests{Save: tail[tailSave] > 0, Stop: tail[tailStop] > 0, Compare: n%tailBlock > 0, Publish: n/tailBlock > 0}
}

func flag(b bool) float32 {
	if b {
		return 1
	}
	return 0
}
