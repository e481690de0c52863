package train

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
	"github.com/wdlrun/wdlrun/internal/runs/live"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// spans drives the epochs of a training whose data grows. Each epoch is a span of a stream,
// for which the job waits.
type spans struct {
	*run
	saves      *saves
	validation *validation
}

// open prepares a job whose training data grows to resume reading at the cursor.
func (s *spans) open() error {
	if !s.config.Data.Follow.On {
		return nil
	}
	c := &s.cursor
	if c.Stream == nil {
		if c.Consumed > 0 {
			return fmt.Errorf("resume: the checkpoint of step %d is inside an epoch of data that does not grow: resume from one at the end of an epoch to continue with a stream", c.Step)
		}
		c.Stream = &streamCursor{}
	}
	if err := c.Stream.Validate(); err != nil {
		return fmt.Errorf("resume: checkpoint of step %d: %w", c.Step, err)
	}
	c.Stream.Ended = "" // a resumed training reads new records
	var err error
	s.stream, err = s.in.OpenStream(c.Stream.Position, s.runDir)
	return err
}

// next opens the data of the next epoch: the span of the cursor, or a new one, for which it
// waits. stopped reports that the user requested a stop. If the stream ends, next sets Ended
// in the cursor.
func (s *spans) next(ctx context.Context) (stopped bool, err error) {
	for {
		if s.outOfSteps() {
			return false, nil
		}
		c := s.cursor.Stream
		fresh := len(c.Span) == 0
		was := c.Position
		if stopped, err := s.await(ctx); stopped || err != nil || c.Ended != "" {
			return stopped, err
		}
		if !fresh && c.Lost > was.Lost {
			s.truncate(was)
		}
		if len(c.Span) == 0 {
			continue
		}
		some, err := s.openSpan(ctx, fresh)
		if some || err != nil {
			return false, err
		}
		s.endSpan(&s.cursor) // it has no records
	}
}

// truncate makes the cursor of a checkpoint, whose position was was, agree with a span of which
// records no longer exist. If the checkpoint is inside the span, the span ends: the order of the
// remaining records, and with it which of them have been trained on, is not known any more.
func (s *spans) truncate(was stream.Position) {
	c := &s.cursor
	c.Data = ""
	if c.Consumed > 0 {
		left := c.Rows - c.Consumed
		s.Warn(fmt.Sprintf("the other records of span %d are left out: %d of its %d rows have been trained on, and which ones is not known any more", was.Spans, c.Consumed, c.Rows))
		c.Stream.Lost, c.Stream.Span = was.Lost+left, nil
		c.LastLoss = c.meanLoss()
		c.Epoch++
		c.Consumed, c.losses, c.Queue = 0, losses{}, nil
	}
	if len(c.Stream.Span) == 0 {
		s.endSpan(c)
	}
}

