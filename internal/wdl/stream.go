package wdl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/trace"
)

// following is what a job keeps whose training data grows. A span of the stream
// is an epoch: a dataset that all ranks scan, shuffle and resume in.
type following struct {
	feed  *data.Feed // nil but on rank 0
	log   *spanLog   // nil but on rank 0
	since time.Time  // of the last span

	known map[string]bool // fields that have come, or of which the user knows that they have not
}

func (f *following) close() {
	if f != nil && f.feed != nil {
		f.log.close()
		f.feed.Close()
	}
}

// commit tells the brokers of a stream, on rank 0, how far it has been read when a
// checkpoint that holds it is whole. The checkpoint counts where they differ, so
// that a fault is not more than a warning.
func (j *job) commit() func() {
	if j.following == nil || j.following.feed == nil || len(j.cursor.Stream.Done) == 0 {
		return nil
	}
	feed, done := j.following.feed, j.cursor.Stream.Done
	return func() {
		if err := feed.Commit(context.Background(), done); err != nil {
			j.opt.Warn(fmt.Sprintf("the broker does not know how far the stream has been read: %v", err))
		}
	}
}

// streamCursor is where a job stands in a stream.
type streamCursor struct {
	stream.Position
	Bad  int64              `json:"bad"`            // records of the spans before that were left out
	Done []stream.Partition `json:"done,omitempty"` // how far topics were read before the span
}

// begin prepares a job whose training data grows to read on behind the cursor.
func (j *job) begin() error {
	if !j.config.Data.Follow.On || j.eval != nil {
		return nil
	}
	c := &j.cursor
	if c.Stream == nil {
		if c.Consumed > 0 {
			return fmt.Errorf("wdl: resume: the checkpoint of step %d is inside an epoch of data that does not grow: resume from one at the end of an epoch to continue with a stream", c.Step)
		}
		c.Stream = &streamCursor{}
	}
	if err := c.Stream.Validate(); err != nil {
		return fmt.Errorf("wdl: resume: checkpoint of step %d: %w", c.Step, err)
	}
	c.Stream.Ended = "" // whoever goes on wants to know what came since
	j.following = &following{since: time.Now(), known: map[string]bool{}}
	if j.comm.Rank() != 0 {
		return nil
	}
	var err error
	if j.following.feed, err = data.NewFeed(j.config.Data, c.Stream.Position); err != nil {
		return err
	}
	if j.following.log, err = openSpans(j.runDir, c.Stream.Spans, j.opt.Warn); err != nil {
		return err
	}
	return j.following.resumeFeed(c.Stream.Position)
}

// resumeFeed makes the feed continue at a position, unless the log has spans behind it.
func (f *following) resumeFeed(at stream.Position) error {
	if len(f.log.done) > 0 {
		return nil
	}
	past := f.log.past
	f.log.past = nil
	return f.feed.Remember(past, at)
}

// nextSpan makes what comes next in the stream the data of the epoch: the span
// in which the cursor stands, or a new one, for which it waits. stopped tells
// that somebody asked for the end; where the stream ends, its cursor says so.
func (j *job) nextSpan(ctx context.Context) (stopped bool, err error) {
	for {
		if j.outOfSteps() {
			return false, nil
		}
		c := j.cursor.Stream
		fresh := len(c.Span) == 0
		if fresh {
			if stopped, err := j.await(ctx); stopped || err != nil || c.Ended != "" {
				return stopped, err
			}
		}
		some, err := j.openSpan(ctx, fresh)
		if some || err != nil {
			return false, err
		}
		j.endSpan(&j.cursor) // there is no record in it
	}
}

// outOfSteps ends the stream after as many steps as its configuration wants.
func (j *job) outOfSteps() bool {
	steps := j.config.Data.Follow.Steps
	if steps == 0 || j.cursor.Step < steps {
		return false
	}
	j.cursor.Stream.Ended = fmt.Sprintf("%d steps, as many as wanted", steps)
	return true
}

