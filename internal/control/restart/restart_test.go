package restart

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// TestConversations runs testdata/restarts.txt: "> job size=4 min=3", "> wait 5m",
// "> step 10", "> fail 2 [held]", "> host b 2 3 [free]", "> absent b 2 3 [free]" (b does not answer;
// "-" for all hosts), "> leave b,c 2 3 [free]" (they end their ranks in order), "> unfit 1 3" (the job cannot run
// with its ranks; these are left out first), "> resize SIZE MIN".
func TestConversations(t *testing.T) {
	b, err := os.ReadFile("testdata/restarts.txt")
	fatal.If(t, err)
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		fatal.If(t, err)
		return n
	}
	var out strings.Builder
	var p *Policy
	now := time.Duration(0)
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		if line == "" || line[0] == '#' || line[0] == '>' {
			fmt.Fprintln(&out, line)
		}
		if !strings.HasPrefix(line, "> ") {
			continue
		}
		switch words := strings.Fields(line[2:]); words[0] {
		case "job":
			c, wait := Config{Seed: 1}, 0
			for _, w := range words[1:] {
				k, v, _ := strings.Cut(w, "=")
				*map[string]*int{"size": &c.Size, "min": &c.Min, "least": &c.Least, "budget": &c.Budget, "wait": &wait}[k] = number(v)
			}
			c.Wait = time.Duration(wait) * time.Second
			p, now = New(c), 0
		case "wait":
			d, err := time.ParseDuration(words[1])
			fatal.If(t, err)
			now += d
		case "step":
			p.Progress(int64(number(words[1])))
		case "host", "absent", "leave":
			free, ranks := words[len(words)-1] == "free", numbers(t, words[2:])
			var v Recovery
			switch words[0] {
			case "host":
				v = p.HostFailed(now, words[1], ranks, free)
			case "leave":
				v = p.HostsLeft(strings.Split(words[1], ","), ranks, free)
				v.Text = fmt.Sprintf("%s [%d ranks in %v]", v.Text, len(v.Ranks), v.After.Round(time.Millisecond))
			default:
				v = p.Unreached(now, strings.Trim(words[1], "-"), ranks, free, "connection refused")
				now += v.After
				v.Text = fmt.Sprintf("%s [%d ranks in %v]", v.Text, len(v.Ranks), v.After.Round(time.Millisecond))
			}
			if fmt.Fprintln(&out, v.Text); v.Exclude != "" {
				fmt.Fprintln(&out, "exclude", v.Exclude)
			}
		case "absents": // a host that never answers
			now = neverAnswers(p, now, words[1], &out)
		case "unfit":
			v, ok := p.Unfit(numbers(t, words[1:]))
			fmt.Fprintf(&out, "%s %v [%t]\n", v.Text, v.Ranks, ok)
		case "resize":
			p.Resize(number(words[1]), number(words[2]))
		case "fail":
			fmt.Fprintln(&out, p.Failed(now, number(words[1]), len(words) > 2).Text)
		}
	}
	golden.Check(t, "restarts.txt", out.String())
}

// numbers parses the numbers of ranks.
func numbers(t *testing.T, words []string) (ranks []int) {
	for _, w := range words {
		if w != "free" {
			n, err := strconv.Atoi(w)
			fatal.If(t, err)
			ranks = append(ranks, n)
		}
	}
	return ranks
}

// neverAnswers asks for restarts until the job gives up, and counts attempts and messages.
func neverAnswers(p *Policy, now time.Duration, host string, out *strings.Builder) time.Duration {
	for texts, tries := 0, 1; ; tries++ {
		v := p.Unreached(now, host, nil, false, "connection refused")
		if v.Text != "" {
			texts++
		}
		if v.Plan == GiveUp {
			fmt.Fprintf(out, "%s [%d attempts, %d messages, %v]\n", v.Text, tries, texts, now.Round(time.Second))
			return now
		}
		now += v.After
	}
}
