package encode

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// walk visits the places of a column: its values, its nulls, and what is between separators,
// which may be empty.
type walk struct {
	list      *value.List
	separator []byte
	blank     bool // the separator is white space, which may be repeated
	next      int  // value of the list
	place     int
	nulls     []int32
	rest      []byte // of the value before next
	within    bool   // rest has further pieces
}

// newWalk begins at the first place of a list. A list without places is one null.
func newWalk(l *value.List, separator []byte) walk {
	w := walk{list: l, separator: separator, nulls: l.Nulls}
	w.blank = len(separator) > 0 && len(bytes.TrimSpace(separator)) == 0
	if l.Places() == 0 {
		w.nulls = noPlaces[:]
	}
	return w
}

var noPlaces = [...]int32{0}

// step returns the next place: the index of its value, −1 for a null, and its text if the list
// has texts. It returns false at the end.
func (w *walk) step() (at int, text []byte, ok bool) {
	for w.within {
		text, w.rest, w.within = bytes.Cut(w.rest, w.separator)
		if text = bytes.TrimSpace(text); len(text) > 0 || !w.blank {
			return w.next - 1, text, true
		}
	}
	if len(w.nulls) > 0 && int(w.nulls[0]) == w.place {
		w.nulls = w.nulls[1:]
		w.place++
		return -1, nil, true
	}
	if w.next == w.list.Len() {
		return -1, nil, false
	}
	at = w.next
	w.next++
	w.place++
	if w.list.Kind != value.Text {
		return at, nil, true
	}
	if text = w.list.Texts[at]; len(w.separator) > 0 {
		w.rest, w.within = text, true
		return w.step()
	}
	return at, text, true
}

// appendPairs appends the keys and weights of a feature with weights. Values and weights
// belong together by their places. A value without a weight is left out, and so is a weight
// without a value.
func (c *coder) appendPairs(f *featureCode, to *Jagged) *record.Flaw {
	p := c.parser
	values, weights := newWalk(&p.lists[f.column], f.cut), newWalk(&p.lists[f.weights], f.cut)
	n, m, apart := 0, 0, false
	for {
		i, text, more := values.step()
		k, weight, also := weights.step()
		switch {
		case more && also:
		case !more && !also && apart:
			if weights.list.Places() == 0 {
				m = 0
			}
			return p.flaw(f.weights, fmt.Sprintf("has %d weights for %d values", m, n))
		case !more && !also:
			return nil
		}
		if more {
			n++
		}
		if also {
			m++
		}
		if i >= 0 && values.list.Kind != value.Text {
			text = p.textOf(values.list, i)
		}
		key, valued := uint64(0), i >= 0 && !p.isMissingText(text) && !f.isPadding(text)
		if valued {
			if key, valued = f.key(text); !valued {
				return f.notAnID(text)
			}
		}
		x, weighs, fl := p.weight(f.weights, k, weight)
		if fl != nil {
			return fl
		}
		apart = apart || valued && !also || weighs && !more
		if valued && weighs {
			to.Values, to.Weights = append(to.Values, key), append(to.Weights, x)
		}
	}
}

// appendMarked appends the keys and weights of a feature whose values have their weights behind a
// mark. A value without a weight is left out, and so is a weight without a value.
func (c *coder) appendMarked(f *featureCode, to *Jagged) *record.Flaw {
	p, w := c.parser, newWalk(&c.parser.lists[f.column], f.cut)
	for {
		i, text, more := w.step()
		if !more {
			return nil
		}
		if i >= 0 && w.list.Kind != value.Text {
			text = p.textOf(w.list, i)
		}
		if i < 0 || p.isMissingText(text) || f.isPadding(text) {
			continue
		}
		at := bytes.LastIndex(text, []byte(f.Pairs))
		if at < 0 {
			return &record.Flaw{Column: f.Field, Value: string(record.CutLong(text)), Want: fmt.Sprintf("has no %q between a value and its weight", f.Pairs)}
		}
		name, weight := bytes.TrimSpace(text[:at]), bytes.TrimSpace(text[at+len(f.Pairs):])
		if p.isMissingText(name) || p.isMissingText(weight) || isNaN(weight) {
			continue
		}
		key, ok := f.key(name)
		if !ok {
			return f.notAnID(name)
		}
		x, why := value.ParseNumber(weight)
		if why != "" {
			return &record.Flaw{Column: f.Field, Value: string(record.CutLong(weight)), Want: why}
		}
		to.Values, to.Weights = append(to.Values, key), append(to.Weights, float32(x))
	}
}

