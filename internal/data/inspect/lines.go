package inspect

import (
	"bytes"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/record"
)

// sampled are non-blank lines of a file, with their offsets.
type sampled struct {
	lines   []string
	offsets []int64
}

// arranged returns the lines with their fields in another order. Lines of another width stay as they are.
func (x sampled) arranged(order *record.Arranged) sampled {
	y := sampled{make([]string, len(x.lines)), x.offsets}
	for i, line := range x.lines {
		text, _ := order.Line([]byte(line))
		y.lines[i] = string(text)
	}
	return y
}

// someLines returns lines of each file; for the first, from its beginning.
func someLines(s *record.Sample) ([]sampled, error) {
	for i := range s.Files {
		if err := s.Files[i].Begin("csv or tsv"); err != nil {
			return nil, err
		}
	}
	return sample(s, record.LinesOf(func(line []byte) bool { return len(bytes.TrimSpace(line)) > 0 }))
}

// sample reads the records of a sample, and one more for a header.
func sample(s *record.Sample, r record.Records) ([]sampled, error) {
	all := make([]sampled, len(s.Files))
	s.Rows++
	defer func() { s.Rows-- }()
	err := s.Units(r, func(file int, u record.Unit) error {
		x := &all[file]
		x.lines, x.offsets = append(x.lines, string(u.Record)), append(x.offsets, u.Offset)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// uncomment removes the comments at the beginning of files, and returns their mark.
func uncomment(all []sampled) (mark string) {
	for i := range all {
		x := &all[i]
		m, n := comments(x.lines)
		if m == "" || mark != "" && m != mark {
			continue
		}
		others := func(x sampled) bool {
			return slices.ContainsFunc(x.lines, func(s string) bool { return strings.HasPrefix(s, m) })
		}
		if i > 0 && mark == "" && slices.ContainsFunc(all[:i], others) {
			continue // those are records
		}
		mark, x.lines, x.offsets = m, x.lines[n:], x.offsets[n:]
	}
	return mark
}

// comments counts the first lines that start with a mark that no later line starts with.
func comments(all []string) (mark string, n int) {
	for _, m := range []string{"#", "//", "|", "%"} {
		n := 0
		for n < len(all) && strings.HasPrefix(all[n], m) {
			n++
		}
		if n > 0 && n < len(all) && !slices.ContainsFunc(all[n:], func(s string) bool { return strings.HasPrefix(s, m) }) {
			return m, n
		}
	}
	return "", 0
}
