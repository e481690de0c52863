package inspect

import (
	"slices"
	"strings"
	"unicode"
)

// Last words, and complete names, of columns that are usually labels.
var (
	labelWords = []string{"label", "click", "clicked", "clicks", "clk", "target", "conversion", "converted", "response", "outcome", "purchased", "bought", "churn", "churned", "subscribed"}
	labelNames = []string{"y", "class", "isclick"}
)

// flagWords are last words of names of columns that are a label if they have two values. Other
// columns with such a name may be dates or amounts.
var flagWords = []string{"attributed", "buy", "purchase", "like", "liked", "install", "installed", "finish", "finished"}

// ratingWords are last words of names of ratings, which become a label by a threshold.
var ratingWords = []string{"rating", "ratings", "score", "stars"}

// Words in names of columns of identifiers, and in names of columns of times.
var (
	idWords = []string{"id", "ids", "uid", "uuid", "guid", "key", "hash", "code", "zip", "zipcode", "postcode",
		"customer", "brand", "user", "item", "product", "campaign", "advertiser", "publisher", "merchant", "device", "session", "sku", "ip"}
	hourWords = []string{"hour", "day", "weekday", "week", "month"}
	timeWords = []string{"timestamp", "time", "ts", "date", "datetime", "epoch", "at"}
)

// words splits a name at marks and before a capital after a small letter, and converts it
// to lower case: user_id, userId and UserID are user and id.
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
	return strings.Fields(b.String())
}

// endsWith reports whether the last word of a name is in a list.
func endsWith(name string, list []string) bool {
	w := words(name)
	return len(w) > 0 && slices.Contains(list, w[len(w)-1])
}

// IsLabelName reports whether a column of that name is most likely the label.
func IsLabelName(name string) bool {
	return endsWith(name, labelWords) || slices.Contains(labelNames, strings.ToLower(name))
}

// isFlagName reports whether a column of that name is most likely the label if it has two values.
func isFlagName(name string) bool { return endsWith(name, flagWords) }

// isRatings reports whether a name has no other word than one of ratings, so that it is not a
// property of an item, such as the rating of a hotel.
func isRatings(name string) bool {
	w := words(name)
	return len(w) == 1 && slices.Contains([]string{"rating", "ratings", "stars"}, w[0])
}

// IsRatingName reports whether a column of that name contains ratings, which become a
// label by a threshold.
func IsRatingName(name string) bool { return endsWith(name, ratingWords) }

// IsIDName reports whether numbers in a column of that name are identifiers, as in
// user_id, id_user, brand.
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
	return w[0] == "id" || slices.Contains(idWords, last)
}

// IsWeightName reports whether a column of that name contains the weights of samples.
func IsWeightName(name string) bool {
	w := words(name)
	if len(w) == 2 && (w[1] == "weight" || w[1] == "weights") {
		return slices.Contains([]string{"sample", "instance", "example", "importance", "case", "observation", "row"}, w[0])
	}
	return len(w) == 1 && slices.Contains([]string{"sampleweight", "instanceweight"}, w[0])
}

// IsHourName reports whether a column of that name contains hours, days or months, which
// are cyclic: each is a category.
func IsHourName(name string) bool { return endsWith(name, hourWords) }

// IsTimeName reports whether a column of that name contains times.
func IsTimeName(name string) bool {
	w := words(name)
	return len(w) > 1 && endsWith(name, timeWords) || len(w) == 1 && w[0] != "at" && endsWith(name, timeWords)
}