// valueOf returns the value of a piece of a field, without its weight; nil for padding.
func (k *wordsKey) valueOf(piece []byte) []byte {
	if isPadding(piece, k.padding) {
		return nil
	}
	if k.pairs == "" {
		return piece
	}
	return bytes.TrimSpace(piece[:max(bytes.LastIndex(piece, []byte(k.pairs)), 0)])
}

func (f *featureCode) isPadding(text []byte) bool { return isPadding(text, f.Padding) }

// isPadding reports whether a value is the padding, or the same number as a real one.
func isPadding(text []byte, padding string) bool {
	return padding != "" && string(bytes.TrimSuffix(text, []byte(".0"))) == padding
}

// isWeighted reports whether the keys of a feature have weights.
func (f *featureCode) isWeighted() bool { return f.weights != 0 || f.Pairs != "" }

// isList reports whether a field must be read as a list, also if it has one value.
func (f *featureCode) isList() bool { return f.isWeighted() || f.Separator != "" || f.Padding != "" }

// shorten leaves out the keys of a row, which begin at from, beyond the limit of their number.
func (f *featureCode) shorten(to *Jagged, from int) {
	n, most := len(to.Values)-from, f.MaxLen
	if last := most < 0; last && int64(n) > -most {
		skip := n + int(most)
		to.Values = append(to.Values[:from], to.Values[from+skip:]...)
		if f.isWeighted() {
			to.Weights = append(to.Weights[:from], to.Weights[from+skip:]...)
		}
	} else if !last && int64(n) > most {
		to.Values = to.Values[:from+int(most)]
		if f.isWeighted() {
			to.Weights = to.Weights[:from+int(most)]
		}
	}
}

// weight returns the weight with index k in a column, as element does.
func (p *parser) weight(column, k int, text []byte) (x float32, ok bool, fl *record.Flaw) {
	y, ok, fl := p.element(column, k, text)
	return float32(y), ok, fl
}

// element returns the number with index k in a column, or in a piece of its text. It returns
// false if it is missing: null, empty, NaN, or listed as missing.
func (p *parser) element(column, k int, text []byte) (y float64, ok bool, fl *record.Flaw) {
	if k < 0 {
		return 0, false, nil
	}
	l, why := &p.lists[column], ""
	switch {
	case l.Kind == value.Text:
		if p.isMissingText(text) || isNaN(text) {
			return 0, false, nil
		}
		if y, why = value.ParseNumber(text); p.forgives(p.columns[column].Name, why) {
			return 0, false, nil
		} else if why != "" {
			return 0, false, &record.Flaw{Column: p.columns[column].Name, Value: string(record.CutLong(text)), Want: why}
		}
		return y, true, nil
	case p.isMissing(l, k), l.Kind != value.Int && l.Reals[k] != l.Reals[k]:
		return 0, false, nil
	}
	if y, why = numberAt(l, k); p.forgives(p.columns[column].Name, why) {
		return 0, false, nil
	} else if why != "" {
		return 0, false, p.flaw(column, why)
	}
	return y, true, nil
}

// isNaN reports whether a text is one of the spellings of NaN: nan, NaN.
func isNaN(text []byte) bool {
	return len(text) == len("nan") && strings.EqualFold(string(text), "nan")
}