// await waits for the next span or the end. Rank 0 looks and tells the others;
// between two looks all agree whether somebody wants a checkpoint or the end.
func (j *job) await(ctx context.Context) (stopped bool, err error) {
	c, f := j.cursor.Stream, j.following
	for {
		var b []byte
		if f.feed != nil {
			j.rec.Enter(trace.Input)
			j.shown.Advance(1) // rank 0 does not stand still, it looks
			if b, err = j.look(ctx); err != nil {
				return false, err
			}
		}
		j.rec.Enter(trace.Wait)
		if b, err = collective.BroadcastBytes(j.comm, b, 0, maxShare); err != nil {
			return false, err
		}
		var at stream.Position
		if err := json.Unmarshal(b, &at); err != nil {
			return false, fmt.Errorf("wdl: stream: span of rank 0: %w", err)
		}
		if c.Position = at; len(at.Span) > 0 || at.Ended != "" {
			f.since = time.Now()
			return false, nil
		}
		j.rec.Enter(trace.Checkpoint)
		if err := j.settle(); err != nil { // there may be no step for long in which to take the rest
			return false, err
		}
		if stopped, err := j.wishes(); stopped || err != nil {
			return stopped, err
		}
		if f.feed != nil {
			pause(ctx, j.config.Data.Follow.Pause(), func() bool { return j.wantStop.Load() || j.wantSave.Load() })
		}
	}
}

// look decides on rank 0, and returns the position behind the decision. What was
// decided before, in a run that was killed after its last checkpoint, is decided
// again, so that the same spans are read.
func (j *job) look(ctx context.Context) ([]byte, error) {
	f, at := j.following, j.cursor.Stream.Position.Clone()
	if was := f.log.next(at.Spans); was != nil {
		at = *was
		if err := f.resumeFeed(at); err != nil {
			return nil, err
		}
	} else {
		v, err := f.feed.Next(ctx, &at, time.Since(f.since))
		if err != nil {
			return nil, err
		}
		for _, line := range v.Reports {
			j.opt.Warn(line)
		}
	}
	return json.Marshal(at)
}

// pause waits, in steps short enough to notice what wakes it.
func pause(ctx context.Context, d time.Duration, wake func() bool) {
	const notice = 200 * time.Millisecond
	for end := time.Now().Add(d); ctx.Err() == nil && !wake(); {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, notice))
	}
}

// wishes lets all ranks agree, while they wait for a span, whether a checkpoint, or
// the end, is wanted. No step follows that would take the checkpoint in turns: it is
// written here.
func (j *job) wishes() (stop bool, err error) {
	wants := make([]int64, 3)
	for i, want := range []bool{j.wantSave.Load(), j.wantStop.Load(), j.overdue()} {
		if want {
			wants[i] = 1
		}
	}
	if err := collective.AllReduce(j.comm, wants, collective.Sum); err != nil {
		return false, err
	}
	asked, stop, due := wants[0] > 0, wants[1] > 0, wants[2] > 0
	if !asked && !stop && !due {
		return false, nil
	}
	if at := j.cursor.Step; j.saver.Holds(at) {
		if asked {
			j.say(save.Written(j.runDir, at))
		}
	} else if err := j.saveNow(asked); err != nil {
		return false, err
	}
	j.savedAt = time.Now()
	j.wantSave.Store(false)
	return stop, nil
}

// openSpan opens and scans the files of the current span; some is false if they
// hold no record. fresh tells that the cursor does not stand in it yet.
func (j *job) openSpan(ctx context.Context, fresh bool) (some bool, err error) {
	end := sync.OnceFunc(j.saver.Meanwhile())
	defer end()
	c := &j.cursor
	src := j.config.Data
	src.MaxBad = max(src.MaxBad-c.Stream.Bad, 0) // fewer may be allowed than at the start
	var own *data.Counts
	if j.train, err = data.OpenSpan(src, schemaOf(j.config), c.Stream.Position); err != nil {
		err = j.unopened(err, fresh)
	} else if err = keepNegatives(j.train, j.config); err == nil {
		own, err = j.count(ctx, j.train, nil)
	}
	if err := j.keepBefore(ctx, err, end); err != nil {
		return false, c.Stream.unusable(err, j.config.Data.MaxBad)
	}
	if err := j.share(j.train, own, nil); errors.Is(err, data.ErrNoRecords) {
		j.following.log.append(c.Stream.Position)
		j.tellBad(j.train)
		return false, nil
	} else if err != nil {
		return false, c.Stream.unusable(j.keepBefore(ctx, err, end), j.config.Data.MaxBad)
	}
	rows, print := j.train.Rows(data.Train), j.train.Fingerprint()
	if !fresh && c.Data != "" && (c.Data != print || c.Rows != rows) {
		return false, fmt.Errorf("wdl: resume: the files of the stream have changed: the checkpoint of step %d is inside a span of %d rows, fingerprint %s, which now has %d rows, fingerprint %s: %s",
			c.Step, c.Rows, c.Data, rows, print, firstFew(c.Stream.Span))
	}
	c.Rows, c.Data = rows, print
	j.following.log.append(c.Stream.Position)
	j.tellLate()
	return true, nil
}

