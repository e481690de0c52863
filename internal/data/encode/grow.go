package encode

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// Grown describes how a feature of an earlier encoder lives on.
type Grown struct {
	Words int // size of the earlier vocabulary
	New   int // words that were added
}

// Grow returns e with the statistics of an earlier encoder for each feature that both have: by
// name, with the same encoding. A vocabulary keeps its words and gets the new words of e;
// with a limit (max_size), the most frequent by fit, which may be nil. same describes these
// features by name.
func (e *Encoder) Grow(from *Encoder, fit *Fit) (grown *Encoder, same map[string]Grown, err error) {
	same, stats := map[string]Grown{}, slices.Clone(e.stats)
	for i := range e.schema.Features {
		f := &e.schema.Features[i]
		was := slices.IndexFunc(from.schema.Features, func(o schema.Feature) bool { return sameCode(&o, f) })
		if was < 0 {
			continue
		}
		old, forms := from.stats[was], stats[i].Forms
		g := Grown{Words: len(old.Vocabulary)}
		if added := e.newWords(i, old.Vocabulary, fit); len(added) > 0 {
			g.New = len(added)
			if g.Words+g.New > maxWords {
				return nil, nil, fmt.Errorf("feature %s: %d values and %d new ones, at most %d are possible in a vocabulary: use encode: hash, or max_size", f.Name, g.Words, g.New, maxWords)
			}
			old.Vocabulary = slices.Concat(old.Vocabulary, added)
			slices.Sort(old.Vocabulary)
			old.set = nil // compile indexes it
		}
		old.Forms |= forms
		stats[i], same[f.Name] = old, g
	}
	grown, err = compile(e.schema, stats)
	for _, x := range e.schema.Crosses {
		if kept(x, from.schema.Crosses, same) {
			same[x.Name] = Grown{}
		}
	}
	return grown, same, err
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

// sameCode reports whether two features of one name give equal values equal keys or numbers,
// with equal statistics.
func sameCode(a, b *schema.Feature) bool {
	return a.Name == b.Name && a.Encode == b.Encode && a.Separator == b.Separator && a.Weights == "" == (b.Weights == "") &&
		a.Buckets == b.Buckets && slices.Equal(a.Boundaries, b.Boundaries) && a.Log == b.Log &&
		a.Pairs == b.Pairs && a.Padding == b.Padding && a.MaxLen == b.MaxLen && a.Size == b.Size && a.Standardise == b.Standardise &&
		a.Format == b.Format && a.Zone == b.Zone && a.Reference == b.Reference
}

// kept reports whether a cross gives the same keys as one of an earlier schema.
func kept(x schema.Cross, was []schema.Cross, same map[string]Grown) bool {
	for _, of := range x.Of {
		if _, ok := same[of]; !ok {
			return false
		}
	}
	return slices.ContainsFunc(was, func(o schema.Cross) bool {
		return o.Name == x.Name && o.Buckets == x.Buckets && slices.Equal(o.Of, x.Of)
	})
}
