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
	"github.com/wdlrun/wdlrun/internal/wdl/input"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/trace"
)

// streamCursor is the position of a job in a stream.
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
	c.Stream.Ended = "" // a resumed training reads what came since
	var err error
	j.stream, err = j.in.OpenStream(c.Stream.Position, j.runDir)
	return err
}

// nextSpan makes what comes next in the stream the data of the epoch: the span
// in which the cursor is, or a new one, for which it waits. stopped reports
// that the user asked for the end; where the stream ends, its cursor says so.
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

// await waits for the next span or the end. Rank 0 looks and sends the others what it found;
// between two looks all agree whether a checkpoint or the end is wanted.
func (j *job) await(ctx context.Context) (stopped bool, err error) {
	c, leads := j.cursor.Stream, j.comm.Rank() == 0
	for {
		var b []byte
		if leads {
			j.rec.Enter(trace.Input)
			j.shown.Advance(1) // rank 0 is not stuck, it looks
			at, err := j.stream.Next(ctx, c.Position, j.opt.Warn)
			if err != nil {
				return false, err
			}
			if b, err = json.Marshal(at); err != nil {
				return false, err
			}
		}
		j.rec.Enter(trace.Wait)
		if b, err = collective.BroadcastBytes(j.comm, b, 0, maxKnowledge); err != nil {
			return false, err
		}
		var at stream.Position
		if err := json.Unmarshal(b, &at); err != nil {
			return false, fmt.Errorf("wdl: stream: span of rank 0: %w", err)
		}
		if c.Position = at; len(at.Span) > 0 || at.Ended != "" {
			j.stream.Began()
			return false, nil
		}
		j.rec.Enter(trace.Checkpoint)
		if err := j.settle(); err != nil { // there may be no step for long in which to take the rest
			return false, err
		}
		if stopped, err := j.wishes(); stopped || err != nil {
			return stopped, err
		}
		if leads {
			pause(ctx, j.config.Data.Follow.Pause(), func() bool { return j.wants.stop.Load() || j.wants.save.Load() })
		}
	}
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
	for i, want := range []bool{j.wants.save.Load(), j.wants.stop.Load(), j.overdue()} {
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
	j.saves.at = time.Now()
	j.wants.save.Store(false)
	return stop, nil
}

// openSpan opens and scans the files of the current span; some is false if they
// hold no record. fresh reports that the cursor is not in it yet.
func (j *job) openSpan(ctx context.Context, fresh bool) (some bool, err error) {
	end := sync.OnceFunc(j.saver.Meanwhile())
	defer end()
	c := &j.cursor
	own, err := j.in.OpenSpan(ctx, c.Stream.Position, c.Stream.Bad)
	if err := j.keepBefore(ctx, j.replaced(err, fresh), end); err != nil {
		return false, c.Stream.unusable(err, j.config.Data.MaxBad)
	}
	if some, err = j.in.ShareSpan(own); err != nil {
		return false, c.Stream.unusable(j.keepBefore(ctx, err, end), j.config.Data.MaxBad)
	}
	if !some {
		j.stream.Scanned(c.Stream.Position)
		return false, nil
	}
	rows, print := j.in.Train.Rows(data.Train), j.in.Train.Fingerprint()
	if !fresh && c.Data != "" && (c.Data != print || c.Rows != rows) {
		return false, fmt.Errorf("wdl: resume: the files of the stream have changed: the checkpoint of step %d is inside a span of %d rows, fingerprint %s, which now has %d rows, fingerprint %s: %s",
			c.Step, c.Rows, c.Data, rows, print, input.FirstFew(c.Stream.Span))
	}
	c.Rows, c.Data = rows, print
	j.stream.Scanned(c.Stream.Position)
	j.in.WarnOfLate(j.stream)
	return true, nil
}

// replaced adds to the error of a span that cannot be opened what to do about a file that
// was replaced.
func (j *job) replaced(err error, fresh bool) error {
	switch c := &j.cursor; {
	case !errors.Is(err, record.ErrReplaced):
		return err
	case fresh:
		return fmt.Errorf("training data: %w; put the file back, or remove %s, and resume", err, filepath.Join(j.runDir, input.FileSpans))
	default:
		return fmt.Errorf("wdl: resume: the files of the stream have changed: the checkpoint of step %d is from inside a span of %s: %w; put the file back, or resume from a checkpoint at the end of a span",
			c.Step, input.FirstFew(c.Stream.Span), err)
	}
}

// keepBefore has all ranks know whether a span cannot be trained on, for a fault that
// maybe one of them alone has found. If so, the checkpoint of what was trained before is
// completed first, from which the stream resumes when that is mended. end ends what goes
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

// unusable adds to an error about a record how many were left out before it, which
// count too.
func (c *streamCursor) unusable(err error, most int64) error {
	var f *record.Fault
	if c.Bad == 0 || !errors.As(err, &f) {
		return err
	}
	return fmt.Errorf("%w; the spans before have left out %d, and data.max_bad, over all spans, is %d", err, c.Bad, most)
}

// endSpan closes the books of a span that has been read in a cursor, and says what
// the span was.
func (j *job) endSpan(c *cursor) string {
	line := fmt.Sprintf("span %d, %d rows of %s: train %s %.4f", c.Stream.Spans, c.Rows, input.FirstFew(c.Stream.Span), j.config.LossName(), c.LastLoss)
	c.Stream.Bad += j.in.CloseSpan()
	c.Stream.Done = slices.Clone(c.Stream.Partitions)
	c.Stream.Span, c.Stream.Parts, c.Data, c.Rows = nil, nil, "", 0
	j.stream.Began()
	return line
}

// endStream closes the books of a stream that has ended, maybe inside a span.
func (j *job) endStream(ctx context.Context) error {
	c := &j.cursor
	if c.Consumed > 0 {
		c.LastLoss = c.LossSum / float64(c.Consumed)
	}
	line := "the stream has ended: " + c.Stream.Ended
	if j.in.HasValid() && c.Progress.Step != c.Step {
		result, err := j.validate(ctx, c, c.Epoch)
		if err != nil {
			return err
		}
		line += ", " + result
	}
	j.say(line)
	return j.save(true, best{})
}