// unopened adds to the error of a span that cannot be opened what to do about a file that
// was replaced.
func (j *job) unopened(err error, fresh bool) error {
	switch c := &j.cursor; {
	case !errors.Is(err, record.ErrReplaced):
		return fmt.Errorf("training data: %w", err)
	case fresh:
		return fmt.Errorf("training data: %w; put the file back, or remove %s, and resume", err, filepath.Join(j.runDir, fileSpans))
	default:
		return fmt.Errorf("wdl: resume: the files of the stream have changed: the checkpoint of step %d is from inside a span of %s: %w; put the file back, or resume from a checkpoint at the end of a span",
			c.Step, firstFew(c.Stream.Span), err)
	}
}

// keepBefore has all ranks know whether a span cannot be trained on, for a fault that
// maybe one of them alone has found. If so, the checkpoint of what was trained before is
// completed first, from which the stream goes on when that is mended. end ends what goes
// on with it meanwhile.
func (j *job) keepBefore(ctx context.Context, fault error, end func()) error {
	if !j.saver.Busy() || ctx.Err() != nil {
		return fault
	}
	phase := trace.Scan
	if fault == nil {
		phase = trace.Wait
	}
	j.rec.Enter(trace.Wait)
	failed := []int32{0}
	if fault != nil {
		failed[0] = 1
	}
	err := collective.AllReduce(j.comm, failed, collective.Max)
	if err == nil && failed[0] > 0 {
		end()
		err = j.catchUp()
	}
	j.rec.Enter(phase)
	switch {
	case fault != nil:
		return fault
	case err == nil && failed[0] > 0:
		return collective.Barrier(j.comm) // which ends with the group: another rank has the fault
	}
	return err
}

// tellLate tells the user once of each field that features need and of which no span has
// had a value. Open cannot refuse a misspelt one, for it may come later.
func (j *job) tellLate() {
	if j.comm.Rank() != 0 {
		return
	}
	if keys := j.absentKeys(j.train, j.following.known); keys != "" {
		j.opt.Warn(fmt.Sprintf("no record so far of the stream %s has a value of these fields: %s. Correct what is misspelt; leave what comes later",
			firstFew(j.config.Data.Train), keys))
	}
}

// unusable adds to an error about a record how many were left out before it, which
// count too.
func (c *streamCursor) unusable(err error, most int64) error {
	var f *record.Fault
	if c.Bad == 0 || !errors.As(err, &f) {
		return err
	}
	return fmt.Errorf("%w; the spans before have left out %d, and data.max_bad, over all spans, is %d", err, c.Bad, most)
}

// firstFew names the first of many files.
func firstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return fmt.Sprint(names)
	}
	return fmt.Sprintf("%v and %d more", names[:few], len(names)-few)
}

// endSpan closes the books of a span that has been read in a cursor, and says what
// the span was.
func (j *job) endSpan(c *cursor) string {
	line := fmt.Sprintf("span %d, %d rows of %s: train %s %.4f", c.Stream.Spans, c.Rows, firstFew(c.Stream.Span), j.config.LossName(), c.LastLoss)
	bad, _ := j.train.Bad()
	c.Stream.Bad += bad
	c.Stream.Done = slices.Clone(c.Stream.Partitions)
	c.Stream.Span, c.Stream.Parts, c.Data, c.Rows = nil, nil, "", 0
	j.feed.close(j)
	j.train = nil
	j.following.since = time.Now()
	return line
}

// endStream closes the books of a stream that has ended, maybe inside a span.
func (j *job) endStream(ctx context.Context) error {
	c := &j.cursor
	if c.Consumed > 0 {
		c.LastLoss = c.LossSum / float64(c.Consumed)
	}
	line := "the stream has ended: " + c.Stream.Ended
	if j.valid != nil && j.valid.Rows(j.validRows) > 0 && c.Progress.Step != c.Step {
		result, err := j.validate(ctx, c, c.Epoch)
		if err != nil {
			return err
		}
		line += ", " + result
	}
	j.say(line)
	return j.save(true, best{})
}
