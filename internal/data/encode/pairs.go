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
func newWalk(l *value.List, separator string) walk {
	w := walk{list: l, separator: []byte(separator), nulls: l.Nulls}
	w.blank = len(separator) > 0 && strings.TrimSpace(separator) == ""
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
	values, weights := newWalk(&p.lists[f.column], f.Separator), newWalk(&p.lists[f.weights], f.Separator)
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
		key, valued := uint64(0), i >= 0 && !p.isMissingText(text)
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