// await waits for the next span or the end of the stream, or examines the span of a checkpoint.
// Rank 0 polls and sends the result to the others. After each poll, all ranks agree on requests
// for a checkpoint or a stop.
func (s *spans) await(ctx context.Context) (stopped bool, err error) {
	c, leads := s.cursor.Stream, s.Comm.Rank() == 0
	fresh := len(c.Span) == 0
	for {
		var b []byte
		if leads {
			s.Rec.Enter(trace.Input)
			s.shown.Advance(1) // shows that rank 0 is polling, not stuck
			at, err := s.stream.Next(ctx, c.Position, s.opt.Warn)
			if err != nil {
				return false, err
			}
			if s.opt.Board.Waiting(s.stream.Away()); at != nil {
				s.opt.Board.Behind(s.stream.Lags(*at, c.Done))
			}
			if at != nil {
				if b, err = json.Marshal(at); err != nil {
					return false, err
				}
			}
		}
		s.Rec.Enter(trace.Wait)
		if b, err = collective.BroadcastBytes(s.Comm, b, 0, maxKnowledge); err != nil {
			return false, err
		}
		if len(b) > 0 { // otherwise the stream is away
			var at stream.Position
			if err := json.Unmarshal(b, &at); err != nil {
				return false, fmt.Errorf("stream: span of rank 0: %w", err)
			}
			if c.Debt, err = input.TooBadFiles(s.config.Data.Follow.Bad, c.Debt, at.Files-c.Files); err != nil {
				return false, err
			}
			if c.Position = at; len(at.Span) > 0 || at.Ended != "" || !fresh {
				s.stream.Began()
				return false, nil
			}
		}
		s.Rec.Enter(trace.Checkpoint)
		if err := s.saves.wait(); err != nil { // the next step, which would complete it, may be far away
			return false, err
		}
		if err := s.saves.publisher.Idle(s.cursor.Step); err != nil {
			return false, err
		}
		if stopped, err := s.requests(); stopped || err != nil {
			return stopped, err
		}
		if leads {
			pause(ctx, s.config.Data.Follow.Pause(), func() bool { return s.wants.stop.Load() || s.wants.save.Load() })
		}
	}
}

// pause waits for d. It returns early if ctx ends or wake returns true, which it checks every
// 200 ms.
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

// requests makes all ranks agree on requests for a checkpoint or a stop while they wait for a
// span. It writes the checkpoint completely, since no step follows in which to continue it.
func (s *spans) requests() (stop bool, err error) {
	wants := make([]int64, 3)
	for i, want := range []bool{s.wants.save.Load(), s.wants.stop.Load(), s.saves.overdue()} {
		if want {
			wants[i] = 1
		}
	}
	if err := collective.AllReduce(s.Comm, wants, collective.Sum); err != nil {
		return false, err
	}
	asked, stop, due := wants[0] > 0, wants[1] > 0, wants[2] > 0
	if !asked && !stop && !due {
		return false, nil
	}
	if at := s.cursor.Step; s.saves.saver.Holds(at) {
		if asked {
			s.Say(save.Written(s.runDir, at))
		}
	} else if err := s.saves.saveNow(asked); err != nil {
		return false, err
	}
	s.saves.at = time.Now()
	s.wants.save.Store(false)
	return stop, nil
}

// openSpan opens and scans the files of the current span. some is false if they have no
// records. fresh reports that the cursor has not entered the span yet.
func (s *spans) openSpan(ctx context.Context, fresh bool) (some bool, err error) {
	end := sync.OnceFunc(s.saves.saver.CopyInBackground())
	defer end()
	c := &s.cursor
	own, err := s.in.OpenSpan(ctx, s.stream, c.Stream.Position, c.Stream.Bad)
	if err := s.keepBefore(ctx, s.replaced(err, fresh), end); err != nil {
		return false, c.Stream.unusable(err, s.config.Data.MaxBad)
	}
	if some, err = s.in.ShareSpan(s.stream, own); err != nil {
		return false, c.Stream.unusable(s.keepBefore(ctx, err, end), s.config.Data.MaxBad)
	}
	if _, err := s.in.TooBad(c.Stream.Debt); err != nil {
		return false, s.keepBefore(ctx, err, end)
	}
	if err := s.stream.Scanned(s.in, c.Stream.Position); err != nil || !some {
		return false, err
	}
	rows, print := s.in.Train.Rows(data.Train), s.in.Train.Fingerprint()
	if !fresh && c.Data != "" && (c.Data != print || c.Rows != rows) {
		return false, fmt.Errorf("resume: the files of the stream have changed: the checkpoint of step %d is inside a span of %d rows, fingerprint %s, which now has %d rows, fingerprint %s: %s",
			c.Step, c.Rows, c.Data, rows, print, input.FirstFew(c.Stream.Span))
	}
	c.Rows, c.Data = rows, print
	s.in.WarnOfLate(s.stream)
	return true, nil
}

