package stream

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// conversation runs a script with one command per line, and prints the answers below each:
//
//	folders NAME… most N idle SECONDS     a new stream
//	resume                                as after a kill: from the last position
//	forget                                the same, without the log of the spans
//	watch NAME…                           the same, with other folders
//	topics most N idle SECONDS [skip]     a new stream of topics of one letter
//	set skip                              for the next resume
//	marks TPARTITION:LOW-HIGH[@BEGIN][=ID][!GROUPID][/RESET]… [quiet=SECONDS]
//	look [FOLDER/]FILE=BYTES[@STAMP]… [ended FOLDER…] [quiet SECONDS]
type conversation struct {
	names   []string
	rules   Rules
	at      Position
	folders *Folders
	topics  *Topics
	past    []Position
	stamps  map[string]string // of the files of the last look
}

func (c *conversation) run(line string) string {
	words := strings.Fields(line)
	switch words[0] {
	case "watch":
		c.names = words[1:]
		return c.run("resume")
	case "forget":
		c.past = nil
		return c.run("resume")
	case "folders", "topics":
		*c = conversation{stamps: map[string]string{}}
		c.settings(words[1:])
		fallthrough
	case "resume":
		b, _ := json.Marshal(c.at)
		c.at = Position{}
		if err := json.Unmarshal(b, &c.at); err != nil {
			return err.Error()
		}
		if err := c.at.Validate(); err != nil {
			return err.Error()
		}
		c.topics = NewTopics(c.rules, c.at)
		var err error
		c.rules.Probe = c.probe
		if c.folders, err = NewFolders(c.rules, c.names, c.at, PastOf(c.past, c.at, strings.Clone)); err != nil {
			return err.Error()
		}
		return "ok"
	case "set":
		c.settings(words[1:])
		return "ok"
	case "look":
		return c.look(words[1:])
	case "marks":
		return c.marks(words[1:])
	}
	return "unknown command"
}

func (c *conversation) settings(words []string) {
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "most":
			i++
			c.rules.Most, _ = strconv.Atoi(words[i])
		case "idle":
			i++
			n, _ := strconv.Atoi(words[i])
			c.rules.Idle = time.Duration(n) * time.Second
		case "skip":
			c.rules.Skip = true
		default:
			c.names = append(c.names, words[i])
		}
	}
}

func (c *conversation) look(words []string) string {
	seen, quiet := make([]Seen, len(c.names)), time.Duration(0)
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "ended":
			i++
			seen[slices.Index(c.names, words[i])].Ended = true
		case "quiet":
			i++
			n, _ := strconv.Atoi(words[i])
			quiet = time.Duration(n) * time.Second
		default:
			name, rest, _ := strings.Cut(words[i], "=")
			bytes, stamp, _ := strings.Cut(rest, "@")
			n, _ := strconv.ParseInt(bytes, 10, 64)
			folder, _, _ := strings.Cut(name, "/")
			at := slices.Index(c.names, folder)
			seen[at].Files = append(seen[at].Files, File{name, n, stamp})
			c.stamps[name] = stamp
		}
	}
	v, err := c.folders.Next(seen, quiet)
	if err != nil {
		return err.Error()
	}
	c.at.Folders = c.folders.At()
	names := slices.Clone(v.Span)
	for i, p := range v.Parts {
		if p.Lo > 0 {
			names[i] += fmt.Sprintf("[%d:%d]", p.Lo, p.Hi)
		}
	}
	answer := c.say(names, v.End)
	if len(v.Span) > 0 {
		at := c.at.Clone()
		at.Span, at.Parts = v.Span, v.Parts
		c.past = append(c.past, at)
	}
	return strings.Join(append(v.Reports, answer), "\n=> ")
}

// probe derives the content of a file from the last letter of its stamp. A file packed.gz
// cannot be read further, and one of an odd number of bytes ends inside a line.
func (c *conversation) probe(name string, bytes int64) (Probe, error) {
	content := uint64(bytes)
	if at := c.stamps[name]; at != "" && at[len(at)-1] >= 'a' && bytes > 0 {
		content += uint64(at[len(at)-1]) << 32
	}
	return Probe{content, !strings.HasSuffix(name, ".gz"), bytes%2 == 1}, nil
}

