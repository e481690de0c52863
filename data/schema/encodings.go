package schema

// Encoding is how a field becomes an input of the model.
type Encoding uint8

const (
	Vocabulary Encoding = iota
	Hash
	ID
	Quantile
	Boundaries
	Standardise
	Log
	Raw
)

// encodings are the names that a configuration gives them.
var encodings = [...]struct {
	name   string
	sparse bool // gives keys, not a number
	number bool // the field must hold a number
}{
	Vocabulary:  {"vocabulary", true, false},
	Hash:        {"hash", true, false},
	ID:          {"id", true, false},
	Quantile:    {"quantile", true, true},
	Boundaries:  {"boundaries", true, true},
	Standardise: {"standardise", false, true},
	Log:         {"log", false, true},
	Raw:         {"raw", false, true},
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

// Sparse tells whether it gives keys, not a number.
func (e Encoding) Sparse() bool { return encodings[e].sparse }

// Number tells whether the field must hold a number.
func (e Encoding) Number() bool { return encodings[e].number }

// Fitted tells whether the encoding takes something from training data.
func (e Encoding) Fitted() bool {
	return e == Vocabulary || e == Quantile || e == Standardise
}

// NeedsFit names the features of a schema that take statistics from training
// data or a feature index.
func (s Schema) NeedsFit() (names []string) {
	for _, f := range s.Fill().Features {
		if e, ok := EncodingOf(f.Encode); ok && e.Fitted() {
			names = append(names, f.Name)
		}
	}
	return names
}
