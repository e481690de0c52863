package rank

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/text/cut"
)

// maxLine bounds a line of the list. The output of the rank has the full message.
const maxLine = 200

// others lists the signs of the ranks except the root: one line for each distinct message,
// with all ranks that have it. It omits connections that were lost because the root ended,
// failed or fell silent, which the verdict's line counts, and a report that the verdict
// quotes.
func (g *Group) others(root int, v *Verdict) []string {
	var texts []string
	by := map[string][]int{}
	for i := range g.states {
		o := &g.states[i]
		k := o.sign()
		if i == root || k == "" || v.Together != "" && o.member.Host == v.Host || v.Kind != Blamed && (k == Blamed || k == Lost) || v.repeats(o) {
			continue
		}
		text := o.shows()
		if k == Failed && v.Kind == Failed && o.cause == v.Cause {
			text = "failed with the same cause"
		}
		if by[text] == nil {
			if len(texts) == MaxOthers {
				continue
			}
			texts = append(texts, text)
		}
		by[text] = append(by[text], i)
	}
	var lines []string
	for _, text := range texts {
		if who := by[text]; v.Kind != Blamed || !slices.Equal(who, []int{g.accuser(root)}) {
			lines = append(lines, list(who)+" "+text)
		}
	}
	return lines
}

// shows returns the strongest sign of a rank, in the form that follows a list of ranks.
func (s *rankState) shows() string {
	switch s.sign() {
	case Failed:
		return "failed: " + short(s.cause)
	case Killed:
		return fmt.Sprintf("ended by signal %d (%s)", s.signal, name(s.signal))
	case Exited:
		return fmt.Sprintf("ended with exit code %d", s.code)
	case Blamed:
		return fmt.Sprintf("lost the connection to rank %d: %s", s.blamed, innermost(s.blame))
	case Lost:
		return "lost the connection to the coordinator"
	case Silent:
		return "fell silent"
	}
	return "made no progress"
}

// innermost returns the last part of an error with nested causes: the failure of the link,
// without the collective call.
func innermost(cause string) string {
	if i := strings.LastIndex(cause, ": "); i >= 0 {
		cause = cause[i+2:]
	}
	return short(cause)
}

// short returns the first line of a text, cut to maxLine bytes at a character boundary.
func short(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return cut.To(maxLine, text)
}
