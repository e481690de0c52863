package schema

// Encoding is the way a field becomes an input of the model.
type Encoding uint8

const (
	Vocabulary Encoding = iota
	Hash
	ID
	Quantile
	Boundaries
	Hour
	Weekday
	Month
	Standardise
	Log
	Raw
	Vector
	Age
	Rate
)

// encodings lists the names used in a configuration.
var encodings = [...]struct {
	name   string
	sparse bool // encodes keys, not a number
	number bool // the field must contain a number
	date   bool // the field contains a date
}{
	Vocabulary:  {name: "vocabulary", sparse: true},
	Hash:        {name: "hash", sparse: true},
	ID:          {name: "id", sparse: true},
	Quantile:    {name: "quantile", sparse: true, number: true},
	Boundaries:  {name: "boundaries", sparse: true, number: true},
	Hour:        {name: "hour", sparse: true, date: true},
	Weekday:     {name: "weekday", sparse: true, date: true},
	Month:       {name: "month", sparse: true, date: true},
	Standardise: {name: "standardise", number: true},
	Log:         {name: "log", number: true},
	Raw:         {name: "raw", number: true},
	Vector:      {name: "vector"},
	Age:         {name: "age", date: true},
	Rate:        {name: "rate"},
}

// Encodings returns the names of the encodings, the sparse ones first.
func Encodings() []string {
	names := make([]string, len(encodings))
	for i, e := range encodings {
		names[i] = e.name
	}
	return names
}

// EncodingOf returns the encoding of a name. It returns false if there is none.
func EncodingOf(name string) (Encoding, bool) {
	for i, e := range encodings {
		if e.name == name {
			return Encoding(i), true
		}
	}
	return 0, false
}

// Sparse reports whether the encoding returns keys, not a number.
func (e Encoding) Sparse() bool { return encodings[e].sparse }

// Number reports whether the field must contain a number.
func (e Encoding) Number() bool { return encodings[e].number }

// Date reports whether the field contains dates.
func (e Encoding) Date() bool { return encodings[e].date }

// Text reports whether the encoding makes keys from the text of values, of which a record
// may have several.
func (e Encoding) Text() bool { return e == Vocabulary || e == Hash || e == ID }

// Standardised reports whether the feature gives numbers that are standardised, other than ages.
func (f *Feature) Standardised() bool {
	e, _ := EncodingOf(f.Encode)
	return e == Standardise || e == Vector && f.Standardise
}

// RateWidth is the number of dense inputs of a rate: its log-odds and the logarithm of its count.
const RateWidth = 2

// Width returns the number of dense inputs that the feature gives, 0 if it is sparse.
func (f *Feature) Width() int {
	switch e, _ := EncodingOf(f.Encode); {
	case e.Sparse():
		return 0
	case e == Vector:
		return int(f.Size)
	case e == Rate:
		return RateWidth
	}
	return 1
}

// Fitted reports whether the feature needs statistics of training data.
func (f *Feature) Fitted() bool {
	e, ok := EncodingOf(f.Encode)
	return ok && (e == Vector && f.Standardise || e == Vocabulary || e == Quantile || e == Standardise || e == Age || e.Date() && f.Format == "")
}
