package commit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/golden"
)

// TestConversations runs the texts in testdata: lines that begin with "> " are
// events, the lines below each are what the machines answered. -rewrite writes
// the answers anew.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/step_*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations found", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c := conversation{t: t}
			for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
				switch {
				case strings.HasPrefix(line, "> "):
					c.out.WriteString(line + "\n")
					c.event(strings.Fields(line[2:]))
				case line == "" || strings.HasPrefix(line, "#"):
					c.out.WriteString(line + "\n")
				}
			}
			golden.Check(t, filepath.Base(path), c.out.String())
		})
	}
}

// conversation is one job whose messages wait until the text lets them pass.
//
//	job mode=drop workers=3 slots=3 backup=1 rows=10 size=2   a new job, nobody started
//	start, takeover          the first coordinator, the next one
//	pass [kind [from [to]]]  delivers what waits and matches, "*" is anything, and
//	                         what that brings about, except at ranks that are stopped
//	lose, repeat             as pass, but drops; delivers and keeps; once
//	stop 2, go 2             holds all that would reach rank 2 as a worker
//	leave, join, fail 1      a rank ends; is there; cannot do its lease
//	tick 100ms, retry, pause, resume, cut
type conversation struct {
	t       *testing.T
	cfg     Config
	queue   Queue
	c       *Coordinator
	terms   int
	owners  []*Owner
	workers []*Worker
	stopped map[int]bool
	flight  []Message
	now     time.Duration
	out     strings.Builder
}

func (c *conversation) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *conversation) event(words []string) {
	what, args := words[0], words[1:]
	switch what {
	case "job":
		c.job(args)
	case "start", "takeover":
		c.terms++
		c.c = NewCoordinator(c.cfg, MakeTerm(1, c.terms, c.cfg.Workers))
		c.lead(c.c.Start(c.now))
		for r := range c.workers {
			c.lead(c.c.Join(c.now, r))
		}
	case "pass", "lose", "repeat":
		c.pass(what, append(args, "*", "*", "*")[:3])
	case "stop", "go":
		c.stopped[c.number(args[0])] = what == "stop"
	case "leave":
		r := c.number(args[0])
		c.owners[r], c.workers[r] = nil, nil
		c.lead(c.c.Leave(c.now, r))
	case "join":
		r := c.number(args[0])
		c.workers[r] = NewWorker(r, 0)
		c.lead(c.c.Join(c.now, r))
	case "fail":
		w := c.workers[c.number(args[0])]
		w.phase = computing
		c.outcome("worker "+args[0], w.Failed(w.lease.Tag), nil)
	case "tick":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			c.t.Fatal(err)
		}
		c.now += d
		c.lead(c.c.Tick(c.now))
	case "retry":
		c.lead(c.c.Retry(c.now))
	case "pause":
		c.c.Pause()
	case "cut":
		c.c.Cut()
	case "resume":
		c.lead(c.c.Resume(c.now))
	default:
		c.t.Fatalf("unknown event %q", what)
	}
}

func (c *conversation) job(args []string) {
	o := map[string]string{"workers": "2", "slots": "2", "backup": "0", "rows": "8", "size": "2", "mode": "wait",
		"replicas": "1", "retries": "3", "epochs": "1", "owners": "2"}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		if _, ok := o[k]; !ok {
			c.t.Fatalf("unknown option %q", a)
		}
		o[k] = v
	}
	mode, err := ParseMode(o["mode"])
	if err != nil {
		c.t.Fatal(err)
	}
	n := func(k string) int { return c.number(o[k]) }
	*c = conversation{t: c.t, stopped: map[int]bool{}, out: c.out, queue: Queue{Total: int64(n("rows")), Size: int64(n("size"))},
		cfg: Config{Mode: mode, Workers: n("workers"), Slots: n("slots"), Backup: n("backup"), Replicas: n("replicas"),
			Retries: n("retries"), Epochs: int64(n("epochs")), PauseEpochs: true}}
	for r := range n("owners") {
		c.cfg.Owners = append(c.cfg.Owners, r)
	}
	if len(c.cfg.Owners) < c.cfg.Workers && c.cfg.Replicas == 1 {
		c.cfg.Replicas = c.cfg.Workers - len(c.cfg.Owners) + 1
	}
	c.owners = make([]*Owner, c.cfg.Workers)
	for r := range c.cfg.Workers {
		c.workers = append(c.workers, NewWorker(r, 0))
		if slices.Contains(c.cfg.Owners, r) {
			c.owners[r] = NewOwner(r, 0, Record{Queue: c.queue}, 0)
		}
	}
}

