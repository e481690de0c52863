package input

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/registry"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
)

// Stream is training data that grows. Each span is an epoch: a dataset that all ranks scan,
// shuffle and resume in. Rank 0 decides the spans.
type Stream struct {
	feed  *data.Feed      // nil except on rank 0
	log   *spanLog        // nil except on rank 0
	since time.Time       // time at which the last span began or ended
	away  time.Time       // time at which the broker or the folder was found to be away; zero: it is there
	known map[string]bool // fields that have had values or whose absence was reported

	dates   *encode.Fit       // of the span; nil: no feature reads dates
	schemas *registry.Schemas // of the messages of topics; nil: none were needed

	dir     string // run directory
	source  schema.Source
	schema  schema.Schema
	letters *[]letter // unusable records that this rank has found in the span
	mute    bool      // they are no longer written

	badTopic *kafka.Writer // nil: not open
}

// OpenStream opens the stream at a position.
func (in *Input) OpenStream(at stream.Position, runDir string) (s *Stream, err error) {
	s = &Stream{since: time.Now(), known: map[string]bool{}, dir: runDir, source: in.Config.Data, schema: SchemaOf(in.Config), letters: new([]letter)}
	if in.Comm.Rank() != 0 {
		return s, nil
	}
	if s.feed, err = data.NewFeed(in.Config.Data, at); err != nil {
		return s, err
	}
	if s.log, err = openSpans(runDir, at.Spans, in.Warn); err != nil {
		return s, err
	}
	return s, s.resume(at)
}

// Close closes the stream. s may be nil.
func (s *Stream) Close() {
	if s != nil && s.feed != nil {
		s.log.close()
		s.feed.Close()
		s.badTopic.Close()
	}
}

// resume makes the feed continue at a position, unless the log has later spans.
func (s *Stream) resume(at stream.Position) error {
	if len(s.log.done) > 0 {
		return nil
	}
	past := s.log.past
	s.log.past = nil
	return s.feed.Remember(past, at)
}

// Next looks for new data on rank 0 and returns the position after it: with a span, with the
// end of the stream, or with neither; nil if the stream is away. A position with a span remains,
// without what no longer exists of the span. warn is called with messages about the data. Spans
// that a previous run decided after its last checkpoint are decided again in the same way.
func (s *Stream) Next(ctx context.Context, at stream.Position, warn func(line string)) (*stream.Position, error) {
	next, was := at.Clone(), s.log.next(at)
	var v stream.Verdict
	var err error
	switch {
	case len(at.Span) > 0:
		v.Reports, err = s.feed.Left(ctx, &next)
	case was != nil:
		next = *was
		v.Reports, err = s.feed.Left(ctx, &next)
	default:
		if v, err = s.feed.Next(ctx, &next, s.idleTime()); err == nil {
			bad := s.examine(&next)
			next.Skip(bad)
			v.Bad = append(v.Bad, bad...)
		}
	}
	s.leaveOut(next.Spans, v.Bad, warn)
	if len(next.Partitions)+len(at.Folders) > 0 && data.IsAway(err) {
		if s.away.IsZero() {
			s.away = time.Now()
			warn(fmt.Sprintf("%v; the training waits until it is there again", err))
		}
		s.feed.Retry(at)
		return nil, nil
	}
	if err == nil && !s.away.IsZero() {
		lasted := time.Since(s.away)
		warn(fmt.Sprintf("the stream can be read again after %v", lasted.Round(time.Second)))
		s.since, s.away = time.Now(), time.Time{}
	}
	for _, line := range v.Reports {
		warn(line)
	}
	if err == nil && len(at.Span) == 0 && was != nil {
		s.log.shiftPosition()
		err = s.resume(*was)
	}
	return &next, err
}

// idleTime returns the time without new data. It begins again after an outage, which is over for those who
// send data as late as for the training.
func (s *Stream) idleTime() time.Duration {
	if !s.away.IsZero() {
		return 0
	}
	return time.Since(s.since)
}

// Away returns the time since the stream has not been there, zero if it is.
func (s *Stream) Away() time.Time { return s.away }

// Lags returns how many records of each partition wait to be trained on: those of the span of a position, and
// those that the last look left. It is called on rank 0.
func (s *Stream) Lags(at stream.Position, done []stream.Partition) (lags []stream.Lag) {
	if s == nil || s.feed == nil {
		return nil
	}
	lags = s.feed.Lags()
	for i := range lags {
		x := &lags[i]
		next := int64(-1)
		for _, p := range at.Partitions {
			if p.Topic == x.Topic && p.Number == x.Number {
				next = p.Next
			}
		}
		for _, p := range done {
			if p.Topic == x.Topic && p.Number == x.Number && p.Next < next {
				x.Records += next - p.Next
			}
		}
	}
	return lags
}

// leaveOut reports files that are left out.
func (s *Stream) leaveOut(span int64, files []stream.Bad, warn func(line string)) {
	var some []letter
	for _, x := range files {
		warn(fmt.Sprintf("%s is left out: %s", x.Name, x.Why))
		some = append(some, letter{Span: span, File: x.Name, Reason: x.Why})
	}
	s.write(span, some)
}

// Began records that a span begins or has ended.
func (s *Stream) Began() { s.since = time.Now() }

