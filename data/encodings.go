package data

// encoding is how a field becomes an input of the model.
type encoding uint8

const (
	encVocabulary encoding = iota
	encHash
	encID
	encQuantile
	encBoundaries
	encStandardise
	encLog
	encRaw
)

// encodings are the names that a configuration gives them.
var encodings = [...]struct {
	name   string
	sparse bool // gives keys, not a number
	number bool // the field must hold a number
}{
	encVocabulary:  {"vocabulary", true, false},
	encHash:        {"hash", true, false},
	encID:          {"id", true, false},
	encQuantile:    {"quantile", true, true},
	encBoundaries:  {"boundaries", true, true},
	encStandardise: {"standardise", false, true},
	encLog:         {"log", false, true},
	encRaw:         {"raw", false, true},
}

// Encodings returns the names of the encodings, the sparse ones first.
func Encodings() []string {
	names := make([]string, len(encodings))
	for i, e := range encodings {
		names[i] = e.name
	}
	return names
}

func encodingOf(name string) (encoding, bool) {
	for i, e := range encodings {
		if e.name == name {
			return encoding(i), true
		}
	}
	return 0, false
}

func (e encoding) sparse() bool { return encodings[e].sparse }
func (e encoding) number() bool { return encodings[e].number }
