package input

import (
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/trace"
)

// At is a position in the training data.
type At struct {
	Epoch    int64
	Consumed int64 // rows of the epoch already trained on
	Before   int64 // samples trained on in earlier epochs
}

// Feed returns the reader of the training rows at a position. The reader continues from epoch
// to epoch, so that the first batches of an epoch are read while the last ones of the
// previous epoch are trained on. Each span of a stream has its own reader.
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

// CloseFeed closes the reader that Feed returned. in may be nil.
func (in *Input) CloseFeed() {
	if in != nil && in.giveUp != nil {
		in.giveUp()
		in.giveUp = nil
	}
	if in != nil && in.feed != nil {
		in.Shown.Unread()
		in.feed.Close()
		in.Ended(in.feed)
		in.feed = nil
	}
}

// Reader returns a reader of this rank's part of the given number of epochs. The timeline
// contains its work.
func (in *Input) Reader(at At, epochs int64) (*data.Reader, error) {
	size := in.Comm.Size()
	c := in.reading(at, epochs, in.Comm.Rank(), size, in.Config.Train.Global(size))
	c.Worked = func(from, to time.Time, batches int) { in.Rec.Background(trace.Input, batches, 0, from, to) }
	return data.NewReader(in.Train, in.Encoder.OutOfFold(), c)
}

// PartReader returns a reader of one of size parts of each global batch.
func (in *Input) PartReader(at At, epochs int64, part, size, batch int) (*data.Reader, error) {
	return data.NewReader(in.Train, in.Encoder.OutOfFold(), in.reading(at, epochs, part, size, batch))
}

func (in *Input) reading(at At, epochs int64, part, size, batch int) data.ReaderConfig {
	t := &in.Config.Train
	return data.ReaderConfig{
		Seed: t.Seed, Epoch: at.Epoch, Epochs: epochs, Start: at.Consumed, GlobalBatch: batch,
		Rank: part, Size: size, Shuffle: *t.Shuffle, Select: data.Train,
		Growth: t.Growth(), Trained: at.Before,
	}
}

// Ended adds the counters of a reader of training rows that has ended.
func (in *Input) Ended(r *data.Reader) {
	p := r.Pace()
	in.pace.Work += p.Work
	in.pace.Depth, in.pace.Threads = max(in.pace.Depth, p.Depth), max(in.pace.Threads, p.Threads)
	n := r.Unknown()
	if in.unknown == nil {
		in.unknown = make([]int64, len(n))
	}
	for i := range n {
		in.unknown[i] += n[i]
	}
}

// Pace returns the counters of the readers that have ended.
func (in *Input) Pace() data.Pace { return in.pace }

// Waited returns the time that Sources have waited for their readers.
func (in *Input) Waited() time.Duration { return time.Duration(in.waited.Load()) }

// TrainUnknown returns, by feature, the number of values of the training data outside the
// feature's vocabulary, over all ranks. newer is false if the vocabularies were made of this data:
// all these values are then rare.
func (in *Input) TrainUnknown(newer bool) (map[string]metrics.Unknown, error) {
	all, err := in.Unknown(in.unknown)
	for name, u := range all {
		if !newer {
			all[name] = metrics.Unknown{Rare: u.Total()}
		}
	}
	return all, err
}

// Unknown sums over the ranks the counts of values outside the vocabulary, by encode.Reasons, and
// returns them by feature.
func (in *Input) Unknown(counts []int64) (map[string]metrics.Unknown, error) {
	columns := in.Encoder.Sparse()
	if counts == nil {
		counts = make([]int64, encode.Reasons*len(columns))
	}
	if err := collective.AllReduce(in.Comm, counts, collective.Sum); err != nil {
		return nil, err
	}
	unknown := map[string]metrics.Unknown{}
	for i, c := range columns {
		n := counts[encode.Reasons*i:]
		if u := (metrics.Unknown{Rare: n[encode.Rare], Newer: n[encode.Newer], OtherFormat: n[encode.OtherFormat]}); u.Total() > 0 {
			unknown[c.Name] = u
		}
	}
	return unknown, nil
}