func (c *conversation) marks(words []string) string {
	var marks []Mark
	quiet := time.Duration(0)
	for _, w := range words {
		var m Mark
		if n, err := fmt.Sscanf(w, "quiet=%d", &m.Low); n == 1 && err == nil {
			quiet = time.Duration(m.Low) * time.Second
			continue
		}
		w, reset, _ := strings.Cut(w, "/")
		w, of, grouped := strings.Cut(w, "!")
		w, m.ID, _ = strings.Cut(w, "=")
		if m.Topic = w[:1]; grouped {
			m.Group, m.GroupID, m.Reset = "g", of, Reset(reset)
		}
		fmt.Sscanf(w[1:], "%d:%d-%d@%d", &m.Number, &m.Low, &m.High, &m.Begin)
		marks = append(marks, m)
	}
	v, err := c.topics.Next(marks, quiet)
	if err != nil {
		return err.Error()
	}
	c.at.Partitions = c.topics.At()
	var names []string
	for _, r := range v.Span {
		names = append(names, fmt.Sprintf("%s%s%d:%d-%d", r.Topic, r.ID, r.Number, r.Lo, r.Hi))
	}
	if v.Lost > 0 {
		v.Reports = append(v.Reports, fmt.Sprintf("lost %d", v.Lost))
	}
	return strings.Join(append(v.Reports, c.say(names, v.End)), "\n=> ")
}

func (c *conversation) say(span []string, end string) string {
	switch {
	case end != "":
		return "end: " + end
	case len(span) == 0:
		return "wait"
	}
	c.at.Spans++
	return fmt.Sprintf("span %d: %s", c.at.Spans, strings.Join(span, " "))
}

// TestConversations: scripts in testdata with their answers.
func TestConversations(t *testing.T) {
	for _, name := range []string{"folders.txt", "topics.txt"} {
		b, err := os.ReadFile("testdata/" + name)
		fatal.If(t, err)
		var out strings.Builder
		var c conversation
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "=> ") {
				continue
			}
			out.WriteString(line)
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				fmt.Fprintf(&out, "=> %s\n", c.run(line))
			}
		}
		golden.Check(t, name, out.String())
	}
}

