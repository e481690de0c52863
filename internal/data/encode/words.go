package encode

import (
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/signal"
)

// Column returns the index of a field among those that are read, or -1.
func (r *RowCoder) Column(field string) int { return slices.Index(r.parser.names(), field) }

// Text returns the value of a column in the record checked last, valid until the next
// call. It returns false if the value is missing or there are several.
func (r *RowCoder) Text(column int) ([]byte, bool) {
	l := &r.parser.lists[column]
	if r.parser.absent[column] || l.Len() != 1 {
		return nil, false
	}
	return r.parser.textOf(l, 0), true
}

// AppendWords appends the words of package signal for the columns of the record checked
// last, except the label.
func (r *RowCoder) AppendWords(dst []uint64) []uint64 {
	p := r.parser
	for i := 1; i < len(p.columns); i++ {
		switch l := &p.lists[i]; {
		case p.absent[i]:
			dst = append(dst, signal.Missing)
		case p.columns[i].Number:
			dst = append(dst, signal.Word(p.numbers[i]))
		default:
			h := uint64(0)
			for k := range l.Len() {
				h = h*31 + xxh3.Hash(p.textOf(l, k))
			}
			dst = append(dst, h)
		}
	}
	return dst
}

// WithVocabularies returns an encoder of a filled schema without data: with the given words of each
// feature, and no other statistics.
func WithVocabularies(s schema.Schema, words map[string][]string) (*Encoder, error) {
	stats := make([]statistics, len(s.Features))
	for i, f := range s.Features {
		stats[i].Vocabulary = slices.Compact(slices.Sorted(slices.Values(words[f.Name])))
		if enc, _ := schema.EncodingOf(f.Encode); enc.Date() {
			stats[i].Date = cmp.Or(f.Format, "iso")
		}
	}
	return compile(s, stats)
}

// ValueKey returns the key of a value of a sparse feature; ok is false if its encoding cannot have
// it. The values of intervals and dates are their numbers.
func ValueKey(f *schema.Feature, text []byte) (key uint64, ok bool) {
	switch e, _ := schema.EncodingOf(f.Encode); e {
	case schema.Vocabulary:
		return keyOf(text), true
	case schema.Hash:
		key = keyOf(text)
		if f.Buckets > 0 {
			key %= f.Buckets
		}
		return key, true
	}
	return idOf(text)
}

// Words returns the vocabulary of a feature, sorted. The caller must not change it.
func (e *Encoder) Words(feature string) []string {
	i := slices.IndexFunc(e.schema.Features, func(f schema.Feature) bool { return f.Name == feature })
	if i < 0 {
		return nil
	}
	return e.stats[i].Vocabulary
}
