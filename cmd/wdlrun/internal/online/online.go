// Package online has the command online, which joins, trains, publishes and serves at once.
package online

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/publish"
	"github.com/wdlrun/wdlrun/launcher"
)

func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "online",
		Usage:     "join, train and serve under one supervisor",
		UsageText: "wdlrun online -config FILE",
		Description: `FILE names the flags of wdlrun join, train and serve, without the minus:

   dir: online                        # logs, the run of the training, status.json
   web: 127.0.0.1:6062                # a page with the state of the loop
   join: {impressions: shown, feedback: clicks, out: samples, key: request, window: 30m}
   launch: {np: 2}                    # flags before the program
   train: {config: ctr.yaml}          # whose data.train is samples, with data.follow and train.export.dir
   serve: {model: ctr=models/ctr}

A flag that may be repeated takes a list. Online adds -follow, -wait and the run directory of the training.
Each part is an ordinary process with its own log. A part that ends with an error is named and started again
after 1 s, twice as long each time, at most 60 s. If it fails within 10 s of its first start,
everything ends. A line every 10 s has the time that the newest samples of the served version took, by stage.

SIGTERM or Ctrl-C ends the join, then the training, which writes a checkpoint and publishes a last version,
then the server. The same command continues.

Examples:
   wdlrun online -config online.yaml
   wdlrun publish models/ctr -rollback stable       while it runs`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read the flags of the parts from `FILE`"},
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := runOnline(p, c); err != nil {
				return fmt.Errorf("online: %w", err)
			}
			return nil
		},
	}
}

// part is a process of the loop.
type part struct {
	Name     string `json:"name"`
	State    string `json:"state"` // running, waiting (to be started again), ended
	Process  int    `json:"process,omitempty"`
	Restarts int    `json:"restarts"`
	Error    string `json:"error,omitempty"` // of its last end
	Note     string `json:"note,omitempty"`  // why its last model was not published

	args []string
	run  string // run directory; "": none
	log  string
	stop context.CancelFunc
	done chan struct{}
}

const (
	firstStart   = 10 * time.Second // within which an end means that the flags are wrong
	firstBackOff = time.Second
	lastBackOff  = time.Minute
)

// online is the supervisor.
type online struct {
	p     *command.Program
	self  string
	watch *loopWatch

	writing sync.Mutex // held while the state of the loop is read and status.json is written
	failed  int64      // the last version whose fault was printed

	mu    sync.Mutex
	parts []*part
	last  []byte // status.json
}

func runOnline(p *command.Program, c *cli.Context) error {
	if !c.IsSet("config") || c.Args().Present() {
		return errors.New("give -config FILE with the flags of join, train and serve; see: wdlrun online --help")
	}
	config, err := readOnline(command.PathOf(c, "config"))
	if err != nil {
		return err
	}
	config.Dir = cmp.Or(config.Dir, "online")
	o := &online{p: p}
	if o.self, err = os.Executable(); err != nil {
		return fmt.Errorf("the path of the program is unknown: %w", err)
	}
	out := valueOf(config.Join, "out", config.Dir)
	for _, dir := range []string{config.Dir, filepath.Join(config.Dir, "run"), out} {
		if kafka.IsTopic(dir) {
			continue
		}
		if err := command.MakeFolder(dir); err != nil {
			return err
		}
	}
	unlock, err := rundir.Lock(config.Dir)
	if used, is := errors.AsType[*rundir.InUse](err); is {
		return fmt.Errorf("another wdlrun online uses %s (%s): end it first, or give this one another dir", config.Dir, used.By)
	}
	if err != nil {
		return err
	}
	defer unlock()
	run := filepath.Join(config.Dir, "run")
	o.parts = []*part{
		{Name: "join", args: append([]string{"join", "-follow"}, flagsOf(config.Join)...)},
		{Name: "train", run: run, args: append(append(flagsOf(config.Launch), "train", "-into="+run), flagsOf(config.Train)...)},
		{Name: "serve", args: append([]string{"serve", "-wait"}, flagsOf(config.Serve)...)},
	}
	for _, x := range o.parts {
		x.log, x.done = filepath.Join(config.Dir, x.Name+".log"), make(chan struct{})
	}
	o.watch = newLoopWatch(config, run)
	defer o.end("")
	defer o.endAtOnce()()
	if err := o.removeEnd(out); err != nil {
		return err
	}
	for _, line := range o.watch.apart {
		fmt.Fprintln(p.Stderr, "wdlrun: online: "+line)
	}
	if config.Web != "" {
		o.write()
		closePage, err := servePage(c.Context, config.Web, p.Stderr, func() []byte {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.last
		})
		if err != nil {
			return err
		}
		defer closePage()
	}
	if err := o.run(c.Context); err != nil {
		return err
	}
	if command.AsJSON(c) {
		return p.PrintJSON(o.status())
	}
	return nil
}