// Scanned records that all ranks have scanned the span of a position.
func (s *Stream) Scanned(in *Input, at stream.Position) error {
	err := s.keepBad(in, at)
	s.log.append(at)
	return err
}

// Commit returns a function that commits the positions to the brokers of a stream, on rank 0;
// nil: nothing to commit. Call it once the checkpoint with these positions is complete. The
// checkpoint takes precedence over the brokers, so an error is only a warning.
func (s *Stream) Commit(done []stream.Partition, warn func(line string)) func() {
	if s == nil || s.feed == nil || len(done) == 0 {
		return nil
	}
	feed := s.feed
	return func() {
		if err := feed.Commit(context.Background(), done); err != nil {
			warn(fmt.Sprintf("the broker does not know how far the stream has been read: %v", err))
		}
	}
}

// OpenSpan opens the span of a position as the training data and counts this rank's part of
// it. bad is the number of records left out of earlier spans. If a file was replaced, the
// error is record.ErrReplaced.
func (in *Input) OpenSpan(ctx context.Context, s *Stream, at stream.Position, bad int64) (own *data.Counts, err error) {
	src := in.Config.Data
	if src.MaxBad = max(src.MaxBad-bad, 0); src.Follow.Bad.On() { // the limit may be lower than at the start
		src.MaxBad = unlimited
	}
	if in.Train, err = data.OpenSpan(src, SchemaOf(in.Config), at); err != nil {
		if !errors.Is(err, record.ErrReplaced) {
			err = fmt.Errorf("training data: %w", err)
		}
		return nil, err
	}
	if err = keepNegatives(in.Train, in.Config); err != nil {
		return nil, err
	}
	if src.Follow.Bad.On() {
		s.letters = letters(in.Train, at.Spans)
	}
	s.schemas = data.ShareSchemas(in.Train, s.schemas)
	in.waitFor(ctx, in.Train)
	s.dates = nil
	if in.Encoder != nil {
		s.dates = in.Encoder.NewDates(SchemaOf(in.Config))
	}
	return in.count(ctx, in.Train, s.dates)
}

// waitFor makes readers of a span wait for a broker that is away, which is not a standstill of this
// rank, until the feed is closed. The first one reports it.
func (in *Input) waitFor(ctx context.Context, d *data.Dataset) {
	ctx, in.giveUp = context.WithCancel(ctx)
	var told atomic.Bool
	shown, warn := in.Shown, in.Warn
	d.Wait(ctx, func(cause error, lasted time.Duration) {
		shown.Advance(1)
		if lasted > 2*time.Second && told.CompareAndSwap(false, true) && warn != nil {
			warn(fmt.Sprintf("%v; the training waits until it is there again", cause))
		}
	})
}

// ShareSpan sums the counts of all ranks for a span. some is false if the span has no
// records. It warns once of each field with values that should be dates and are none.
func (in *Input) ShareSpan(s *Stream, own *data.Counts) (some bool, err error) {
	err = in.share(in.Train, own, s.dates)
	if errors.Is(err, data.ErrNoRecords) {
		in.warnOfBad(in.Train)
		return false, nil
	}
	if err == nil && s.dates != nil {
		addDates(in, s.dates.Dates())
	}
	return err == nil, err
}

// addDates adds the values of a span that should be dates, and warns once of each field of which some are none.
func addDates(in *Input, some []encode.Dates) {
	for _, x := range some {
		i := slices.IndexFunc(in.spans, func(d encode.Dates) bool { return d.Field == x.Field && d.Format == x.Format })
		if i < 0 {
			i = len(in.spans)
			in.spans = append(in.spans, encode.Dates{Field: x.Field, Format: x.Format})
		}
		all := &in.spans[i]
		if all.Unread == 0 && x.Unread > 0 {
			in.Warn(FirstFew(in.Train.Names()) + ": " + x.Warning())
			all.Example, all.Other, all.Mixed = x.Example, x.Other, x.Mixed
		}
		all.Values, all.Unread = all.Values+x.Values, all.Unread+x.Unread
	}
}

// TrainUndated describes the fields of the training data that have values that should be dates and are none: of a
// stream, in all spans of this job.
func TrainUndated(in *Input) []encode.Dates {
	if in.Config.Data.Follow.On {
		return slices.DeleteFunc(slices.Clone(in.spans), func(d encode.Dates) bool { return d.Unread == 0 })
	}
	return in.Undated[in.Train]
}

// WarnOfLate warns once of each field that features need and that has had no value in any
// span. Open cannot reject a misspelt field, since it may appear later.
func (in *Input) WarnOfLate(s *Stream) {
	if keys := absentKeys(in.Config, in.Train, s.known); keys != "" {
		in.Warn(fmt.Sprintf("no record so far of the stream %s has a value of these fields: %s. Correct what is misspelt; leave what comes later",
			FirstFew(in.Config.Data.Train), keys))
	}
}

// CloseSpan closes the training data of a span, if it was opened, and returns the number of records
// left out of it.
func (in *Input) CloseSpan() (bad int64) {
	in.CloseFeed()
	if in.Train != nil {
		bad, _ = in.Train.Bad()
		in.Train = nil
	}
	return bad
}
