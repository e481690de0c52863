package metrics

// Unknown counts the unknown values of a feature by reason.
type Unknown struct {
	Rare        int64 `json:"rare,omitempty"`         // in the training data, but too rarely for the vocabulary
	Newer       int64 `json:"newer,omitempty"`        // not in the training data, or without a row for another reason
	OtherFormat int64 `json:"other_format,omitempty"` // written in a form that no value of the vocabulary has
}

// Total returns the number of values.
func (u Unknown) Total() int64 { return u.Rare + u.Newer + u.OtherFormat }

// Totals returns the totals by feature.
func Totals(why map[string]Unknown) map[string]int64 {
	totals := map[string]int64{}
	for name, u := range why {
		totals[name] = u.Total()
	}
	return totals
}
