package inspect

import (
	"slices"
	"strings"
	"unicode"
)

// The last words of names that columns of labels have, and whole names.
var (
	labelWords = []string{"label", "click", "clicked", "clicks", "clk", "target", "income", "conversion", "converted", "response", "outcome", "purchased", "bought", "churn", "churned", "attributed", "subscribed", "survived"}
	labelNames = []string{"y", "class", "isclick"}
)

// ratingWords end names of opinions and amounts that are a label from some
// value on.
var ratingWords = []string{"rating", "ratings", "score", "stars", "tip", "tips"}

// Values that mean 1 where the other one does not.
var positiveWords = []string{"1", "1.0", "true", "True", "TRUE", "t", "yes", "Yes", "y", "Y", "click", "positive", "pos"}

// Words of names of columns that tell things apart, and of those that say when.
var (
	idWords = []string{"id", "ids", "uid", "uuid", "guid", "key", "hash", "code", "zip", "zipcode", "postcode", "tract",
		"customer", "brand", "user", "item", "product", "campaign", "advertiser", "publisher", "merchant", "device", "session", "sku", "ip"}
	hourWords = []string{"hour", "day", "weekday", "week", "month"}
	timeWords = []string{"timestamp", "time", "ts", "date", "datetime", "epoch", "at"}
)

// words cuts a name at marks and where a capital follows a small letter, and
// makes all of it small: user_id, userId and UserID are user and id.
func words(name string) []string {
	var b strings.Builder
	small := false
	for _, r := range name {
		if small && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		small = unicode.IsLower(r)
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	all := strings.Fields(b.String())
	if n := len(all); n > 1 && all[n-1] == "xf" { // of a TFX Transform
		return all[:n-1]
	}
	return all
}

// endsWith tells whether the last word of a name is in a list.
func endsWith(name string, list []string) bool {
	w := words(name)
	return len(w) > 0 && slices.Contains(list, w[len(w)-1])
}

// IsLabelName tells whether a column of that name is most likely the label.
func IsLabelName(name string) bool {
	return endsWith(name, labelWords) || slices.Contains(labelNames, strings.ToLower(name))
}

// IsRatingName tells whether a column of that name holds opinions or the like,
// which are a label from some value on.
func IsRatingName(name string) bool { return endsWith(name, ratingWords) }

// IsIDName tells whether numbers in a column of that name count nothing, such
// as those of user_id, id_user, brand, census_tract.
func IsIDName(name string) bool {
	w := words(name)
	if len(w) == 0 {
		return false
	}
	last := w[len(w)-1]
	for _, run := range []string{"userid", "itemid", "deviceid", "sessionid", "adid"} {
		if strings.HasSuffix(last, run) {
			return true
		}
	}
	area := len(w) > 1 && w[len(w)-2] == "community" && last == "area"
	return area || w[0] == "id" || slices.Contains(idWords, last)
}

// IsHourName tells whether a column of that name holds hours, days or months, which come
// round again: each is something of its own.
func IsHourName(name string) bool { return endsWith(name, hourWords) }

// IsTimeName tells whether a column of that name says when something was.
func IsTimeName(name string) bool {
	w := words(name)
	return len(w) > 1 && endsWith(name, timeWords) || len(w) == 1 && w[0] != "at" && endsWith(name, timeWords)
}

// guessLabel takes the column that has the name of a label, best one of two
// values; else the first or the last if it has two values, best 0 and 1; else
// any that has; else one named like a rating; else the last. Neither ids nor
// times are labels if there is anything else. Without a name the guess is not sure.
func (in *Inspection) guessLabel() {
	best, score := len(in.Columns)-1, -1
	for i, c := range slices.Backward(in.Columns) {
		if !IsIDName(c.Name) && !IsTimeName(c.Name) {
			best = i
			break
		}
	}
	for i, c := range in.Columns {
		if s := c.likely(i == 0 || i == len(in.Columns)-1); s > score {
			best, score = i, s
		}
	}
	c := in.Columns[best]
	in.Label, in.Sure = c.Name, IsLabelName(c.Name)
	if c.Distinct != 2 || c.Separator != "" {
		return
	}
	for _, s := range c.Examples {
		if slices.Contains(positiveWords, s) {
			in.Positive = []string{s}
			return
		}
	}
	in.Positive = []string{c.Examples[1]} // the rarer: clicks are
}

// likely says how much like a label a column is. Of equals the first wins.
func (c *Column) likely(outer bool) int {
	binary := c.Distinct == 2 && c.Missing == 0 && c.Separator == ""
	switch named := IsLabelName(c.Name); {
	case named && binary:
		return 7
	case named:
		return 6
	case IsIDName(c.Name) || IsTimeName(c.Name):
		return -1
	case binary && outer && c.Min == 0 && c.Max == 1 && c.Kind == "int":
		return 5
	case binary && outer:
		return 4
	case binary:
		return 3
	case IsRatingName(c.Name) && c.Kind != "string":
		return 2
	case outer && c.Distinct > 2:
		return 0
	}
	return -1
}

// guessSeparator is the mark between several values of one field, "" if few
// fields have one: at least one in five must.
func guessSeparator(values []string, delimiter string) string {
	for _, sep := range []string{"|", "^"} {
		n := 0
		for _, s := range values {
			if strings.Contains(strings.Trim(s, sep), sep) {
				n++
			}
		}
		if sep != delimiter && n > 0 && 5*n >= len(values) {
			return sep
		}
	}
	return ""
}

// isBinary tells bytes that are no text from lines in whatever encoding: those
// hold no zero bytes and hardly any control characters.
func isBinary(all []string) bool {
	const inHundred = 1
	bytes, odd := 0, 0
	for _, s := range all {
		bytes += len(s)
		for i := range len(s) {
			switch c := s[i]; {
			case c == 0:
				return true
			case c < ' ' && c != '\t' && c != '\r' && c != '\f' || c == 0x7f:
				odd++
			}
		}
	}
	return 100*odd > inHundred*bytes
}
