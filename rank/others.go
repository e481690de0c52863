package rank

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxLine bounds a folded line: it tells what happened; the output of the rank
// has the rest.
const maxLine = 200

// others says what the ranks other than the root have shown, a line for each
// distinct text with all ranks that share it. Connections lost when the root
// ended, failed or fell silent are its consequence: the verdict's own line
// counts them, and they have no line here; nor has a report that it quotes.
func (g *Group) others(root int, v *Verdict) []string {
	var texts []string
	by := map[string][]int{}
	for i := range g.seats {
		o := &g.seats[i]
		k := o.sign()
		if i == root || k == "" || v.Together != "" && o.member.Host == v.Host || v.Kind != Blamed && (k == Blamed || k == Lost) {
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

// shows is the strongest thing a rank has shown, to follow its name or those of
// several.
func (s *seat) shows() string {
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

// innermost is the last part of an error that says where within where: what a
// link met, without the collective that it served.
func innermost(cause string) string {
	if i := strings.LastIndex(cause, ": "); i >= 0 {
		cause = cause[i+2:]
	}
	return short(cause)
}

// short cuts a text at maxLine bytes, not within a character, and at its first
// line's end.
func short(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) <= maxLine {
		return text
	}
	n := maxLine
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
