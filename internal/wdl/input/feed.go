package input

import (
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
)

// At is where a training is in its data.
type At struct {
	Epoch    int64
	Consumed int64 // rows of the epoch that are trained on
	Before   int64 // samples trained on in the epochs before
}

// Feed returns the reader of the training rows, which is where the training is. It
// continues from epoch to epoch, so that the next one's first batches are read while this
// one's last are trained on; each span of a stream has its own.
func (in *Input) Feed(at At) (_ *data.Reader, err error) {
	if in.feed == nil {
		left := int64(in.Config.Train.Epochs) - at.Epoch
		if in.feed, err = in.Reader(at, max(left, 1)); err != nil {
			return nil, err
		}
	}
	in.Shown.Read(in.feed)
	return in.feed, nil
}

// CloseFeed ends that reader, if there is one. A nil Input has none.
func (in *Input) CloseFeed() {
	if in != nil && in.feed != nil {
		in.Shown.Unread()
		in.feed.Close()
		in.Ended(in.feed)
		in.feed = nil
	}
}

// Reader reads this rank's part of so many epochs.
func (in *Input) Reader(at At, epochs int64) (*data.Reader, error) {
	size := in.Comm.Size()
	return in.PartReader(at, epochs, in.Comm.Rank(), size, in.Config.Train.Global(size))
}

// PartReader reads one of size parts of each global batch.
func (in *Input) PartReader(at At, epochs int64, part, size, batch int) (*data.Reader, error) {
	t := &in.Config.Train
	return data.NewReader(in.Train, in.Encoder, data.ReaderConfig{
		Seed: t.Seed, Epoch: at.Epoch, Epochs: epochs, Start: at.Consumed, GlobalBatch: batch,
		Rank: part, Size: size, Shuffle: *t.Shuffle, Select: data.Train,
		Growth: t.Growth(), Trained: at.Before,
	})
}

// Ended adds up what a reader of training rows did.
func (in *Input) Ended(r *data.Reader) {
	p := r.Pace()
	in.pace.Work += p.Work
	in.pace.Depth, in.pace.Threads = max(in.pace.Depth, p.Depth), max(in.pace.Threads, p.Threads)
	n := r.Unknown()
	if in.lacking == nil {
		in.lacking = make([]int64, len(n))
	}
	for i := range n {
		in.lacking[i] += n[i]
	}
}

// Pace is what the readers of training rows did that have ended.
func (in *Input) Pace() data.Pace { return in.pace }

// Waited is for how long Sources have waited for their readers.
func (in *Input) Waited() time.Duration { return time.Duration(in.waited.Load()) }

// TrainUnknown counts the values of training data that no vocabulary holds, over all
// ranks, by feature.
func (in *Input) TrainUnknown() (map[string]int64, error) { return in.Unknown(in.lacking) }

// Unknown adds up what the ranks counted of values that the vocabulary of a feature does
// not hold, by feature.
func (in *Input) Unknown(counts []int64) (map[string]int64, error) {
	columns := in.Encoder.Sparse()
	if counts == nil {
		counts = make([]int64, len(columns))
	}
	if err := collective.AllReduce(in.Comm, counts, collective.Sum); err != nil {
		return nil, err
	}
	unknown := map[string]int64{}
	for i, c := range columns {
		if counts[i] > 0 {
			unknown[c.Name] = counts[i]
		}
	}
	return unknown, nil
}
