package encode

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// For returns the encoder of another schema, with the statistics of e. Each feature takes
// them from the feature of e with the same field, encoding and settings, of several the one of its name. So one index made from much
// data serves many models, and streams, which have no data to fit beforehand. The index
// fixes the settings min_count and max_size.
func (e *Encoder) For(s schema.Schema) (*Encoder, error) {
	s = s.Fill()
	stats := make([]statistics, len(s.Features))
	var faults []error
	for i := range s.Features {
		f := &s.Features[i]
		from := e.like(f)
		switch {
		case !f.Fitted() && from < 0:
			continue
		case from < 0:
			faults = append(faults, fmt.Errorf("features[%d] (%s): it has no %s of field %s%s", i, f.Name, f.Encode, f.Field, settingsOf(f)))
			continue
		}
		stats[i] = e.stats[from]
		f.MinCount, f.MaxSize = e.schema.Features[from].MinCount, e.schema.Features[from].MaxSize
	}
	if err := schema.Joined("feature index", faults); err != nil {
		return nil, err
	}
	return compile(s, stats)
}

// like returns the position of the feature of e whose statistics f can use, or −1. If there are several, it prefers the
// one with the name of f, and then the one with the same size of the vocabulary.
func (e *Encoder) like(f *schema.Feature) int {
	best, most := -1, -1
	for i := range e.schema.Features {
		own := &e.schema.Features[i]
		if own.Field != f.Field || own.Encode != f.Encode || statisticsOf(own) != statisticsOf(f) {
			continue
		}
		score := 0
		if own.MinCount == f.MinCount && own.MaxSize == f.MaxSize {
			score++
		}
		if own.Name == f.Name {
			score += 2
		}
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// settings are the options of a feature that change its statistics. Its field and encoding change them too.
type settings struct {
	separator, pairs, padding, format, zone, reference string
	buckets                                            uint64
	size, maxLen                                       int64
	log, standardise, clip                             bool
}

func statisticsOf(f *schema.Feature) settings {
	s := settings{f.Separator, f.Pairs, f.Padding, f.Format, f.Zone, f.Reference, f.Buckets, f.Size, f.MaxLen, f.Log, f.Standardise, f.Clip == nil || *f.Clip}
	if f.Encode == "hash" {
		s.buckets = 0 // its keys are made of any
	}
	return s
}

// settingsOf describes the settings that distinguish features of one field and encoding.
func settingsOf(f *schema.Feature) string {
	switch {
	case f.Pairs != "":
		return fmt.Sprintf(" with pairs: %q", f.Pairs)
	case f.Separator != "":
		return fmt.Sprintf(" split at %q", f.Separator)
	case f.Clip != nil && !*f.Clip:
		return " with clip: false"
	case f.Standardise:
		return " with standardise: true"
	case f.Log:
		return " with log: true"
	case f.Buckets > 0:
		return fmt.Sprintf(" in %d buckets", f.Buckets)
	}
	return " with the same settings"
}

// VocabularySize counts the strings of one feature.
type VocabularySize struct {
	Feature  string `json:"feature"`
	Field    string `json:"field"`
	Distinct int64  `json:"distinct"` // strings that occurred
	Kept     int64  `json:"kept"`     // those that have their own key
	Values   int64  `json:"values"`   // how many values there were
	Unknown  int64  `json:"unknown"`  // values among them that share the unknown key
}

// Vocabularies describes the vocabularies of the features, in their order.
func (f *Fit) Vocabularies() (all []VocabularySize) {
	for _, ft := range f.schema.Features {
		if e, _ := schema.EncodingOf(ft.Encode); e != schema.Vocabulary {
			continue
		}
		v := f.wordsOf(&ft)
		kept := v.own(ft.MinCount, ft.MaxSize)
		s := VocabularySize{Feature: ft.Name, Field: ft.Field, Distinct: int64(len(v.counts)), Kept: int64(len(kept))}
		for _, n := range v.counts {
			s.Values += n
		}
		s.Unknown = s.Values
		for _, w := range kept {
			s.Unknown -= v.count(w)
		}
		all = append(all, s)
	}
	return all
}

// Vocabulary is the vocabulary of one feature of an encoder. It counts values that are not
// in it. It belongs to one goroutine.
type Vocabulary struct {
	Feature, Field  string
	Values, Unknown int64 // counted values, and how many of them have no key

	separator string
	words     *keySet
	buf       []byte
}

// Vocabularies returns the vocabularies of the features, with zero counts.
func (e *Encoder) Vocabularies() (all []*Vocabulary) {
	for i, f := range e.schema.Features {
		if enc, _ := schema.EncodingOf(f.Encode); enc == schema.Vocabulary {
			all = append(all, &Vocabulary{Feature: f.Name, Field: f.Field, separator: f.Separator, words: e.stats[i].set})
		}
	}
	return all
}

// Count counts the values of one record's field, except those listed as missing.
func (v *Vocabulary) Count(l *value.List, missing []string) {
	for i := range l.Len() {
		v.buf = l.Append(v.buf[:0], i)
		for text := v.buf; ; {
			var piece []byte
			if piece, text = nextPiece(text, v.separator); piece == nil {
				break
			}
			if slices.Contains(missing, string(piece)) {
				continue
			}
			v.Values++
			if plainKey(v.words.find(keyOf(piece), piece)) == KeyUnknown {
				v.Unknown++
			}
		}
	}
}
