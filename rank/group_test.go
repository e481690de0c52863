package rank

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// TestConversations runs the files in testdata. Lines that begin with "> " are events. The lines
// below each event are the answers of the group. -rewrite rewrites the answers.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/group_*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations found", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(path)
			fatal.If(t, err)
			c := conversation{t: t}
			for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
				switch {
				case strings.HasPrefix(line, "> "):
					c.out.WriteString(line + "\n")
					c.event(splitWords(line[2:]))
				case line == "" || strings.HasPrefix(line, "#"):
					c.out.WriteString(line + "\n")
				}
			}
			golden.Check(t, filepath.Base(path), c.out.String())
		})
	}
}

// conversation runs one file.
type conversation struct {
	t    *testing.T
	g    *Group
	size int
	now  time.Duration
	last map[int]Status
	out  strings.Builder
}

// splitWords splits a line at spaces outside double quotes.
func splitWords(s string) (words []string) {
	quoted := false
	for _, w := range strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	}) {
		words = append(words, strings.ReplaceAll(w, `"`, ""))
	}
	return words
}

// options parses words of the form name=value. A word without a value has the value "true".
func options(words []string) map[string]string {
	o := map[string]string{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			value = "true"
		}
		o[name] = value
	}
	return o
}

func (c *conversation) number(s string, absent int) int {
	if s == "" {
		return absent
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *conversation) duration(s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

func (c *conversation) event(words []string) {
	what, words := words[0], words[1:]
	if what == "group" {
		o := options(words)
		c.size, c.now, c.last = c.number(o["size"], 1), 0, map[int]Status{}
		c.g = NewGroup(GroupConfig{Size: c.size, Generation: c.number(o["generation"], 0), Version: o["version"],
			Timeout: c.duration(o["timeout"]), Silence: c.duration(o["silence"]), Settle: c.duration(o["settle"]), Ends: c.duration(o["ends"]), Processes: o["processes"] != ""})
		return
	}
	if what == "stop" {
		c.now += c.duration(words[0])
		return
	}
	if what == "wait" || what == "sleep" {
		c.pass(what, c.duration(words[0]), options(words[1:]))
		return
	}
	rank, o := c.number(words[0], 0), options(words[1:])
	switch what {
	case "start":
		c.g.Started(c.now, rank, cmp.Or(o["host"], "a"), c.number(o["pid"], 100+rank))
	case "join":
		host := "a"
		if o["host"] != "" {
			host = o["host"]
		}
		d, err := c.g.Join(c.now, Member{Rank: rank, Size: c.number(o["size"], c.size), Generation: c.number(o["generation"], 0),
			Version: o["version"], Host: host, Pid: c.number(o["pid"], 100+rank), Addr: fmt.Sprintf("a:%d", 9000+rank)})
		if err != nil {
			fmt.Fprintf(&c.out, "refused: %v\n", err)
		}
		c.answer(d)
	case "beat":
		c.last[rank] = c.status(o)
		c.g.Beat(c.now, rank, c.last[rank])
	case "fail":
		c.answer(c.g.Fail(c.now, rank, o["cause"], c.number(o["blamed"], -1), c.status(o)))
	case "still": // a message of the rank makes no progress; the calls that the rank has begun
		w := Wait{Peer: c.number(o["peer"], 0), Sends: o["sends"] != "", Message: uint64(c.number(o["message"], 1)), For: c.duration(o["for"])}
		c.g.Traffic(c.now, rank, Traffic{Waits: []Wait{w}, Begun: c.begun(o)})
	case "calls": // the calls that the rank reports
		c.g.Traffic(c.now, rank, Traffic{Calls: c.calls(words[1:])})
	case "begun":
		c.g.Traffic(c.now, rank, Traffic{Begun: c.begun(o)})
	case "drop":
		c.answer(c.g.Disconnected(c.now, rank))
	case "exit":
		c.answer(c.g.Exited(c.now, rank, c.number(o["code"], 0), c.number(o["signal"], 0), o["why"]))
	case "done":
		c.answer(c.g.Done(c.now, rank))
	default:
		c.t.Fatalf("unknown event %q", what)
	}
}

// calls parses words such as 7:Barrier, 2/1:Barrier for a call in part 2, or 2/0 for a part
// without calls. The last word is the call that the rank began last.
func (c *conversation) calls(words []string) (all []Call) {
	for i, w := range words {
		place, name, _ := strings.Cut(w, ":")
		seq, part := place, "0"
		if p, s, ok := strings.Cut(place, "/"); ok {
			seq, part = s, p
		}
		h := fnv.New64a()
		h.Write([]byte(name))
		name = strings.TrimSuffix(name, "*") // the rank has other costs
		all = append(all, Call{Part: uint32(c.number(part, 0)), Seq: uint64(c.number(seq, 0)), Hash: h.Sum64(), Name: name, Last: i == len(words)-1})
	}
	return all
}

func (c *conversation) begun(o map[string]string) []Begun {
	quiet := time.Hour
	if o["quiet"] != "" {
		quiet = c.duration(o["quiet"])
	}
	return []Begun{{Quiet: quiet, Peer: c.number(o["with"], 0), Sent: uint64(c.number(o["sent"], 0)), Received: uint64(c.number(o["received"], 0))}}
}

func (c *conversation) status(o map[string]string) Status {
	return Status{Phase: o["phase"], Step: int64(c.number(o["step"], 0)), Waits: o["waits"] != "",
		Position: o["position"], Progress: int64(c.number(o["progress"], 0))}
}

// pass advances the time with a tick every 50 ms, or as how requires. Ranks in "beating" repeat
// their last heartbeat. When asleep, only one tick occurs at the end. When stopped, none occurs.
func (c *conversation) pass(how string, d time.Duration, o map[string]string) {
	if how == "sleep" {
		c.now += d
		c.answer(c.g.Tick(c.now))
		return
	}
	every := 50 * time.Millisecond
	if o["every"] != "" {
		every = c.duration(o["every"])
	}
	for end := c.now + d; c.now < end; {
		c.now += every
		if b := o["beating"]; b != "" && c.now%time.Second == 0 {
			for r := range strings.SplitSeq(b, ",") {
				rank := c.number(r, 0)
				c.g.Beat(c.now, rank, c.last[rank])
			}
		}
		c.answer(c.g.Tick(c.now))
	}
}

func (c *conversation) answer(d Decision) {
	at := fmt.Sprintf("%.2fs ", c.now.Seconds())
	switch d.Act {
	case Form:
		c.out.WriteString(at + "form:")
		for _, m := range d.Members {
			fmt.Fprintf(&c.out, " %d=%s", m.Rank, m.Addr)
		}
		c.out.WriteString("\n")
	case Condemn:
		fmt.Fprintf(&c.out, "%sverdict: %s\n", at, d.Verdict)
		for _, o := range d.Verdict.Others {
			fmt.Fprintf(&c.out, "  %s\n", o)
		}
	case Finish:
		c.out.WriteString(at + "finish\n")
	case Ask:
		c.out.WriteString(at + "ask\n")
	case Tell:
		c.out.WriteString(at + "word: " + d.Word + "\n")
	}
}

// TestForGood: the verdict distinguishes an error that would occur again from all others. Such
// an error is not the fault of the rank, so it takes precedence.
func TestForGood(t *testing.T) {
	for blamed, want := range map[int]bool{ForGood: true, Own: false, 0: false} {
		g := NewGroup(GroupConfig{Size: 1})
		if _, err := g.Join(0, Member{Rank: 0, Size: 1}); err != nil {
			t.Fatal(err)
		}
		if d := g.Fail(1, 0, "no such file", blamed, Status{Phase: "scan"}); d.Verdict == nil || d.Verdict.Kind != Failed || d.Verdict.Permanent != want {
			t.Errorf("blamed %d: %+v", blamed, d.Verdict)
		} else if got := d.Verdict.String(); want && got != "no such file" || !want && got != "rank 0 failed in phase scan, step 0: no such file" {
			t.Errorf("blamed %d: %s", blamed, got)
		}
	}
}

// TestOnOneHostTheRankDoesNotMatter: an error that a restart would repeat, such as a faulty record, is
// reported without the ranks that met it if they are on one host.
func TestOnOneHostTheRankDoesNotMatter(t *testing.T) {
	for hosts, want := range map[string]string{
		"aa": "a.csv:7: no number",
		"ab": "a.csv:7: no number; reported by rank 0 (host a, pid 40) in phase scan, step 0; 1 other rank failed too",
	} {
		g := NewGroup(GroupConfig{Size: 2})
		for r := range 2 {
			if _, err := g.Join(0, Member{Rank: r, Size: 2, Host: hosts[r : r+1], Pid: 40 + r}); err != nil {
				t.Fatal(err)
			}
		}
		g.Fail(1, 0, "a.csv:7: no number", ForGood, Status{Phase: "scan"})
		d := g.Fail(1, 1, "a.csv:7: no number", ForGood, Status{Phase: "scan"})
		if d.Verdict == nil {
			d = g.Tick(time.Minute)
		}
		if d.Verdict == nil || d.Verdict.String() != want || len(d.Verdict.Others) != strings.Count(want, "failed too") {
			t.Errorf("hosts %s: %v\nwant %s", hosts, d.Verdict, want)
		}
	}
}

// TestHintsOfSignals: only a signal that ends a process with a stack refers to one.
func TestHintsOfSignals(t *testing.T) {
	for signal, want := range map[syscall.Signal]string{
		syscall.SIGKILL: "out of memory", syscall.SIGTERM: "another process", syscall.SIGINT: "another process", syscall.SIGHUP: "another process", syscall.SIGSEGV: "for a stack",
	} {
		if hint := (&Verdict{Kind: Killed, Signal: int(signal)}).Hint(); !strings.Contains(hint, want) {
			t.Errorf("%v: %q, want %q", signal, hint, want)
		}
	}
}

// TestHostLost: a host that is lost with its ranks is one cause, whatever the ranks and their
// peers reported before the launcher learned of the loss.
func TestHostLost(t *testing.T) {
	g := NewGroup(GroupConfig{Size: 4, Processes: true})
	for r := range 4 {
		host := string("ab"[r/2])
		g.Started(0, r, host, 40+r)
		if _, err := g.Join(0, Member{Rank: r, Size: 4, Host: host, Pid: 40 + r}); err != nil {
			t.Fatal(err)
		}
	}
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	g.Disconnected(at(10), 3)
	g.Fail(at(11), 0, "link: reset", 2, Status{})
	g.Fail(at(12), 2, "link: timeout", 1, Status{Phase: "exchange", Step: 7})
	g.HostLost(at(50), "b", []int{2, 3}, "ssh ended with exit code 255")
	var v *Verdict
	for ms := 60; v == nil && ms < 4000; ms += 10 {
		v = g.Tick(at(ms)).Verdict
	}
	want := "host b (ranks 2, 3) was lost in phase exchange, step 7, last seen: ssh ended with exit code 255"
	if v == nil || !strings.HasPrefix(v.String(), "host b (ranks 2, 3) was lost") || !strings.Contains(v.String(), "ssh ended with exit code 255") || strings.Contains(v.String(), "rank 3") || v.Kind != Lost || v.Code != 0 {
		t.Errorf("got  %v\nwant %s", v, want)
	}
	if v != nil && (len(v.Others) != 0 || !strings.Contains(v.Hint(), "host is up")) {
		t.Errorf("others %q, hint %q", v.Others, v.Hint())
	}
}

// TestSilentHost: if all ranks of a host become silent at once, the host is the cause. If
// another rank of the host is not silent, or the rank is the only one of its host, the rank is
// the cause.
func TestSilentHost(t *testing.T) {
	for _, x := range []struct {
		hosts  string // the host of each rank
		silent []int
		want   string
	}{
		{"aabb", []int{2, 3}, "host b (ranks 2, 3) has been silent for "},
		{"aabb", []int{3}, "rank 3 (host b, pid 43) has been silent for "},
		{"aaab", []int{3}, "rank 3 (host b, pid 43) has been silent for "},
		{"aaaa", []int{2, 3}, "rank 2 (host a, pid 42) has been silent for "},
	} {
		g := NewGroup(GroupConfig{Size: 4})
		for r := range 4 {
			if _, err := g.Join(0, Member{Rank: r, Size: 4, Host: x.hosts[r : r+1], Pid: 40 + r}); err != nil {
				t.Fatal(err)
			}
		}
		var v *Verdict
		for ms := 10; v == nil && ms < 9000; ms += 10 {
			now := time.Duration(ms) * time.Millisecond
			for r := range 4 {
				if ms%150 == 10*r && (ms < 1000 || !slices.Contains(x.silent, r)) {
					g.Beat(now, r, Status{Step: int64(ms), Phase: "compute"})
				}
			}
			v = g.Tick(now).Verdict
		}
		if v == nil || !strings.HasPrefix(v.String(), x.want) || v.Together != "" && v.Folded != 0 {
			t.Errorf("%s, %d silent: got %v, want %s", x.hosts, x.silent, v, x.want)
		}
	}
}
