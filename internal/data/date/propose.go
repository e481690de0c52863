package date

import (
	"slices"
	"strings"
)

// Patterns returns the patterns by which people and logs may have written a date, such as
// %d/%m/%Y and %m/%d/%Y for 03/11/2024. If day and month could be exchanged, the more usual
// order is first. It returns nil if text is not a date, or a date in one of Guesses.
func Patterns(text string) []string {
	text = strings.TrimSpace(text)
	const shortest, longest = len("1.2.03"), 64
	if len(text) < shortest || len(text) > longest || strings.ContainsRune(text, '%') {
		return nil
	}
	day, rest := calendarPart(text)
	if day == nil {
		return nil
	}
	clock, ok := clockPart(rest)
	if !ok {
		return nil
	}
	var all []string
	for _, p := range day {
		p += clock
		if f, err := NewFormat(p); err == nil {
			if s, ok := f.Seconds([]byte(text)); ok && f.likely(s) {
				all = append(all, p)
			}
		}
	}
	return all
}

// calendarPart returns the patterns of the year, month and day at the beginning of a text,
// and the text after them.
func calendarPart(text string) (patterns []string, rest string) {
	var part, mark [3]string
	rest = text
	for i := range part {
		n := run(rest)
		if part[i], rest = rest[:n], rest[n:]; n == 0 || n > len("2024") {
			return nil, ""
		}
		if i < 2 {
			n = len(rest) - len(strings.TrimLeft(rest, "/.-, "))
			if mark[i], rest = rest[:n], rest[n:]; n == 0 || n > len(", ") {
				return nil, ""
			}
		}
	}
	for _, order := range calendarOrders(part, mark) {
		patterns = append(patterns, order[0]+mark[0]+order[1]+mark[1]+order[2])
	}
	return patterns, rest
}

// calendarOrders returns the meanings that three parts of a date with these marks after them
// may have.
func calendarOrders(part, mark [3]string) (all [][3]string) {
	year, named := "%y", slices.IndexFunc(part[:], isMonth)
	for i, s := range part {
		if i != named && (s[0] < '0' || s[0] > '9') {
			return nil
		}
		if len(s) == len("2024") {
			year = "%Y"
		}
	}
	switch {
	case named < 0 && (mark[0] != mark[1] || !strings.Contains("/.-", mark[0])):
		return nil
	case named == 1 && len(part[0]) == len("2024"):
		return [][3]string{{year, "%b", "%d"}}
	case named == 1:
		return [][3]string{{"%d", "%b", year}}
	case named == 0:
		return [][3]string{{"%b", "%d", year}}
	case named == 2 || len(part[1]) > 2:
		return nil
	case len(part[0]) > 2 && mark[0] != "-": // with hyphens it is ISO
		return [][3]string{{year, "%m", "%d"}}
	case len(part[0]) > 2:
		return nil
	}
	all = [][3]string{{"%d", "%m", year}, {"%m", "%d", year}}
	if mark[0] == "/" {
		slices.Reverse(all)
	}
	if year == "%y" {
		all = append(all, [3]string{year, "%m", "%d"})
	}
	return all
}

// isMonth reports whether a text is an abbreviation of a month.
func isMonth(s string) bool {
	i := strings.Index(months, strings.ToLower(s))
	return len(s) == 3 && i >= 0 && i%3 == 0
}

// run counts the digits or letters at the beginning of a text.
func run(s string) int {
	return len(s) - len(strings.TrimLeft(s, alike(s)))
}

// alike returns the digits, or the letters, if the text begins with one of them.
func alike(s string) string {
	const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	switch {
	case s != "" && strings.IndexByte(digits, s[0]) >= 0:
		return digits
	case s != "" && strings.IndexByte(letters, s[0]) >= 0:
		return letters
	}
	return ""
}

// clockPart returns the pattern of the time and zone after a date. Midnight is often left
// out.
func clockPart(text string) (pattern string, ok bool) {
	if text == "" {
		return "", true
	}
	n := len(text) - len(strings.TrimLeft(text, " ,:T"))
	pattern, text = text[:n], text[n:]
	if n == 0 {
		return "", false
	}
	for i, directive := range []string{"%H", ":%M", ":%S"} {
		if i > 0 && !strings.HasPrefix(text, ":") {
			break
		}
		text = strings.TrimPrefix(text, ":")
		if n := run(text); n == 0 || n > 2 || alike(text)[0] != '0' {
			return "", false
		}
		pattern, text = pattern+directive, text[run(text):]
	}
	if n := len(text) - len(strings.TrimLeft(text, ".,")); n == 1 && strings.HasSuffix(pattern, "%S") {
		pattern, text = pattern+text[:1]+"%f", text[1:]
		text = text[run(text):]
	}
	after := strings.TrimLeft(text, " ")
	blank := text[:len(text)-len(after)]
	if half := strings.ToUpper(after[:min(2, len(after))]); half == "AM" || half == "PM" {
		pattern = strings.Replace(pattern, "%H", "%I", 1) + blank + "%p"
		text = after[2:]
		after = strings.TrimLeft(text, " ")
		blank = text[:len(text)-len(after)]
	}
	if after != "" {
		pattern += blank + "%z"
	}
	return pattern, after != "" || blank == ""
}

// NewTallyOf returns a tally of Guesses, followed by patterns that some of the texts may be
// written in.
func NewTallyOf(texts []string) *Tally {
	const most = 16 // patterns
	t := &Tally{all: Guesses()}
	known := len(t.all)
	for _, s := range texts {
		if len(t.all) == known+most {
			break
		}
		if slices.ContainsFunc(t.all[known:], func(f Format) bool { _, ok := f.Seconds([]byte(s)); return ok }) {
			continue
		}
		for _, p := range Patterns(s) {
			if f, err := NewFormat(p); err == nil && len(t.all) < known+most {
				t.all = append(t.all, f)
			}
		}
	}
	t.Read = make([]int64, len(t.all))
	return t
}