// removeEnd says that an earlier run has ended the join, and removes the mark of that end from its samples, which
// would end the training.
func (o *online) removeEnd(out string) error {
	if s, err := o.watch.joinStatus(); err != nil || !s.Ended {
		return nil // the join reports what it cannot read
	}
	fmt.Fprintln(o.p.Stderr, "online: the join had ended in an earlier run; it continues with what is new. If its input folders still have _SUCCESS, it ends again: remove them to go on")
	if kafka.IsTopic(out) {
		return nil
	}
	if err := os.Remove(filepath.Join(out, schema.Follow{On: true}.Filled().Mark)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// run runs the parts until ctx ends, or one cannot be started, and ends them in their order.
func (o *online) run(ctx context.Context) error {
	life, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for _, x := range o.parts {
		var own context.Context
		own, x.stop = context.WithCancel(context.Background())
		go func() {
			defer close(x.done)
			if err := o.supervise(own, x); err != nil {
				fail(err)
			}
		}()
	}
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	shown := time.Now()
	for life.Err() == nil {
		select {
		case <-life.Done():
		case <-ticks.C:
			o.look(life)
			o.reportFailed()
			const often = 10 * time.Second
			if time.Since(shown) >= often {
				shown = time.Now()
				fmt.Fprintln(o.p.Stderr, "online: "+o.line())
				o.limitLogs()
			}
		}
	}
	for _, x := range o.parts {
		select {
		case <-x.done: // it has finished
			continue
		default:
		}
		x.stop()
		<-x.done
		fmt.Fprintf(o.p.Stderr, "online: %s has ended\n", x.Name)
		o.look(context.WithoutCancel(ctx)) // its last step or version
	}
	if err := context.Cause(life); ctx.Err() == nil {
		return err
	}
	return nil // as requested
}

// look reads what the parts report, and writes it.
func (o *online) look(ctx context.Context) {
	o.writing.Lock()
	o.watch.update(ctx)
	o.writing.Unlock()
	o.write()
}

// supervise runs a part and starts it again after failures. It returns an error if the first start fails.
func (o *online) supervise(ctx context.Context, x *part) error {
	wait := firstBackOff
	for first := true; ; first = false {
		began := time.Now()
		killed, err := o.process(ctx, x)
		switch lasted := time.Since(began); {
		case ctx.Err() != nil:
			o.setState(x, "ended", "")
			return nil
		case err == nil:
			o.setState(x, "ended", "")
			fmt.Fprintf(o.p.Stderr, "online: %s has finished\n", x.Name)
			return nil
		case first && lasted < firstStart && !killed:
			o.setState(x, "ended", err.Error())
			return fmt.Errorf("%s: %s (%s)", x.Name, strings.TrimPrefix(err.Error(), x.Name+": "), x.log)
		case lasted > lastBackOff:
			wait = firstBackOff
		}
		o.setState(x, "waiting", err.Error())
		fmt.Fprintf(o.p.Stderr, "online: %s ended: %v (%s); it starts again in %v\n", x.Name, err, x.log, wait)
		select {
		case <-ctx.Done():
			o.setState(x, "ended", err.Error())
			return nil
		case <-time.After(wait):
		}
		o.mu.Lock()
		x.Restarts++
		o.mu.Unlock()
		wait = min(2*wait, lastBackOff)
	}
}

func (o *online) setState(x *part, state, fault string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	x.State, x.Error, x.Process = state, fault, 0
}

// longestLog limits a log.
const longestLog = 16 << 20

// limitLogs moves what is in a log that is too long to NAME.log.1. The part, which has it open, continues at its
// beginning; what it writes at that moment may be lost.
func (o *online) limitLogs() {
	for _, x := range o.parts {
		info, err := os.Stat(x.log)
		if err != nil || info.Size() < longestLog {
			continue
		}
		if err := cutLog(x.log); err != nil {
			fmt.Fprintf(o.p.Stderr, "wdlrun: online: %s grows beyond %d MiB: %v\n", x.log, longestLog>>20, err)
		}
	}
}

// cutLog copies a log to NAME.log.1 and empties it.
func cutLog(path string) error {
	from, err := regular.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := regular.OpenFile(path+".1", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		return errors.Join(err, to.Close())
	}
	return cmp.Or(to.Close(), from.Truncate(0))
}

// process runs a part once. Its output goes to its log; the error is its verdict or its last line. killed reports that a
// signal ended it, so that its flags may be right.
func (o *online) process(ctx context.Context, x *part) (killed bool, err error) {
	log, err := regular.OpenFile(x.log, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return false, err
	}
	defer log.Close()
	from, err := log.Seek(0, 2)
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, o.self, x.args...)
	cmd.Stdout, cmd.Stderr = log, log
	command.Separate(cmd)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = command.StopWithin
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	o.mu.Lock()
	x.State, x.Process = "running", cmd.Process.Pid
	o.mu.Unlock()
	err = cmd.Wait()
	end, seek := log.Seek(0, 2)
	if end < from { // see limitLogs
		from = 0
	}
	tail := make([]byte, min(max(end-from, 0), 1<<14))
	if seek == nil {
		n, _ := log.ReadAt(tail, end-int64(len(tail))) // without it, the error is the exit code
		tail = tail[:n]
	}
	if note := unpublished(tail); note != "" {
		o.mu.Lock()
		x.Note = note
		o.mu.Unlock()
		fmt.Fprintf(o.p.Stderr, "online: %s: %s\n", x.Name, note)
	}
	if err == nil {
		return false, nil
	}
	if killed = cmd.ProcessState.ExitCode() < 0; killed {
		return true, err
	}
	if why := verdictSince(x.run, began); why != "" {
		return false, errors.New(why)
	}
	return false, errors.New(lastFault(tail, err))
}

// unpublished returns the line of a training that its last model was not published, "" without one.
func unpublished(output []byte) (note string) {
	for line := range bytes.Lines(output) {
		_, rest, own := bytes.Cut(bytes.TrimSpace(line), []byte("wdlrun: ")) // after the number of the rank
		if own && bytes.HasPrefix(rest, []byte("train.export")) && bytes.Contains(rest, []byte(publish.LastModel)) {
			note = command.Clean(string(rest), longestFault)
		}
	}
	return note
}

// lastFault returns the last line of an output that begins with wdlrun; without one, the error.
func lastFault(output []byte, err error) string {
	text := err.Error()
	for line := range bytes.Lines(output) {
		if rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("wdlrun: ")); ok {
			text = string(rest)
		}
	}
	return command.Clean(strings.TrimSpace(text), longestFault)
}

