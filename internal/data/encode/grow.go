package encode

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// Grown describes what a feature has from an earlier encoder.
type Grown struct {
	Was   string // name of the feature there
	Words int    // size of the earlier vocabulary
	New   int    // words that were added
	Fresh bool   // its statistics are not kept, because the earlier data had no value of it
}

// Growth defines how an encoder continues an earlier one.
type Growth struct {
	Fit   *Fit                     // counts of the words; may be nil
	Was   func(name string) string // name that a feature of the schema has in the earlier encoder; "": none
	Renew bool                     // take no statistics but vocabularies from the earlier encoder
}

// Grow returns e with the statistics of an earlier encoder for each feature that both have, with
// the same encoding. A vocabulary keeps its words and gets the new words of e; with a limit
// (max_size), the most frequent by the fit. same describes these features by name.
func (e *Encoder) Grow(from *Encoder, how Growth) (grown *Encoder, same map[string]Grown, err error) {
	same, stats := map[string]Grown{}, slices.Clone(e.stats)
	for i := range e.schema.Features {
		f := &e.schema.Features[i]
		name := how.Was(f.Name)
		was := slices.IndexFunc(from.schema.Features, func(o schema.Feature) bool { return o.Name == name && sameCode(&o, f) })
		if was < 0 {
			continue
		}
		for k, own := range numbersOf(f) {
			if own != f.Name {
				same[own] = Grown{Was: element(name, int64(k))}
			}
		}
		old, forms := from.stats[was], stats[i].Forms
		old.rates = old.rates.past()
		g := Grown{Was: name, Words: len(old.Vocabulary)}
		g.Fresh = !old.seen(f) && stats[i].seen(f)
		if how.Renew && f.Encode != "vocabulary" || g.Fresh {
			same[f.Name] = g
			continue
		}
		if added := e.newWords(i, old.Vocabulary, how.Fit); len(added) > 0 {
			g.New = len(added)
			if g.Words+g.New > maxWords {
				return nil, nil, fmt.Errorf("feature %s: %d values and %d new ones, at most %d are possible in a vocabulary: use encode: hash, or max_size", f.Name, g.Words, g.New, maxWords)
			}
			old.Vocabulary = slices.Concat(old.Vocabulary, added)
			slices.Sort(old.Vocabulary)
			old.set = nil // compile indexes it
		}
		if e.stats[i].Rare != nil || old.Rare != nil {
			old.Rare, old.set = e.stats[i].Rare.with(old.Rare), nil
		}
		if old.Forms |= forms; clips(f) {
			old.bounds = old.with(e.stats[i].bounds)
		} else {
			old.bounds = bounds{}
		}
		stats[i], same[f.Name] = old, g
	}
	grown, err = compile(e.schema, stats)
	for _, x := range e.schema.Crosses {
		if was := kept(x, from.schema.Crosses, same); was != "" {
			same[x.Name] = Grown{Was: was}
		}
	}
	return grown, same, err
}

// seen reports whether the statistics of a feature are of at least one value.
func (s *statistics) seen(f *schema.Feature) bool {
	some := func(x float64) bool { return x != 0 }
	switch e, _ := schema.EncodingOf(f.Encode); {
	case e == schema.Standardise:
		return s.Range != nil || s.Mean != 0 || s.Deviation != 0
	case e == schema.Quantile:
		return s.Range != nil || len(s.Limits) > 0
	case e == schema.Vector && f.Standardise:
		return slices.ContainsFunc(s.Means, some) || slices.ContainsFunc(s.Deviations, some)
	case e.Date():
		return s.Date != ""
	}
	return true
}

// newWords returns the words of feature i that an earlier vocabulary does not have.
func (e *Encoder) newWords(i int, was []string, fit *Fit) (added []string) {
	f := &e.schema.Features[i]
	for _, w := range e.stats[i].Vocabulary {
		if _, found := slices.BinarySearch(was, w); !found {
			added = append(added, w)
		}
	}
	room := int(max(0, f.MaxSize-int64(len(was))))
	if f.MaxSize == 0 || len(added) <= room {
		return added
	}
	if fit != nil {
		v := fit.wordsOf(f)
		slices.SortStableFunc(added, func(a, b string) int { return cmp.Compare(v.count(b), v.count(a)) })
	}
	return added[:room]
}

// sameCode reports whether two features give equal values equal keys or numbers, with equal
// statistics.
func sameCode(a, b *schema.Feature) bool {
	return a.Encode == b.Encode && a.Separator == b.Separator && a.Weights == "" == (b.Weights == "") &&
		a.Buckets == b.Buckets && slices.Equal(a.Boundaries, b.Boundaries) && a.Log == b.Log &&
		a.Pairs == b.Pairs && a.Padding == b.Padding && a.MaxLen == b.MaxLen && a.Size == b.Size && a.Standardise == b.Standardise &&
		a.Format == b.Format && a.Zone == b.Zone && a.Reference == b.Reference
}

// kept returns the name of the cross of an earlier schema that gives the same keys; "": none. A
// cross has another name if its features have been renamed.
func kept(x schema.Cross, was []schema.Cross, same map[string]Grown) string {
	var of []string
	for _, name := range x.Of {
		g, ok := same[name]
		if !ok {
			return ""
		}
		of = append(of, g.Was)
	}
	for _, o := range was {
		if o.Buckets == x.Buckets && slices.Equal(o.Of, of) && (o.Name == x.Name || !slices.Equal(of, x.Of)) {
			return o.Name
		}
	}
	return ""
}