func (c *conversation) say(format string, args ...any) {
	fmt.Fprintf(&c.out, format+"\n", args...)
}

func (c *conversation) lead(out []Message, notes []Note) {
	for _, n := range notes {
		switch {
		case n.Record != nil && n.Event == Decided:
			c.say("lead: step %d counts slots %s, %d samples; %d late", n.Record.Step, slotsOf(n.Record), n.Record.Samples, n.Late)
		case n.Record != nil:
			c.say("lead: step %d: %s", n.Record.Step, [...]string{Finished: "applied by all", Idle: "paused", EpochEnd: "the epoch ends", Done: "all is done"}[n.Event])
		default:
			c.say("lead: %s", n.Text)
		}
	}
	c.send(out)
}

func slotsOf(r *Record) string {
	var s []string
	for _, p := range r.Pieces {
		s = append(s, fmt.Sprint(p.Slot))
	}
	return strings.Join(s, ",")
}

// send shows messages and puts them on their way. Asks, states, pulls and rows
// are shown only where the text lets them pass by name.
func (c *conversation) send(out []Message) {
	for _, m := range out {
		switch m.Kind {
		case Lease:
			c.say("  lease to %d: step %d slot %d attempt %d, rows %d + %d", m.To, m.Tag.Step, m.Tag.Slot, m.Tag.Attempt, m.Batch.First, m.Batch.Rows)
		case Cancel:
			c.say("  cancel to %d: step %d slot %d", m.To, m.Tag.Step, m.Tag.Slot)
		case Commit:
			c.say("  commit to %d: step %d slots %s", m.To, m.Record.Step, slotsOf(m.Record))
		case Push, Stale, Withdraw:
			c.say("  %v from %d to %d: step %d slot %d attempt %d", m.Kind, m.From, m.To, m.Tag.Step, m.Tag.Slot, m.Tag.Attempt)
		case Fenced:
			c.say("  fenced from %d: term %v rules", m.From, m.Rules)
		}
		c.flight = append(c.flight, m)
	}
}

func (c *conversation) outcome(who string, o Outcome, err error) {
	if err != nil {
		c.say("%s: error: %v", who, err)
	}
	switch o.Act {
	case Apply:
		c.say("%s applies step %d, slots %s", who, o.Record.Step, slotsOf(o.Record))
	case Abandon:
		c.say("%s gives up step %d slot %d", who, o.Tag.Step, o.Tag.Slot)
	case Discard:
		c.say("%s discards step %d slot %d attempt %d", who, o.Tag.Step, o.Tag.Slot, o.Tag.Attempt)
	}
	c.send(slices.Clone(o.Messages))
}

func (c *conversation) pass(how string, want []string) {
	match := func(s string, x string) bool { return s == "*" || s == x }
	for n := 0; ; n++ {
		i := slices.IndexFunc(c.flight, func(m Message) bool {
			return match(want[0], m.Kind.String()) && match(want[1], fmt.Sprint(m.From)) && match(want[2], fmt.Sprint(m.To)) &&
				(how == "lose" || !c.held(m))
		})
		if i < 0 || n > 1000 || how == "repeat" && n > 0 {
			return
		}
		m := c.flight[i]
		if how != "repeat" {
			c.flight = slices.Delete(c.flight, i, i+1)
		}
		if how != "lose" {
			c.deliver(m)
		}
	}
}

// held reports whether a message waits for a worker that is stopped.
func (c *conversation) held(m Message) bool {
	return m.To >= 0 && c.stopped[m.To] && slices.Contains([]Kind{Lease, Cancel, Rows, Stale}, m.Kind)
}

func (c *conversation) deliver(m Message) {
	switch {
	case m.To == Lead:
		if c.c.Term() == m.Tag.Term {
			c.lead(c.c.Receive(c.now, m))
		}
	case slices.Contains([]Kind{Lease, Cancel, Rows, Stale}, m.Kind):
		w := c.workers[m.To]
		if w == nil {
			return
		}
		o := w.Receive(m, 0)
		c.outcome(fmt.Sprintf("worker %d", m.To), o, nil)
		if o.Act == Compute {
			c.outcome("", w.Computed(o.Tag), nil)
		}
	case c.owners[m.To] != nil:
		o, err := c.owners[m.To].Receive(m)
		c.outcome(fmt.Sprintf("owner %d", m.To), o, err)
	}
}
