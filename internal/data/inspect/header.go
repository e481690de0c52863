package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// oneHeader returns the error of files whose headers differ, which readers reject.
func (in *Inspection) oneHeader(s *record.Sample) error {
	all := record.Set{Source: in.Source(), Files: s.Files}
	all.Format = record.NewFormat(all.Source)
	for i := range all.Files {
		if err := all.Look(i); err != nil {
			return err
		}
	}
	return nil
}

// arrange gives the lines of files whose headers differ the columns of all of them, in one order.
func (in *Inspection) arrange(s *record.Sample, all []sampled) {
	first := *in // what it finds about the first file is found again of all files
	if records := first.split(all[0].lines, 0); len(all) == 1 || len(records) == 0 {
		return
	} else if _, _, err := first.named(records); err != nil || !first.Header {
		return
	}
	set := record.Set{Source: first.Source()}
	form := record.NewDelimited(set.Source)
	set.Format = form
	of := make([]int, 0, len(all)) // of files with a header, their index
	for i := range s.Files {
		set.Files = append(set.Files, s.Files[i])
		switch err := set.Look(len(of)); {
		case errors.Is(err, record.ErrNoLine):
			set.Files = set.Files[:len(of)]
		case err != nil:
			return // a file of another kind, which is reported below
		default:
			of = append(of, i)
		}
	}
	header := strings.Join(set.Fields, string(form.Delim))
	for i, file := range of {
		own, x := set.ColumnsOf(i), &all[file]
		if order := record.NewArranged(form, own, set.Fields); order != nil && len(x.lines) > 0 {
			top := first.split(x.lines[:1], 0)
			*x = x.arranged(order)
			if len(top) == 1 && slices.Equal(headerNames(top[0]), own) {
				x.lines[0] = header
			}
		}
	}
	in.Notes = append(in.Notes, set.Partial(set.Fields)...)
}

// named is names, with repetitions of the header removed from the records, as in
// concatenated files.
func (in *Inspection) named(records [][]string) (_ [][]string, names []string, err error) {
	again := func(r []string) bool { return slices.Equal(r, records[0]) }
	once := append(records[:1:1], slices.DeleteFunc(slices.Clone(records[1:]), again)...)
	if names, err = in.names(once); in.Header || len(once) == len(records) {
		return once, names, err
	}
	names, err = in.names(records)
	return records, names, err
}

// names decides whether the first record is a header. All its fields must differ, and none may be
// missing or a number, except that some names may be integers or words for no number (see oddlyNamed).
// In addition, one of these must be true:
//
//   - A column below it is numeric.
//   - A field has the name of a label.
//   - None of its fields occurs in another record, but fields of other records recur.
//   - There is no other record.
func (in *Inspection) names(records [][]string) ([]string, error) {
	first := records[0]
	seen, numbers, twice := map[string]bool{}, false, ""
	first = headerNames(first)
	for i, s := range first {
		if seen[s] {
			twice = s
		}
		seen[s] = true
		numbers = numbers || IsLabelName(s) || kindOf(valuesOf(records[1:], i)) != "string"
	}
	switch in.Header = oddlyNamed(records) || mayBeHeader(records[0]) && (numbers || len(records) == 1 || isUnlike(records)); {
	case in.Header && twice != "":
		return nil, fmt.Errorf("its header names %s twice; rename one, or if this line is a record, say so with -config FILE (data.header: false)", strconv.Quote(string(record.CutLong([]byte(twice)))))
	case in.Header:
		return first, nil
	case in.isCriteo(records):
		in.Format = "criteo"
		return schema.CriteoFields(), nil
	}
	names := make([]string, len(first))
	for i := range names {
		names[i] = fmt.Sprintf("column_%d", i+1)
	}
	return names, nil
}

// oddlyNamed reports whether the first record is a header in which some names are integers, such as the
// numbers of slots, or words that elsewhere mean a missing or infinite value, such as nan, inf and null:
// the others are words, of which several, or one with the name of a label, head columns of numbers.
func oddlyNamed(records [][]string) bool {
	const several = 2
	heads, odd, seen := 0, 0, map[string]bool{}
	for i, s := range records[0] {
		if s == "" || seen[s] {
			return false
		}
		seen[s] = true
		if _, ok := value.ParseID([]byte(s)); ok && s[0] != '-' || slices.Contains(missingWords, s) || infinity().MatchString(s) {
			odd++
			continue
		}
		below := valuesOf(records[1:], i)
		switch numbers := len(below) > 0 && kindOf(below) != "string"; {
		case kindOf([]string{s}) != "string":
			return false // a number with a fraction or a sign
		case numbers && IsLabelName(s):
			heads += several
		case numbers:
			heads++
		}
	}
	return odd > 0 && heads >= several
}

// headerNames returns the names of the fields of a header.
func headerNames(header []string) []string {
	names := make([]string, len(header))
	for i, s := range header {
		names[i] = record.FieldName(s, i)
	}
	return names
}

// mayBeHeader reports whether no field of a record is a number or missing. The first may
// be empty, as for the index of pandas, and so may the last, after a trailing delimiter.
func mayBeHeader(record []string) bool {
	if len(record) > 2 && record[0] == "" {
		record = record[1:]
	}
	for len(record) > 2 && record[len(record)-1] == "" {
		record = record[:len(record)-1]
	}
	return !slices.ContainsFunc(record, func(s string) bool {
		_, why := value.ParseNumber([]byte(s))
		return why == "" || s == "" || slices.Contains(missingWords, s)
	})
}

// isUnlike reports whether the first record differs from the others: in at least two
// columns of few values, the values of the others recur and its own does not.
func isUnlike(records [][]string) bool {
	const each = 5 // records per value
	repeated := 0
	for i, s := range records[0] {
		counts := map[string]int{}
		for _, r := range records[1:] {
			counts[r[i]]++
		}
		switch {
		case counts[s] > 0:
			return false
		case len(counts) > 0 && each*len(counts) < len(records):
			repeated++
		}
	}
	return repeated >= 2
}

// isCriteo reports whether the records have the layout of Criteo's logs: a label of 0 or
// 1, 13 integers, 26 strings.
func (in *Inspection) isCriteo(records [][]string) bool {
	if in.Delimiter != "\t" || len(records[0]) != len(schema.CriteoFields()) {
		return false
	}
	for i := range 14 {
		values := valuesOf(records, i)
		if len(values) > 0 && kindOf(values) != "int" || i == 0 && slices.ContainsFunc(values, func(s string) bool { return s != "0" && s != "1" }) {
			return false
		}
	}
	return true
}