// verdictSince returns why the ranks of a run ended, "" if no verdict was kept since a time. What a launcher prints
// after its verdict is advice.
func verdictSince(run string, began time.Time) string {
	if run == "" {
		return ""
	}
	all, _ := filepath.Glob(filepath.Join(run, "failure-*", runs.FileVerdict)) // the pattern is well-formed
	const most = 1 << 20
	why, newest := "", began
	for _, path := range all {
		info, err := os.Stat(path)
		if err != nil || info.ModTime().Before(newest) {
			continue
		}
		if b, err := regular.ReadFile(path, most); err == nil {
			first, _, _ := strings.Cut(string(b), "\n")
			why, newest = command.Clean(strings.TrimSpace(first), longestFault), info.ModTime()
		}
	}
	return why
}

// loopStatus is status.json.
type loopStatus struct {
	Time      time.Time `json:"time"`
	Parts     []part    `json:"parts"`
	Freshness *stages   `json:"freshness,omitempty"` // of the newest version that was loaded
	Spread    *spread   `json:"event_to_loaded,omitempty"`
	Answered  *answered `json:"first_answer,omitempty"`
	Loop      loopState `json:"loop"`
}

func (o *online) status() loopStatus {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := loopStatus{Time: time.Now(), Loop: o.watch.state, Spread: o.watch.fresh.distribution(), Answered: o.watch.answered}
	for _, x := range o.parts {
		s.Parts = append(s.Parts, part{Name: x.Name, State: x.State, Process: x.Process, Restarts: x.Restarts, Error: x.Error, Note: x.Note})
	}
	if f := o.watch.fresh.latest; f.Version != 0 {
		s.Freshness = &f
	}
	return s
}