// replaced adds advice to the error of a span that cannot be opened because a file was
// replaced.
func (s *spans) replaced(err error, fresh bool) error {
	switch c := &s.cursor; {
	case !errors.Is(err, record.ErrReplaced):
		return err
	case fresh:
		return fmt.Errorf("training data: %w; put the file back, or remove %s, and resume", err, filepath.Join(s.runDir, input.FileSpans))
	default:
		return fmt.Errorf("resume: the files of the stream have changed: the checkpoint of step %d is from inside a span of %s: %w; put the file back, or resume from a checkpoint at the end of a span",
			c.Step, input.FirstFew(c.Stream.Span), err)
	}
}

// keepBefore makes all ranks agree whether a span cannot be trained on; perhaps only one rank
// has found the fault. If so, the checkpoint under way is completed first, so that the stream
// can resume from it once the fault is fixed. end ends the concurrent part of that
// checkpoint.
func (s *spans) keepBefore(ctx context.Context, fault error, end func()) error {
	if !s.saves.saver.Busy() || ctx.Err() != nil {
		return fault
	}
	phase := trace.Scan
	if fault == nil {
		phase = trace.Wait
	}
	s.Rec.Enter(trace.Wait)
	failed := []int32{0}
	if fault != nil {
		failed[0] = 1
	}
	err := collective.AllReduce(s.Comm, failed, collective.Max)
	if err == nil && failed[0] > 0 {
		end()
		err = s.saves.catchUp()
	}
	s.Rec.Enter(phase)
	switch {
	case fault != nil:
		return fault
	case err == nil && failed[0] > 0:
		return collective.Barrier(s.Comm) // fails when the group ends: another rank has the fault
	}
	return err
}

// unusable adds the number of records left out of earlier spans, which count too, to an error
// about a record.
func (c *streamCursor) unusable(err error, most int64) error {
	var f *record.Fault
	if c.Bad == 0 || !errors.As(err, &f) {
		return err
	}
	return fmt.Errorf("%w; earlier spans left out %d, and data.max_bad, which counts all spans, is %d", err, c.Bad, most)
}

// leftOut returns the numbers of records and files that are left out.
func leftOut(r *run) live.LeftOut {
	x := live.LeftOut{Bad: r.in.Bad()}
	if r.stream != nil {
		x.Bad, x.Files, x.Lost = x.Bad+r.cursor.Stream.Bad, r.cursor.Stream.Files, r.cursor.Stream.Lost
	}
	return x
}

// endSpan removes a finished span from a cursor and returns a description of the span.
func (s *spans) endSpan(c *cursor) string {
	line := fmt.Sprintf("span %d, %d rows of %s: train %s %.4f", c.Stream.Spans, c.Rows, input.FirstFew(c.Stream.Span), s.config.LossName(), c.LastLoss)
	if s.in.Train != nil {
		c.Stream.Debt, _ = s.in.TooBad(c.Stream.Debt)
	}
	c.Stream.Bad += s.in.CloseSpan()
	c.Stream.Done = slices.Clone(c.Stream.Partitions)
	s.opt.Board.Behind(s.stream.Lags(c.Stream.Position, c.Stream.Done))
	c.Stream.Span, c.Stream.Parts, c.Data, c.Rows = nil, nil, "", 0
	s.stream.Began()
	return line
}

// endStream evaluates and saves the model at the end of a stream, which may be inside a span.
func (s *spans) endStream(ctx context.Context) error {
	c := &s.cursor
	if c.Consumed > 0 {
		c.LastLoss = c.meanLoss()
	}
	line := "the stream has ended: " + c.Stream.Ended
	if s.in.HasValid() && c.Progress.Step != c.Step {
		result, err := s.validation.validate(ctx, c, c.Epoch)
		if err != nil {
			return err
		}
		line += ", " + result
	}
	s.Say(line)
	return s.saves.save(true, best{})
}
