package inspect

import (
	"maps"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// written matches numbers formatted for people.
var written = pattern.Lazy(`^[-+(]?[$€£¥]? ?[-+]?([1-9][0-9]{0,2}(,[0-9]{3})+|[0-9]+)(\.[0-9]*)?( ?[%€£])?\)?$`)

// marksOf returns the marks in the formatted numbers of a column, such as "$,"; "" if
// nearly all values are plain numbers, or some are other strings.
func marksOf(values []string) string {
	const most = 20 // formatted numbers for each other value
	var marks []byte
	marked, others := 0, 0
	for _, s := range values {
		if _, why := value.ParseNumber([]byte(s)); why == "" {
			continue
		}
		if !written().MatchString(s) {
			others++
			continue
		}
		marked++
		for _, m := range []string{"$", "€", "£", "¥", "%", ",", "("} {
			if strings.Contains(s, m) && !strings.Contains(string(marks), m) {
				marks = append(marks, m...)
			}
		}
	}
	if marked == 0 || most*others > len(values) {
		return ""
	}
	return string(marks)
}

// guessSeparator returns the mark between several values of one field, "" if fewer than
// one in five fields have one. Blanks, commas and semicolons also occur inside single
// values: see isList.
func guessSeparator(values []string, delimiter string) string {
	for _, sep := range []string{"\x02", "|", "^", ";", ",", " "} { // the first is Hive's
		n := 0
		for _, s := range values {
			if strings.Contains(strings.Trim(s, sep), sep) {
				n++
			}
		}
		if n == 0 || 5*n < len(values) {
			continue
		}
		if plain := sep == "\x02" || sep == "|" || sep == "^"; plain && sep != delimiter || !plain && isList(values, sep) {
			return sep
		}
	}
	return ""
}

// isList reports whether fields with a mark that also occurs in names, titles and dates are
// lists. Lists combine few values into many fields. So there are at least four times as many
// distinct fields as distinct values. For integers, it is enough that the share of fields that
// occur once is four times the share of values that occur once. Lists differ in length; dates do not. Some lists
// have three values or more; a number with a decimal comma has two.
func isList(values []string, sep string) bool {
	const times, fewest, inHundred = 4, 20, 5
	fields, pieces, lengths, all, long := map[string]int{}, map[string]int{}, map[int]int{}, 0, 0
	for _, s := range values {
		n := 0
		for piece := range strings.SplitSeq(s, sep) {
			if piece = strings.TrimSpace(piece); piece != "" {
				pieces[piece]++
				n++
			}
		}
		if fields[s]++; n > 2 {
			long++
		}
		lengths[n]++
		all += n
	}
	_, same := mode(lengths)
	if len(fields) < fewest || 100*long < inHundred*len(values) || 100*(len(values)-same) < inHundred*len(values) {
		return false
	}
	if len(fields) >= times*len(pieces) {
		return true
	}
	single, rare := float64(once(fields))/float64(len(values)), float64(once(pieces))/float64(all)
	return single >= times*rare && 100*single >= inHundred && kindOf(slices.Collect(maps.Keys(pieces))) == "int"
}
