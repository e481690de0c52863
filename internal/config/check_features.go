package config

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

func (k checker) features() {
	if len(k.c.Features) == 0 {
		k.bad("features", "is missing: the model needs at least one input")
	}
	if n := len(k.c.Features) + len(k.c.Crosses); n > maxItems {
		k.bad("features", "and crosses are %d, at most %d are possible", n, maxItems)
	}
	label := k.c.Label.Field
	for i, f := range k.c.Features {
		path := fmt.Sprintf("features[%d]", i)
		k.field(path+".field", f.Field)
		if f.Field != "" && f.Field == label {
			k.bad(path+".field", "%s is the label: a model that sees it learns nothing else", quote(f.Field))
		}
		if f.Weights != "" {
			k.field(path+".weights", f.Weights)
		}
		if f.Encode == "" {
			k.bad(path+".encode", "is missing: say how the field becomes an input%s", nearest.Instead("", encodings()))
			continue
		}
		if among(f.Encode, encodings()) {
			k.options(path, f)
			k.parts(path, f)
		}
	}
}

// options checks that a feature has only settings that its encoding uses.
func (k checker) options(path string, f schema.Feature) {
	e, _ := schema.EncodingOf(f.Encode)
	for _, x := range []struct {
		name   string
		given  bool
		reads  bool
		reader string
	}{
		{"separator", f.Separator != "", e.Text() || e == schema.Vector || e == schema.Rate, "vocabulary, hash, id, vector and rate"},
		{"pairs", f.Pairs != "", e.Text(), "vocabulary, hash and id"},
		{"padding", f.Padding != "", e.Text(), "vocabulary, hash and id"},
		{"max_len", f.MaxLen != 0, e.Text(), "vocabulary, hash and id"},
		{"size", f.Size != 0, e == schema.Vector, "vector"},
		{"standardise", f.Standardise, e == schema.Vector, "vector; for numbers, use encode: standardise"},
		{"weights", f.Weights != "", e.Text(), "vocabulary, hash and id"},
		{"buckets", f.Buckets != 0, f.Encode == "hash" || f.Encode == "quantile", "hash and quantile"},
		{"boundaries", len(f.Boundaries) > 0, f.Encode == "boundaries", "boundaries"},
		{"min_count", f.MinCount != 0, f.Encode == "vocabulary", "vocabulary"},
		{"max_size", f.MaxSize != 0, f.Encode == "vocabulary", "vocabulary"},
		{"log", f.Log, f.Encode == "standardise" || f.Encode == "age", "standardise and age"},
		{"clip", f.Clip != nil, f.Standardised(), "standardise, and vector with standardise"},
		{"format", f.Format != "", e.Date(), "dates"},
		{"zone", f.Zone != "", e.Date() && e.Sparse(), "hour, weekday and month"},
		{"reference", f.Reference != "", f.Encode == "age", "age"},
		{"table", f.Table != "", sparse(f.Encode), "sparse encodings"},
		{"init", f.Init != "", e.Text(), "vocabulary, hash and id"},
		{"wide", f.Wide != nil, sparse(f.Encode), "sparse encodings; dense ones feed the deep part"},
		{"deep", f.Deep != nil, sparse(f.Encode), "sparse encodings; dense ones feed the deep part"},
	} {
		if x.given && !x.reads {
			k.bad(path+"."+x.name, "has no meaning with encode: %s; it is for %s", f.Encode, x.reader)
		}
	}
	switch {
	case e != schema.Rate:
	case k.c.Label.IsNumber():
		k.bad(path+".encode", "is rate, the share of positive records, and the label is a number: use vocabulary or hash")
	case k.c.Data.Follow.On:
		k.bad(path+".encode", "is rate, for which the training records are counted before the first step, and data.follow has no whole to count: use vocabulary or hash")
	}
	if f.Init != "" && f.Buckets > 0 {
		k.later(path+".init", path+".buckets", "values share buckets, so a bucket has no vector of its own")
	}
	const maxQuantiles = 65536
	if f.Encode == "quantile" && (f.Buckets == 1 || f.Buckets > maxQuantiles) {
		k.bad(path+".buckets", "is %d; quantiles are from 2 to %d", f.Buckets, maxQuantiles)
	}
	if f.Pairs != "" && f.Weights != "" {
		k.later(path+".pairs", path+".weights", "the weights are either in the field or in another one")
	}
	if f.Pairs != "" && f.Pairs == f.Separator {
		k.bad(path+".pairs", "is the separator too")
	}
	if f.Encode == "vector" && f.Size == 0 {
		k.bad(path+".size", "is missing: give the number of elements of the vector")
	}
	for key, why := range f.DateFaults() {
		k.bad(path+"."+key, "%s", why)
	}
	if f.Encode == "boundaries" && len(f.Boundaries) == 0 {
		k.bad(path+".boundaries", "is missing: give the ascending limits of the intervals")
	}
	for j := 1; j < len(f.Boundaries); j++ {
		if !(f.Boundaries[j] > f.Boundaries[j-1]) {
			k.bad(fmt.Sprintf("%s.boundaries[%d]", path, j), "%v does not follow %v: boundaries ascend", f.Boundaries[j], f.Boundaries[j-1])
		}
	}
}

