package encode

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// forms is a set of forms in which the values of a hashed field are written. A hash has no
// list of its values, as a vocabulary has. The forms of the training data show instead how
// a value in another form would have been written there. A value in a form of the training
// data keeps its key.
type forms uint8

const (
	formText    forms = 1 << iota // any value
	formInteger                   // 7
	formReal                      // 7.0, 7.205759403792794e+16
	formUpper                     // TRUE
	formTitle                     // True
	formLower                     // true
	formPadded                    // a blank at an end
	formTruth   = formUpper | formTitle | formLower
	allForms    = formText | formInteger | formReal | formTruth | formPadded
)

// formNames are the names of the forms in a feature index, by bit.
var formNames = [...]string{"text", "integer", "real", "TRUE", "True", "true", "padded"}

// names returns the names of a set.
func (f forms) names() (all []string) {
	for i, name := range formNames {
		if f>>i&1 != 0 {
			all = append(all, name)
		}
	}
	return all
}

// formsNamed returns the set with these names. It ignores other names.
func formsNamed(names []string) (f forms) {
	for i, name := range formNames {
		if slices.Contains(names, name) {
			f |= 1 << i
		}
	}
	return f
}

// others returns the forms of which a value has another form in the set.
func (f forms) others() forms {
	others := allForms &^ f
	if f&(formInteger|formReal|formTruth) == 0 {
		others &= formPadded
	}
	return others
}

// formsByEnd are the forms of values without blanks by their last byte, except formReal.
var formsByEnd = [256]forms{
	'0': formInteger, '1': formInteger, '2': formInteger, '3': formInteger, '4': formInteger,
	'5': formInteger, '6': formInteger, '7': formInteger, '8': formInteger, '9': formInteger,
	'E': formTruth, 'e': formTruth,
}

// mayHold reports whether the form of a value, which is not empty, may be in the set. It is
// for hot loops. Its conditions are predictable for columns of text of one length.
func (f forms) mayHold(text []byte) bool {
	last := text[len(text)-1]
	return text[0] <= ' ' || last <= ' ' ||
		last == '0' && len(text) > 2 && text[len(text)-2] == '.' ||
		f&formReal != 0 && hasExponent(text) ||
		(len(text) <= len("false") || f&formInteger != 0) && f&formsByEnd[last] != 0
}

// formOf returns the form of a value, which is not empty; 0 for a form that has no other.
func formOf(text []byte) forms {
	if first, last := text[0], text[len(text)-1]; first == ' ' || first == '\t' || last == ' ' || last == '\t' {
		return formPadded
	}
	digits, real := bytes.CutSuffix(text, []byte(".0"))
	if len(digits) <= maxSpelled-2 && (isInteger(digits) || string(digits) == "0") {
		if real {
			return formReal
		}
		return formInteger
	}
	var buf [maxSpelled]byte
	if ofExponent(text, buf[:0]) != nil {
		return formReal
	}
	switch string(text) {
	case "TRUE", "FALSE":
		return formUpper
	case "True", "False":
		return formTitle
	case "true", "false":
		return formLower
	}
	return 0
}

// like returns a value in a form of the set. It returns the value itself if its form is in
// the set, or if the set has no form for it. It may append the result to buf, of maxSpelled
// bytes.
func (f forms) like(text, buf []byte) []byte {
	form := formOf(text)
	if form == formPadded && f&formPadded == 0 {
		bare := bytes.Trim(text, blanks)
		if len(bare) == 0 {
			return text
		}
		text, form = bare, formOf(bare)
	}
	if form == 0 || f&form != 0 {
		return text
	}
	if form&(formInteger|formReal) != 0 && f&(formInteger|formReal) != 0 {
		if form == formReal {
			if integer := ofExponent(text, buf); integer != nil {
				return integer
			}
			return bytes.TrimSuffix(text, []byte(".0"))
		}
		if real := appendExponent(buf, text); real != nil {
			return real
		}
		return append(append(buf, text...), ".0"...)
	}
	for _, other := range truthsLike(text) {
		if f&formOf(other) != 0 {
			return other
		}
	}
	return text
}

// hashOf returns the hash of a value in a form of the training data.
func (f *featureCode) hashOf(text []byte) uint64 {
	if f.others == 0 || !f.others.mayHold(text) {
		return keyOf(text)
	}
	var buf [maxSpelled]byte
	return keyOf(f.forms.like(text, buf[:0]))
}

// fitForms collects the forms of the values of a hashed field.
type fitForms struct {
	column int
	wordsKey
	seen forms
}

// formsOf returns the forms of a field, or nil.
func (f *Fit) formsOf(of *schema.Feature) *fitForms {
	for i := range f.forms {
		if x := &f.forms[i]; x.wordsKey == wordsKeyOf(of) {
			return x
		}
	}
	return nil
}

// warning returns the warning about values in several forms, or "".
func (x *fitForms) warning() string {
	const other = "field %s has values such as %s and %s, which encode: hash treats as different; write them in one form"
	if x.seen&formInteger != 0 && x.seen&formReal != 0 {
		return fmt.Sprintf(other+", or use encode: id if all are integers", x.field, "7", "7.0")
	}
	if words := (x.seen & formTruth).names(); len(words) > 1 {
		return fmt.Sprintf(other, x.field, words[0], words[1])
	}
	return ""
}

// add adds the values of a record.
func (x *fitForms) add(p *parser, l *value.List) {
	if l.Kind == value.Int && x.seen == formText|formInteger {
		return
	}
	for i := range l.Len() {
		for text := p.textOf(l, i); ; {
			var piece []byte
			if piece, text = nextPiece(text, x.separator); piece == nil {
				break
			}
			if piece = x.valueOf(piece); len(piece) == 0 {
				continue
			}
			if x.seen == 0 || (allForms &^ x.seen).mayHold(piece) {
				if !p.isMissingText(piece) {
					x.seen |= formText | formOf(piece)
				}
			}
		}
	}
}

// merge adds the forms of another part.
func (x *fitForms) merge(r *wire.Reader) {
	if f := forms(r.Byte()); f&^allForms == 0 {
		x.seen |= f
	} else {
		r.Fail("a hashed field has forms %x", f)
	}
}

// formsOfWords returns the forms of the strings of a vocabulary.
func formsOfWords(words []string) (seen forms) {
	for _, w := range words {
		if b := bytes.Trim([]byte(w), blanks); len(b) > 0 && (seen&formText == 0 || (allForms &^ seen).mayHold(b)) {
			seen |= max(formOf(b), formText)
		}
	}
	return seen
}
