// Package publish publishes the model during the training. It writes versions that a server
// loads; each version holds the rows that changed since the previous one.
//
//	Due        called on rank 0 before a step: whether a version is due after it
//	Boundary   between two steps: settles the previous version and starts the next
//	CopySlice  between the following steps: copies the changes
//
// Each rank sorts its changes on a goroutine. Ranks above 0 write them to the folder of the
// versions, or, if the job has several hosts, keep them in memory until rank 0 has read them.
// Rank 0 joins them and makes the version visible by a rename (package export). At
// the next boundary all ranks learn the outcome. If the version failed, its changes are part
// of the next version. The first version that cannot be written causes a warning, and
// training continues.
//
// The first version is complete: it holds the changes since the tables were empty, or since a
// checkpoint. A job that resumes, heals or moves shards starts again with the changes since
// its next checkpoint, and asks for one. The number of a version is its step, or the number after
// the highest in the folder.
package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
	"github.com/wdlrun/wdlrun/trace"
)

// Open starts publishing a training at a step. It returns nil if publishing is disabled. All
// ranks call it after the parameters are loaded. All ranks return the same error about the
// folder.
func Open(ctx context.Context, s Setup, at int64) (*Publisher, error) {
	c := s.Config.Train.Export
	if c.Dir == "" {
		return nil, nil
	}
	p := &Publisher{Setup: s, at: time.Now()}
	var try func(dir string) error
	if c.Guard.Action != "" {
		try = p.tryVersion
	}
	fault, err := save.First(s.Comm, s.Rec, func() (err error) {
		p.files, err = export.OpenPublisher(ctx, export.PublishOptions{
			Dir: c.Dir, Config: s.Config.YAML(), Encoder: s.Encoder, Size: s.Comm.Size(), FullEvery: c.FullEvery, Keep: ledger.Keep(c.Keep), Fetch: p.fetcher(),
			Lineage: lineage(s.RunDir), Count: s.Count, Try: try,
			Warn: func(line string) { s.Warn("train.export: " + line) },
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if fault != "" {
		return nil, errors.New(fault)
	}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	p.last = max(at-1, 0)
	if p.files != nil {
		p.watch = newWatch(c.Guard, s.early(), c.Dir)
		if n := p.files.Highest(); p.files.Has(at) {
			p.last = at
		} else if n > at && (s.Before == "" || !p.files.Follows(lineage(s.Before))) {
			s.Warn(fmt.Sprintf("train.export: %s has versions up to %d of another training or program: the versions of this training continue at %d, and servers switch to them at once; wdlrun publish %s -hold prevents that", c.Dir, n, n+1, c.Dir))
		}
	}
	return p, p.begin(at)
}

// early reports whether the samples are negatives first and are repeated as positives.
func (s *Setup) early() bool {
	if all := s.Config.Labels; len(all) > 0 {
		return all[0].IsFakeNegative()
	}
	return s.Config.Label.IsFakeNegative()
}

// lineage returns the id of the run, "" if it cannot be stored.
func lineage(runDir string) string {
	root := filepath.Join(runDir, checkpoint.Folder)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return ""
	}
	id, _ := checkpoint.RunID(root) // the first checkpoint reports the error
	return id
}

// begin restarts with the changes after a step.
func (p *Publisher) begin(at int64) (err error) {
	p.since, p.ready = at, at == 0 // at step 0 the tables are empty
	p.wants, p.asked = false, false
	if p.files != nil && p.ready {
		if err := p.files.Restart(nil); err != nil {
			return err
		}
	}
	p.changes, err = sparse.WatchChanges(p.Trainer.Store())
	return err
}

// Due reports on rank 0 whether a version is due after the coming step.
func (p *Publisher) Due(step int64) bool {
	if p == nil || p.files == nil || step <= p.last {
		return false
	}
	if p.pending.lost() {
		return true
	}
	if !p.ready && time.Since(p.looked) >= p.Every/4 {
		p.looked = time.Now()
		if p.prepared() {
			return true
		}
	}
	return time.Since(p.at) >= p.Every
}

// NeedsCheckpoint reports on rank 0 that no version can be published until the next checkpoint. It
// returns true once.
func (p *Publisher) NeedsCheckpoint() bool {
	if p == nil || !p.wants {
		return false
	}
	p.wants = false
	return true
}

// report is the message of a rank at a boundary.
type report struct {
	Busy  bool // its part of the previous version is not complete
	Lost  bool // some changes are not known
	Fault string
	Ready bool   // rank 0: a version can begin
	Stop  string // rank 0: the training ends for this reason
}

// maxReport is the largest size of a report, in bytes.
const maxReport = 1 << 16

// Boundary completes the previous version and begins a version of this step if possible. If it is not
// possible, Boundary returns nil.
func (p *Publisher) Boundary(step int64) error {
	if p == nil {
		return nil
	}
	if p.Wait {
		if err := p.conclude(); err != nil {
			return err
		}
		if p.files != nil {
			p.files.Wait()
			p.awaitOlder()
		}
	}
	p.Rec.Enter(trace.Checkpoint)
	p.at, p.refused = time.Now(), ""
	admitted, stop := p.guarded()
	own := report{Ready: p.prepared() && step > p.last && admitted && !p.onHold(), Stop: stop, Lost: p.changes == nil || p.pending.lost()}
	own.Busy, own.Fault = p.pending.state()
	all, err := p.gather(own)
	if err != nil {
		return err
	}
	if all.Stop != "" {
		return errors.New(all.Stop)
	}
	if all.Busy && all.Fault == "" {
		return nil
	}
	if err := p.recordOutcome(all); err != nil {
		return err
	}
	switch {
	case all.Lost:
		return p.begin(step)
	case !all.Ready || step <= p.last: // the previous version is of this step: a stream waits for data
		return nil
	}
	return p.start(step)
}

// state reports whether a version is being written, and why it failed.
func (x *pending) state() (busy bool, fault string) {
	if x == nil {
		return false, ""
	}
	select {
	case <-x.done:
		if x.err != nil {
			fault = x.err.Error()
		}
	default:
		busy = true
	}
	return busy, fault
}

// lost reports on rank 0 that a version failed because the model of the last one is lost.
func (x *pending) lost() bool {
	if x == nil || !x.copied {
		return false
	}
	select {
	case <-x.done:
		return errors.Is(x.err, export.ErrBase)
	default:
		return false
	}
}

// onHold reports on rank 0 whether the folder is on hold, once in words.
func (p *Publisher) onHold() bool {
	if p.files == nil {
		return false
	}
	hold := p.files.Held()
	switch {
	case hold == nil:
		p.held = false
	case !p.held:
		p.held = true
		p.Warn("train.export: " + (&export.HeldError{Dir: p.Config.Train.Export.Dir, Hold: *hold}).Error())
	}
	if hold != nil {
		p.Count(Held)
	}
	return hold != nil
}

// gather combines the reports of all ranks.
func (p *Publisher) gather(own report) (sum report, err error) {
	if len(own.Fault) > maxReport/8 {
		own.Fault = own.Fault[:maxReport/8]
	}
	b, err := json.Marshal(own)
	if err != nil {
		return sum, err
	}
	p.Rec.Enter(trace.Wait)
	defer p.Rec.Enter(trace.Checkpoint)
	reports, err := collective.AllGatherBytes(p.Comm, b, maxReport)
	if err != nil {
		return sum, err
	}
	for rank, b := range reports {
		var r report
		if err := json.Unmarshal(b, &r); err != nil {
			return sum, fmt.Errorf("publish: report of rank %d: %w", rank, err)
		}
		sum.Stop += r.Stop
		sum.Busy, sum.Lost, sum.Ready = sum.Busy || r.Busy, sum.Lost || r.Lost, sum.Ready || r.Ready
		if r.Fault != "" && sum.Fault == "" {
			sum.Fault = fmt.Sprintf("rank %d: %s", rank, r.Fault)
		}
	}
	return sum, nil
}

// errDecided ends the wait of rank 0 for parts of a version that has failed.
var errDecided = errors.New("another rank could not write its part")

// recordOutcome records the outcome of the previous version.
func (p *Publisher) recordOutcome(all report) error {
	x := p.pending
	if x == nil {
		return nil
	}
	if all.Fault != "" {
		p.abandon(x)
	}
	p.unnote(x.Part)
	p.pending = nil
	if all.Fault == "" {
		if p.last, p.warned, p.skipped = x.Step, false, ""; p.watch != nil {
			p.watch.guard.published()
			p.watch.after = ""
		}
		return nil
	}
	p.report(x, all.Fault)
	if p.changes == nil {
		return nil
	}
	if err := p.changes.Again(); err != nil || errors.Is(x.err, export.ErrBase) {
		p.lose()
	}
	return nil
}

// report counts a version that was not published, and reports the first of several.
func (p *Publisher) report(x *pending, fault string) {
	held := new(export.HeldError)
	switch {
	case p.Comm.Rank() != 0:
	case errors.As(x.err, &held): // the next boundary reports and counts it
	case errors.Is(x.err, errUnlike):
		p.Count(Guarded)
		p.Guard("logits", x.err.Error())
		if p.refused = x.err.Error(); !p.warned {
			p.Warn(fmt.Sprintf("%v: the version of step %d was not published; the next version has its changes", x.err, x.Step))
		}
		p.warned = true
	default:
		p.Count(Skipped)
		p.skipped = fault
		if !p.warned {
			p.Warn(fmt.Sprintf("train.export: the version of step %d was not published, training continues and the next version has its changes: %s", x.Step, fault))
		}
		p.warned = true
	}
}

// abandon cancels a version and waits until its goroutines have ended.
func (p *Publisher) abandon(x *pending) {
	x.cancel(errDecided)
	if x.copied {
		<-x.done
		return
	}
	for p.changes.Copy(restRows) {
	}
}

// lose makes all ranks restart at the next boundary.
func (p *Publisher) lose() {
	p.changes.Close()
	p.changes = nil
}

// start begins the version of a step.
func (p *Publisher) start(step int64) error {
	p.parts++
	x := &pending{Point: export.Point{Step: step, Taken: p.at.UnixNano(), Part: p.parts}, done: make(chan struct{})}
	if p.files != nil && p.Offsets != nil {
		x.Offsets = p.Offsets()
	}
	if w := p.watch; w != nil {
		if x.Window = w.latest.window(); x.Window != nil {
			x.Window.Reason = w.after
		}
		w.recent.reset()
	}
	x.ctx, x.cancel = context.WithCancelCause(p.ctx)
	p.pending, p.turned = x, time.Now()
	if p.files != nil {
		p.dense.Reset()
		if err := p.Trainer.SaveDense(&p.dense); err != nil {
			return err
		}
	}
	if err := p.changes.Take(); err != nil {
		p.lose()
		x.copied = true
		x.end(err)
	}
	return nil
}

// end ends a version. It has failed if err is not nil. A goroutine may call it.
func (x *pending) end(err error) {
	x.err = err
	x.cancel(err)
	close(x.done)
}

const (
	// turnShare limits a turn to 1/turnShare of a step.
	turnShare = 8
	// turnRows is the number of rows copied between two readings of the clock.
	turnRows = 256
	// restRows replaces turnRows while training waits.
	restRows = 1 << 20
)

// CopySlice copies more of the changes. It takes at most 1/turnShare of the time since the last
// turn, or of usual, the usual time of a step, if that is shorter. A usual of 0 means
// unknown.
func (p *Publisher) CopySlice(usual time.Duration) {
	if p == nil || p.pending == nil || p.pending.copied {
		return
	}
	p.Rec.Enter(trace.Checkpoint)
	now := time.Now()
	since := now.Sub(p.turned)
	if usual > 0 {
		since = min(since, usual)
	}
	more := true
	for until := now.Add(since / turnShare); more && time.Now().Before(until); {
		more = p.changes.Copy(turnRows)
	}
	if p.turned = time.Now(); !more {
		p.write()
	}
}

// CopyRest copies the remaining changes.
func (p *Publisher) CopyRest() {
	if p == nil || p.pending == nil || p.pending.copied {
		return
	}
	for p.changes.Copy(restRows) {
	}
	p.write()
}

// write writes the copied changes on a goroutine.
func (p *Publisher) write() {
	x, tables := p.pending, p.Trainer.Store().Config().Tables
	x.copied = true
	var taken []*table.Taken
	for i := range tables {
		t, err := p.changes.Taken(i)
		if err != nil {
			p.lose()
			x.end(err)
			return
		}
		taken = append(taken, t)
	}
	go func() { x.end(p.writePiece(x, tables, taken)) }()
}

// writePiece writes the changes of this rank and, on rank 0, the version.
func (p *Publisher) writePiece(x *pending, tables []sparse.Table, taken []*table.Taken) error {
	var own export.Piece
	for i, of := range tables {
		if err := own.Add(of, taken[i]); err != nil {
			return err
		}
	}
	if p.files == nil && p.Volumes != nil {
		return p.note(x.Part, own, tables)
	}
	if p.files == nil {
		return own.WritePart(p.Config.Train.Export.Dir, x.Part, p.Comm.Rank(), tables)
	}
	_, err := p.files.Publish(x.ctx, x.Point, p.dense.Bytes(), own)
	return err
}

// prepared reports on rank 0 whether the base of the next version is known. If not, it starts
// to read the first checkpoint after which all changes are known.
func (p *Publisher) prepared() bool {
	if p.files == nil || p.ready {
		return p.ready
	}
	if p.older == nil {
		p.older = make(chan older, 1)
		go func(to chan<- older, since int64) { to <- p.fromCheckpoint(since) }(p.older, p.since)
		return false
	}
	select {
	case x := <-p.older:
		p.older = nil
		p.restart(x)
	default:
	}
	return p.ready
}

// awaitOlder waits on rank 0 until the last checkpoint is read. A look that began earlier may have found
// none, so it looks twice.
func (p *Publisher) awaitOlder() {
	for range 2 {
		if p.prepared() {
			return
		}
		if p.older != nil {
			x := <-p.older
			p.older = nil
			p.restart(x)
		}
	}
}

// restart makes a model the base of the next version unless it is too old by now.
func (p *Publisher) restart(x older) {
	switch {
	case x.err != nil:
		p.Warn(fmt.Sprintf("train.export: no version is published until the next checkpoint: %v", x.err))
	case x.model == nil:
		p.wants, p.asked = p.wants || !p.asked, true
	case x.step < p.since:
		x.err = x.model.Close()
	default:
		x.err = p.files.Restart(x.model)
		p.ready = true
	}
}

// fromCheckpoint returns the model of the last checkpoint, if its step is at least since.
func (p *Publisher) fromCheckpoint(since int64) (x older) {
	defer p.reading.Store(0)
	last, ok := p.holdLast()
	if !ok || last.Step < since {
		return x // a checkpoint will follow
	}
	c, err := checkpoint.Open(last.Dir)
	if err == nil && p.Volumes != nil {
		err = p.Volumes.AttachAway(p.ctx, c)
	}
	if err == nil {
		x.step = c.Step()
		x.model, err = p.files.FromCheckpoint(p.ctx, export.Source{Checkpoint: c, Config: p.Config.YAML(), Encoder: p.Encoder})
	}
	x.err = err
	return x
}

// holdLast returns the last checkpoint, which is not removed as long as Reading returns its step.
func (p *Publisher) holdLast() (last checkpoint.Found, ok bool) {
	for {
		all, err := checkpoint.List(filepath.Join(p.RunDir, checkpoint.Folder))
		if err != nil || len(all) == 0 {
			return last, false
		}
		if ok && all[0].Step == last.Step { // who removed it without having seen reading has written a newer one
			return last, true
		}
		last, ok = all[0], true
		p.reading.Store(last.Step)
	}
}

// Reading returns the step of the checkpoint that is being read, 0 if there is none. Goroutines may call it.
func (p *Publisher) Reading() int64 {
	if p == nil {
		return 0
	}
	return p.reading.Load()
}

// Idle is like Boundary, but is called when the next step may be far away.
func (p *Publisher) Idle(step int64) error {
	p.CopyRest()
	err := p.Boundary(step)
	p.CopyRest()
	return err
}

// LastModel begins the line of a model that was not published at the end of a training.
const LastModel = "the last model, of step "

// Finish publishes the model at the end of a training.
func (p *Publisher) Finish(step int64) error {
	if p == nil {
		return nil
	}
	if err := p.conclude(); err != nil {
		return err
	}
	if p.files != nil {
		p.awaitOlder()
	}
	if err := p.Boundary(step); err != nil {
		return err
	}
	if err := p.conclude(); err != nil {
		return err
	}
	if p.files == nil || p.last >= step {
		return nil
	}
	dir := p.Config.Train.Export.Dir
	export := fmt.Sprintf("wdlrun export -resume %s -out %s -name %s", p.RunDir, filepath.Dir(dir), filepath.Base(dir))
	switch {
	case !p.ready:
		p.Warn(fmt.Sprintf("train.export: "+LastModel+"%d, was not published, because no checkpoint since step %d could be read; to publish it: %s", step, p.since, export))
	case p.held || p.watch != nil && p.watch.held:
		p.Warn(fmt.Sprintf("train.export: "+LastModel+"%d, was not published: the folder is on hold; to publish it: wdlrun publish %s -release, then %s", step, dir, export))
	case p.refused != "":
		p.Warn(fmt.Sprintf("train.export.guard: "+LastModel+"%d, was not published: %s; to publish it nevertheless: %s", step, p.refused, export))
	case p.skipped != "":
		p.Warn(fmt.Sprintf("train.export: "+LastModel+"%d, was not published: %s; to publish it: %s", step, p.skipped, export))
	}
	return nil
}

// conclude waits for the version under way and settles it.
func (p *Publisher) conclude() error {
	if p.pending == nil {
		return nil
	}
	p.CopyRest()
	x, own := p.pending, report{}
	if p.files == nil {
		<-x.done
	}
	_, own.Fault = x.state()
	all, err := p.gather(own)
	if err != nil {
		return err
	}
	if p.files != nil {
		if all.Fault != "" {
			x.cancel(errDecided)
		}
		<-x.done
		_, own.Fault = x.state()
	}
	last, err := p.gather(own)
	if err != nil {
		return err
	}
	if all.Fault == "" {
		all = last
	}
	return p.recordOutcome(all)
}

// errStopped ends the version under way when the training ends.
var errStopped = errors.New("the training has ended")

// Stop ends the version under way.
func (p *Publisher) Stop() {
	if p == nil {
		return
	}
	p.cancel(errStopped)
	if x := p.pending; x != nil && x.copied {
		<-x.done
	}
	if p.older != nil {
		if x := <-p.older; x.model != nil {
			x.model.Close() // nothing was written
		}
	}
	p.watch.close()
	if p.files != nil {
		if err := p.files.Close(); err != nil {
			p.Warn(err.Error())
		}
	}
	if p.changes != nil {
		p.changes.Close()
	}
}