// write writes status.json. Without it, the line has the same.
func (o *online) write() {
	o.writing.Lock()
	defer o.writing.Unlock()
	b, err := json.Marshal(o.status())
	if err != nil {
		return
	}
	o.mu.Lock()
	o.last = append(b, '\n')
	o.mu.Unlock()
	_ = rundir.WriteFile(o.watch.dir, "status.json", o.last)
}

// line describes the state of the loop.
func (o *online) line() string {
	s := o.status()
	var parts []string
	for _, x := range s.Parts {
		text := x.Name + " " + cmp.Or(x.State, "starts")
		if x.Restarts > 0 {
			text += fmt.Sprintf(" (started again %s)", plural.Of(x.Restarts, "time"))
		}
		parts = append(parts, text)
	}
	l := s.Loop
	text := fmt.Sprintf("%s; %s, %s; step %d", strings.Join(parts, ", "), plural.Of(int(l.Samples), "sample"), plural.Are(l.Open, "impression", "open"), l.Step)
	if rejected := o.watch.rejected(); rejected != "" {
		text += "; " + rejected
	}
	if l.Failed != nil {
		text += "; " + l.Failed.line()
	}
	if l.Hold != "" {
		text += "; versions are on hold: " + l.Hold
	}
	text += "; " + o.watch.fresh.latest.line()
	if s.Spread != nil {
		text += "; " + s.Spread.line()
	}
	if s.Answered != nil {
		text += "; " + s.Answered.line()
	}
	return text
}

// endAtOnce makes a second signal end the program at once. The first one ends the parts, for which the program
// waits. Call stop to release the signals.
func (o *online) endAtOnce() (stop func()) {
	o.p.OwnsRanks.Store(true) // the parts end in their own time, without StartGrace
	ending := launcher.NotIgnored(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if len(ending) == 0 {
		return func() {}
	}
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, ending...)
	go func() {
		for first := true; ; first = false {
			select {
			case s := <-signals:
				if again := (launcher.Interrupted{Signal: s}); !first {
					fmt.Fprintf(o.p.Stderr, "wdlrun: online: %v again: the parts are killed\n", again)
					o.end("killed by a second signal")
					os.Exit(again.Code()) // on Linux, the kernel kills the parts
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// end writes that all parts have ended, those that had not with a reason.
func (o *online) end(why string) {
	o.mu.Lock()
	for _, x := range o.parts {
		if x.State != "ended" {
			x.State, x.Error, x.Process = "ended", cmp.Or(why, x.Error), 0
		}
	}
	o.mu.Unlock()
	o.write()
}

// reportFailed prints a version that the server cannot load, once.
func (o *online) reportFailed() {
	if f := o.watch.state.Failed; f != nil && f.Version != o.failed {
		o.failed = f.Version
		fmt.Fprintf(o.p.Stderr, "online: %s\n", f.line())
	}
}