// TestEveryFileOnce: if names ascend, every file is taken once and in order, in any
// sequence of looks and resumes.
func TestEveryFileOnce(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rules := Rules{Most: 1 + rng.IntN(4), Probe: probeNothing}
		f, err := NewFolders(rules, []string{"in"}, Position{}, Past{})
		fatal.If(t, err)
		var want, got []string
		var there []File
		for n := 0; n < 40 || len(got) < len(want); n++ {
			if n < 40 && rng.IntN(2) == 0 {
				name := fmt.Sprintf("in/%03d", n)
				bytes := int64(rng.IntN(3)) // 0: no more
				there = append(there, File{name, bytes, fmt.Sprint(n)})
				if bytes > 0 {
					want = append(want, name)
				}
			}
			if rng.IntN(5) == 0 { // killed
				if f, err = NewFolders(rules, []string{"in"}, Position{Folders: f.At()}, Past{}); err != nil {
					t.Fatal(err)
				}
			}
			look := slices.Clone(there)
			rng.Shuffle(len(look), func(i, j int) { look[i], look[j] = look[j], look[i] })
			v, err := f.Next([]Seen{{Files: look}}, 0)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			got = append(got, v.Span...)
			if n > 1000 {
				t.Fatalf("seed %d: got %v, want %v", seed, got, want)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}

// FuzzPosition: a position from a checkpoint is rejected or can be used; no look makes the
// decisions panic.
func FuzzPosition(f *testing.F) {
	f.Add([]byte(`{"spans":2,"span":["in/b"],"folders":[{"name":"in","last":"in/b","files":2,"digest":7}]}`), "in/b", int64(3), int64(9))
	f.Add([]byte(`{"spans":1,"partitions":[{"topic":"t","number":0,"next":5},{"topic":"t","number":1,"next":0}]}`), "t", int64(0), int64(7))
	f.Add([]byte(`{"spans":2,"span":["new"],"parts":[{"lo":1,"hi":3,"digest":7}],"folders":[{"name":"in","last":"new","files":1}]}`), "new", int64(2), int64(9))
	f.Add([]byte(`{"spans":1,"partitions":[{"topic":"t","number":0,"next":5,"id":"A"}]}`), "t", int64(0), int64(7))
	f.Add([]byte(`{"spans":-1}`), "", int64(-1), int64(-2))
	f.Fuzz(func(t *testing.T, b []byte, name string, lo, hi int64) {
		var p Position
		if json.Unmarshal(b, &p) != nil || p.Validate() != nil {
			return
		}
		again, err := json.Marshal(p)
		fatal.If(t, err)
		var q Position
		if err := json.Unmarshal(again, &q); err != nil || q.Validate() != nil {
			t.Fatalf("%+v reads back as %+v: %v", p, q, err)
		}
		if again2, _ := json.Marshal(q.Clone()); !reflect.DeepEqual(again, again2) {
			t.Fatalf("%s reads back as %s", again, again2)
		}
		names := []string{"new"}
		for _, x := range p.Folders {
			names = append(names, x.Name)
		}
		if f, err := NewFolders(Rules{Most: 2, Probe: probeNothing}, names, p, PastOf([]Position{p}, p, strings.Clone)); err == nil {
			seen := make([]Seen, len(names))
			seen[0].Files = []File{{name, lo, ""}, {name + "x", hi, ""}}
			for range 2 {
				if v, err := f.Next(seen, 0); err != nil || v.Span != nil {
					break
				}
			}
		}
		topics := NewTopics(Rules{Most: 3, Skip: lo%2 == 0}, p)
		marks := []Mark{{Topic: name, Low: lo, High: hi}}
		for _, x := range p.Partitions {
			marks = append(marks, Mark{Topic: x.Topic, Number: x.Number, Low: min(lo, x.Next), High: max(hi, x.Next)})
		}
		if v, err := topics.Next(marks, 0); err == nil {
			for _, r := range v.Span {
				if r.Lo >= r.Hi || r.Hi-r.Lo > 3 {
					t.Fatalf("range %+v", r)
				}
			}
		}
	})
}

func probeNothing(string, int64) (Probe, error) { return Probe{}, nil }

// TestOpenTransaction: a transaction that holds up a partition is reported once, and not while others come
// and go.
func TestOpenTransaction(t *testing.T) {
	topics := NewTopics(Rules{}, Position{})
	look := func(high, written int64) Ranges {
		v, err := topics.Next([]Mark{{Topic: "t", High: high, Written: written}, {Topic: "t", Number: 1, High: 3, Written: 3}}, time.Hour)
		fatal.If(t, err)
		return v
	}
	for high := range int64(3 * heldLooks) { // each is complete at the next look
		if v := look(high+1, high+2); len(v.Reports) > 0 {
			t.Fatalf("%q", v.Reports)
		}
	}
	const high = 3 * heldLooks
	var reports []string
	for range 3 * heldLooks {
		reports = append(reports, look(high, high+15).Reports...)
	}
	if want := "the records 90 to 104 cannot be read yet: a transaction is open since offset 90 (high watermark 105, last stable offset 90)"; len(reports) != 1 || !strings.Contains(reports[0], want) {
		t.Errorf("%q, want once %q", reports, want)
	}
	if v := look(high+15, high+15); len(v.Span) != 1 || v.Span[0].Lo != high {
		t.Errorf("after its end: %+v", v)
	}
}

// TestLags: what a look leaves in a partition is its lag.
func TestLags(t *testing.T) {
	s := NewTopics(Rules{Most: 10}, Position{})
	for _, x := range []struct{ high, want int64 }{{4, 0}, {30, 16}, {30, 6}, {30, 0}, {31, 0}} {
		_, err := s.Next([]Mark{{Topic: "a", Number: 1, High: x.high}}, 0)
		fatal.If(t, err)
		if got := s.Lags(); !slices.Equal(got, []Lag{{"a", 1, x.want}}) {
			t.Errorf("%+v of %d records, want %d", got, x.high, x.want)
		}
	}
}
