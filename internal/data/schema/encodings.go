package schema

// Encoding is how a field becomes an input of the model.
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
	Age
)

// encodings are the names that a configuration gives them.
var encodings = [...]struct {
	name   string
	sparse bool // gives keys, not a number
	number bool // the field must hold a number
	date   bool // the field holds a date
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
	Age:         {name: "age", date: true},
}

// Encodings returns the names of the encodings, the sparse ones first.
func Encodings() []string {
	names := make([]string, len(encodings))
	for i, e := range encodings {
		names[i] = e.name
	}
	return names
}

// EncodingOf is the encoding of a name; false if there is none.
func EncodingOf(name string) (Encoding, bool) {
	for i, e := range encodings {
		if e.name == name {
			return Encoding(i), true
		}
	}
	return 0, false
}

// Sparse reports whether it gives keys, not a number.
func (e Encoding) Sparse() bool { return encodings[e].sparse }

// Number reports whether the field must hold a number.
func (e Encoding) Number() bool { return encodings[e].number }

// Date reports whether the field holds dates.
func (e Encoding) Date() bool { return encodings[e].date }

// Text reports whether the encoding makes keys of the text of values, of which a record
// may have several.
func (e Encoding) Text() bool { return e == Vocabulary || e == Hash || e == ID }

// Fitted reports whether the feature takes something from training data.
func (f *Feature) Fitted() bool {
	e, ok := EncodingOf(f.Encode)
	return ok && (e == Vocabulary || e == Quantile || e == Standardise || e == Age || e.Date() && f.Format == "")
}

// NeedsFit names the features of a schema that take statistics from training
// data or a feature index.
func (s Schema) NeedsFit() (names []string) {
	for _, f := range s.Fill().Features {
		if f.Fitted() {
			names = append(names, f.Name)
		}
	}
	return names
}