// parts checks the parts of the model that a feature feeds.
func (k checker) parts(path string, f schema.Feature) {
	if k.knowsFault("model.wide") || k.knowsFault("model.deep") {
		return
	}
	wide, deep := k.c.Model.HasWide(), on(k.c.Model.Deep)
	if !sparse(f.Encode) {
		if !deep {
			k.bad(path+".encode", "%s gives a dense input of the deep part, but model.deep is false: use quantile or leave the feature out", f.Encode)
		}
		return
	}
	if f.Wide != nil && *f.Wide && !wide {
		k.bad(path+".wide", "contradicts model.wide: false")
	}
	if f.Freeze > 0 && f.Init == "" {
		k.bad(path+".freeze", "has no vectors to keep: give init, the file of them")
	}
	if f.Freeze > 0 && k.c.Train.L2.Mode == "dense" {
		k.later(path+".freeze", "train.l2.mode", "dense changes every row in each step; use train.l2.mode: lazy")
	}
	if f.Init != "" && !(deep && on(f.Deep)) {
		k.bad(path+".init", "gives embeddings, which the feature has only in the deep part")
	}
	if f.Deep != nil && *f.Deep && !deep {
		k.bad(path+".deep", "contradicts model.deep: false")
	}
	if !(wide && on(f.Wide)) && !(deep && on(f.Deep)) {
		k.bad(path, "feeds neither the wide nor the deep part: leave it out")
	}
}

func (k checker) crosses() {
	byName := map[string]schema.Feature{}
	var names []string
	for _, f := range k.full.Features {
		if byName[f.Name] = f; sparse(f.Encode) {
			names = append(names, f.Name)
		}
	}
	const least, most = 2, 8
	for i, x := range k.c.Crosses {
		path := fmt.Sprintf("crosses[%d]", i)
		switch n := len(x.Of); {
		case n == 0:
			k.bad(path+".of", "is missing: name the features to cross")
		case n < least || n > most:
			k.bad(path+".of", "names %d features; a cross is made of %d to %d", n, least, most)
		}
		seen := map[string]bool{}
		for j, name := range x.Of {
			at := fmt.Sprintf("%s.of[%d]", path, j)
			f, ok := byName[name]
			switch {
			case seen[name]:
				k.bad(at, "%s occurs twice", quote(name))
			case !ok && !k.knowsFault("features") && !k.crowded():
				k.bad(at, "%s is not a feature%s", quote(name), nearest.Instead(name, names))
			case ok && among(f.Encode, encodings()) && !sparse(f.Encode):
				k.bad(at, "%s is encoded as %s, a number; a cross needs sparse features, such as quantile", quote(name), f.Encode)
			}
			seen[name] = true
		}
	}
}

// renamed checks that no two features claim one feature of the source.
func (k checker) renamed() {
	claims := map[string]string{} // by name in the source: path
	for i, f := range k.full.Features {
		if f.Was == "" {
			continue
		}
		path := fmt.Sprintf("features[%d]", i)
		if first, again := claims[f.Was]; again {
			k.bad(path+".was", "is %s, as is %s.was: one feature of the source cannot become two; leave one of them out", quote(f.Was), first)
			continue
		}
		claims[f.Was] = path
	}
	for i, f := range k.full.Features {
		first, claimed := claims[f.Name]
		if path := fmt.Sprintf("features[%d]", i); claimed && f.Was == "" && first != path {
			k.bad(first+".was", "is %s, which is still the name of %s: rename that feature, or give its own was", quote(f.Name), path)
		}
	}
}

// names checks that the names of features and crosses are unique: their tables have the same
// names.
func (k checker) names() {
	seen := map[string]string{}
	one := func(path, name, given string) {
		if name == "" {
			return // the missing field or parts are reported elsewhere
		}
		at := path
		if given != "" {
			at += ".name"
		}
		if first, again := seen[name]; again {
			k.bad(at, "is named %s, as is %s; give it another name", quote(name), first)
			return
		}
		seen[name] = path
		k.name(at, name)
	}
	for i, f := range k.full.Features {
		one(fmt.Sprintf("features[%d]", i), f.Name, k.c.Features[i].Name)
		if t := k.c.Features[i].Table; t != "" {
			k.name(fmt.Sprintf("features[%d].table", i), t)
		}
	}
	for i, x := range k.full.Crosses {
		if len(x.Of) < 2 && k.c.Crosses[i].Name == "" {
			continue // a fault already
		}
		one(fmt.Sprintf("crosses[%d]", i), x.Name, k.c.Crosses[i].Name)
		if t := k.c.Crosses[i].Table; t != "" {
			k.name(fmt.Sprintf("crosses[%d].table", i), t)
		}
	}
}
