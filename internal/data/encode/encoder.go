package encode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// Encoder maps the fields of records to keys and numbers: a schema with the statistics of
// the training data. It is the feature index stored with a model. It is immutable.
type Encoder struct {
	schema schema.Schema // with defaults filled in
	stats  []statistics
	sparse []SparseColumn
	dense  []string

	outOfFold, keepRated bool // of rates
}

// SparseColumn describes one entry of Batch.Sparse.
type SparseColumn struct {
	Name       string
	Table      string // table in which the keys are looked up
	Wide, Deep bool   // which part of the model it feeds
	Multi      bool   // a row may have more than one key
	Cross      bool
	Vocabulary int // number of words; 0 for other encodings
}

// statistics are the properties of the training data that a feature needs.
type statistics struct {
	Mean       float64   // standardise; of the logarithm if Log is set
	Deviation  float64   // standardise
	Means      []float64 // vector: of each element
	Deviations []float64 // vector
	Limits     []float64 // quantile
	Range      []float64 // standardise and quantile: least and greatest value; nil: unknown
	bounds
	Vocabulary []string  // sorted
	Rare       rareWords // strings that the vocabulary leaves out; nil: none or unknown
	Date       string    // format of the dates
	Newest     int64     // of the dates, in seconds since 1970
	Forms      forms     // hash: forms of the values; 0: unknown
	rates      *rates    // nil: not counted
	set        *keySet
	dates      *dateCode
}

// bounds are the least and the greatest value, of a vector by element, to which numbers are clipped
// before they are standardised. Without them numbers are not clipped, as in models of earlier versions.
type bounds struct {
	Least []float64 `json:"least,omitempty"`
	Most  []float64 `json:"most,omitempty"`
}

// boundsOf returns the bounds of a range, none if it is nil.
func boundsOf(r []float64) (b bounds) {
	if r != nil {
		b = bounds{r[:1:1], r[1:]}
	}
	return b
}

// with returns bounds that include others.
func (b bounds) with(o bounds) bounds {
	b = bounds{slices.Clone(b.Least), slices.Clone(b.Most)}
	for i := range min(len(b.Least), len(o.Least)) {
		b.Least[i], b.Most[i] = min(b.Least[i], o.Least[i]), max(b.Most[i], o.Most[i])
	}
	return b
}

// NewEncoder returns an Encoder with the statistics of fit, merged over all parts.
func NewEncoder(fit *Fit) (*Encoder, error) {
	stats := make([]statistics, len(fit.schema.Features))
	for i, f := range fit.schema.Features {
		s := &stats[i]
		switch e, _ := schema.EncodingOf(f.Encode); e {
		case schema.Standardise:
			scale := func(x float64) float64 { return x }
			if f.Log {
				scale = signedLog
			}
			s.Mean, s.Deviation = fit.numbersOf(f.Field).moments(scale)
			s.Range = fit.numbersOf(f.Field).extent()
			s.bounds = boundsOf(s.Range)
		case schema.Vector:
			if v := fit.vectorsOf(f.Field); f.Standardise {
				s.Means, s.Deviations = v.moments()
				s.bounds = v.bounds()
			}
		case schema.Quantile:
			s.Limits = fit.numbersOf(f.Field).limits(int64(f.Buckets))
			s.Range = fit.numbersOf(f.Field).extent()
		case schema.Vocabulary:
			s.Vocabulary = fit.wordsOf(&f).own(f.MinCount, f.MaxSize)
			s.Rare = fit.wordsOf(&f).rare(f.MinCount, f.MaxSize, s.Vocabulary)
		case schema.Hash, schema.Rate:
			s.Forms = fit.formsOf(&f).seen
		case schema.Hour, schema.Weekday, schema.Month, schema.Age:
			if err := fit.calendars[datesKey{f.Field, f.Format}].fill(&f, s); err != nil {
				return nil, fmt.Errorf("encoder: %w", err)
			}
		}
		if !clips(&f) {
			s.bounds = bounds{}
		}
	}
	return compile(fit.schema, stats)
}

// rare returns the filter of the strings that the vocabulary of a feature leaves out; nil if neither
// min_count nor max_size applies.
func (v *vocabulary) rare(least, most int64, kept []string) rareWords {
	if least <= 1 && most == 0 || len(kept) == len(v.counts) {
		return nil
	}
	own := make(map[string]bool, len(kept))
	for _, w := range kept {
		own[w] = true
	}
	r := newRareWords(len(v.counts) - len(kept))
	for w := range v.index {
		if !own[w] {
			r.add(keyOf([]byte(w)))
		}
	}
	return r
}

// clips reports whether numbers of a feature are clipped.
func clips(f *schema.Feature) bool { return f.Standardised() && (f.Clip == nil || *f.Clip) }

// compile derives the rest of an encoder from a filled schema and statistics.
func compile(s schema.Schema, stats []statistics) (*Encoder, error) {
	e := &Encoder{schema: s, stats: stats}
	var err error
	if e.sparse, e.dense, err = Outputs(s); err != nil {
		return nil, err
	}
	places := map[string]int{} // index of each sparse feature among the columns
	for place, c := range e.sparse {
		places[c.Name] = place
	}
	for i, f := range s.Features {
		enc, _ := schema.EncodingOf(f.Encode)
		if enc.Date() {
			c, err := newDateCode(&f, stats[i].Date, stats[i].Newest)
			if err != nil {
				return nil, fmt.Errorf("encoder: feature %s: %w", f.Name, err)
			}
			stats[i].dates = c
		}
		if r := stats[i].rates; r != nil && r.at == nil {
			r.index(stats[i].Means, stats[i].Deviations)
		}
		if enc == schema.Vocabulary && stats[i].set == nil {
			if err := stats[i].index(); err != nil {
				return nil, fmt.Errorf("encoder: feature %s: %w", f.Name, err)
			}
		}
		if enc.Sparse() {
			e.sparse[places[f.Name]].Vocabulary = len(stats[i].Vocabulary)
		}
	}
	return e, nil
}

// Multi returns the features and crosses of a filled schema of which a row may have several values. lists are the fields
// that are known to have lists.
func Multi(s schema.Schema, lists map[string]bool) map[string]bool {
	all := map[string]bool{}
	for _, f := range s.Features {
		all[f.Name] = f.Separator != "" || f.Pairs != "" || lists[f.Field]
	}
	for _, x := range s.Crosses {
		all[x.Name] = slices.ContainsFunc(x.Of, func(name string) bool { return all[name] })
	}
	return all
}

// Outputs describes the columns that encoders of a filled schema make, except the sizes of
// vocabularies, which depend on the data: see Encoder.Sparse and Encoder.Dense.
func Outputs(s schema.Schema) (sparse []SparseColumn, dense []string, err error) {
	if err := schema.Joined("encoder", s.Validate(nil)); err != nil {
		return nil, nil, err
	}
	multi := Multi(s, nil)
	for _, f := range s.Features {
		if enc, _ := schema.EncodingOf(f.Encode); !enc.Sparse() {
			dense = append(dense, numbersOf(&f)...)
			continue
		}
		sparse = append(sparse, SparseColumn{
			Name: f.Name, Table: f.Table, Wide: *f.Wide, Deep: *f.Deep, Multi: multi[f.Name],
		})
	}
	for _, x := range s.Crosses {
		sparse = append(sparse, SparseColumn{Name: x.Name, Table: x.Table, Wide: true, Cross: true, Multi: multi[x.Name]})
	}
	return sparse, dense, nil
}

// numbersOf returns the names of the numbers of a dense feature.
func numbersOf(f *schema.Feature) (names []string) {
	e, _ := schema.EncodingOf(f.Encode)
	if e != schema.Vector && e != schema.Rate {
		return []string{f.Name}
	}
	for k := range f.Width() {
		names = append(names, element(f.Name, int64(k)))
	}
	return names
}

// element returns the name of one number of a vector or a rate.
func element(vector string, k int64) string { return fmt.Sprintf("%s[%d]", vector, k) }

// index hashes the vocabulary.
func (s *statistics) index() error {
	s.set = newKeySet(len(s.Vocabulary))
	s.set.rare, s.set.forms = s.Rare, formsOfWords(s.Vocabulary)
	for _, w := range s.Vocabulary {
		s.set.add(keyOf([]byte(w)))
	}
	if s.set.n != len(s.Vocabulary) {
		return errors.New("two values of the vocabulary have one key; use encode: hash")
	}
	return nil
}

// Sparse describes Batch.Sparse: the sparse features in the order of the
// schema, then the crosses. The caller must not change the slice.
func (e *Encoder) Sparse() []SparseColumn { return e.sparse }

// WithLabels returns e for records with other labels.
func (e *Encoder) WithLabels(first schema.Label, more []schema.Label) *Encoder {
	other := *e
	other.schema.Label, other.schema.Labels = first, more
	return &other
}

// WithGroup returns e for batches with one more entry of Batch.Sparse, at place: a hash of
// the value of a field, or KeyMissing.
func (e *Encoder) WithGroup(field string) (with *Encoder, place int, err error) {
	s, no := e.schema, false
	name := "group of " + field
	s.Features = append(slices.Clip(s.Features), schema.Feature{Name: name, Field: field, Encode: "hash", Table: name, Wide: &no, Deep: &no})
	if with, err = compile(s, append(slices.Clip(e.stats), statistics{})); err != nil {
		return nil, 0, err
	}
	return with, slices.IndexFunc(with.sparse, func(c SparseColumn) bool { return c.Name == name }), nil
}

// WithIntervals returns e for batches with one more entry of Batch.Sparse, like WithGroup:
// the number of the interval between edges that holds the value of a numeric field, or
// KeyMissing.
func (e *Encoder) WithIntervals(field string, edges []float64) (with *Encoder, err error) {
	s, no := e.schema, false
	name := "interval of " + field
	s.Features = append(slices.Clip(s.Features), schema.Feature{Name: name, Field: field, Encode: "boundaries", Boundaries: edges, Table: name, Wide: &no, Deep: &no})
	return compile(s, append(slices.Clip(e.stats), statistics{}))
}

// Intervals returns the limits between at most most intervals of a field: the intervals of its first
// feature that divides it, quantile or boundaries, or some of them. It returns nil if there
// is none, or if a record has several values.
func (e *Encoder) Intervals(field string, most int) (edges []float64) {
	for i := range e.schema.Features {
		f, all := &e.schema.Features[i], e.stats[i].Limits
		if f.Encode == "boundaries" {
			all = f.Boundaries
		}
		if f.Field != field || f.Separator != "" || len(all) == 0 {
			continue
		}
		n := min(len(all), most-1)
		for k := range n {
			edges = append(edges, all[(2*k+1)*len(all)/(2*n)])
		}
		return edges
	}
	return nil
}

// Lacks returns the faults of the schema for records with these fields.
func (e *Encoder) Lacks(fields []string) []error { return e.schema.Validate(fields) }

// Dense names the columns of Batch.Dense. The caller must not change the slice.
func (e *Encoder) Dense() []string { return e.dense }

// The encoder's text form. It has separate types so that the file format does not change
// with the names of fields in this package.
type (
	indexJSON struct {
		Format   string        `json:"format"`
		Version  int           `json:"version"`
		Label    labelJSON     `json:"label"`
		Labels   []labelJSON   `json:"labels,omitempty"`
		Features []featureJSON `json:"features"`
		Crosses  []crossJSON   `json:"crosses,omitempty"`
	}
	labelJSON struct {
		Field     string   `json:"field"`
		Positive  []string `json:"positive,omitempty"`
		Negative  []string `json:"negative,omitempty"`
		Threshold *float64 `json:"threshold,omitempty"`

		Kind       string  `json:"kind,omitempty"`
		Loss       string  `json:"loss,omitempty"`
		Weight     string  `json:"weight,omitempty"`
		LossWeight float64 `json:"loss_weight,omitempty"`
	}
	featureJSON struct {
		Name      string `json:"name"`
		Field     string `json:"field"`
		Encode    string `json:"encode"`
		Separator string `json:"separator,omitempty"`
		Weights   string `json:"weights,omitempty"`
		Buckets   uint64 `json:"buckets,omitempty"`
		MinCount  int64  `json:"min_count,omitempty"`
		MaxSize   int64  `json:"max_size,omitempty"`
		Log       bool   `json:"log,omitempty"`
		datesJSON
		partsJSON
		Boundaries []float64 `json:"boundaries,omitempty"`
		Mean       float64   `json:"mean,omitempty"`
		Deviation  float64   `json:"deviation,omitempty"`
		Limits     []float64 `json:"limits,omitempty"`
		Vocabulary []string  `json:"vocabulary,omitempty"`
		Date       string    `json:"date,omitempty"`
		Newest     int64     `json:"newest,omitempty"`
		Range      []float64 `json:"range,omitempty"`
		Forms      []string  `json:"forms,omitempty"`
		bounds
		listJSON
		vectorJSON
		Rates *rates `json:"rates,omitempty"`
		wordsJSON
	}
	wordsJSON struct {
		// Words that are not valid UTF-8, which JSON strings cannot hold.
		Bytes [][]byte  `json:"vocabulary_base64,omitempty"`
		Rare  rareWords `json:"rare_base64,omitempty"`
	}
	datesJSON struct {
		Format    string `json:"format,omitempty"`
		Zone      string `json:"zone,omitempty"`
		Reference string `json:"reference,omitempty"`
	}
	partsJSON struct {
		Table string `json:"table,omitempty"`
		Wide  *bool  `json:"wide,omitempty"`
		Deep  *bool  `json:"deep,omitempty"`
	}
	listJSON struct {
		Pairs   string `json:"pairs,omitempty"`
		Padding string `json:"padding,omitempty"`
		MaxLen  int64  `json:"max_len,omitempty"`
	}
	vectorJSON struct {
		Size        int64     `json:"size,omitempty"`
		Standardise bool      `json:"standardise,omitempty"`
		Means       []float64 `json:"means,omitempty"`
		Deviations  []float64 `json:"deviations,omitempty"`
	}
	crossJSON struct {
		Name    string   `json:"name"`
		Of      []string `json:"of"`
		Buckets uint64   `json:"buckets,omitempty"`
		Table   string   `json:"table"`
	}
)

const (
	indexFormat  = "wdlrun feature index"
	indexVersion = 1
	maxIndex     = 1 << 30 // bytes
)

// Marshal encodes e as JSON, for LoadEncoder. Equal encoders give equal bytes.
func (e *Encoder) Marshal() ([]byte, error) {
	x := indexJSON{Format: indexFormat, Version: indexVersion, Label: labelJSON(e.schema.Label)}
	for _, l := range e.schema.Labels {
		x.Labels = append(x.Labels, labelJSON(l))
	}
	for i, f := range e.schema.Features {
		s := &e.stats[i]
		j := featureJSON{
			Name: f.Name, Field: f.Field, Encode: f.Encode, Separator: f.Separator, Weights: f.Weights, Buckets: f.Buckets,
			MinCount: f.MinCount, MaxSize: f.MaxSize, Log: f.Log, partsJSON: partsJSON{f.Table, f.Wide, f.Deep},
			Boundaries: f.Boundaries, Mean: s.Mean, Deviation: s.Deviation, Limits: s.Limits,
			datesJSON: datesJSON{f.Format, f.Zone, f.Reference}, Date: s.Date, Newest: s.Newest, Range: s.Range,
			Forms: s.Forms.names(), bounds: s.bounds,
			listJSON: listJSON{f.Pairs, f.Padding, f.MaxLen}, vectorJSON: vectorJSON{f.Size, f.Standardise, s.Means, s.Deviations}, Rates: s.rates, wordsJSON: wordsJSON{Rare: s.Rare},
		}
		for _, w := range s.Vocabulary {
			if utf8.ValidString(w) {
				j.Vocabulary = append(j.Vocabulary, w)
			} else {
				j.Bytes = append(j.Bytes, []byte(w))
			}
		}
		x.Features = append(x.Features, j)
	}
	for _, c := range e.schema.Crosses {
		x.Crosses = append(x.Crosses, crossJSON(c))
	}
	b, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("encoder: %w; settings must be UTF-8 text and finite numbers", err)
	}
	if len(b) > maxIndex {
		return nil, fmt.Errorf("encoder: the feature index takes %d bytes, at most %d are possible; use encode: hash for large vocabularies", len(b), maxIndex)
	}
	return b, nil
}

// LoadEncoder decodes the output of Marshal.
func LoadEncoder(b []byte) (*Encoder, error) {
	if len(b) > maxIndex {
		return nil, fmt.Errorf("load encoder: %d bytes, at most %d are possible", len(b), maxIndex)
	}
	var x indexJSON
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(&x)
	if err != nil { // another version may have other keys
		x.Format, x.Version = "", 0
		json.Unmarshal(b, &struct {
			Format  *string `json:"format"`
			Version *int    `json:"version"`
		}{&x.Format, &x.Version})
	}
	switch {
	case x.Format == indexFormat && x.Version != indexVersion:
		return nil, fmt.Errorf("load encoder: the feature index is of version %d, this program reads version %d, in which values may have other keys: use the version of wdlrun that trained the model, or train a new model", x.Version, indexVersion)
	case err != nil:
		return nil, fmt.Errorf("load encoder: not a feature index: %w", err)
	case x.Format != indexFormat:
		return nil, fmt.Errorf("load encoder: it is %q, not a %s", x.Format, indexFormat)
	case d.More():
		return nil, errors.New("load encoder: there is more behind the feature index")
	}
	s := schema.Schema{Label: schema.Label(x.Label)}
	for _, l := range x.Labels {
		s.Labels = append(s.Labels, schema.Label(l))
	}
	stats := make([]statistics, len(x.Features))
	for i, j := range x.Features {
		s.Features = append(s.Features, schema.Feature{
			Name: j.Name, Field: j.Field, Encode: j.Encode, Separator: j.Separator, Weights: j.Weights, Buckets: j.Buckets,
			MinCount: j.MinCount, MaxSize: j.MaxSize, Log: j.Log, Table: j.Table, Wide: j.Wide, Deep: j.Deep, Boundaries: j.Boundaries,
			Format: j.Format, Zone: j.Zone, Reference: j.Reference, Size: j.Size, Standardise: j.Standardise,
			Pairs: j.Pairs, Padding: j.Padding, MaxLen: j.MaxLen,
		})
		st := statistics{Mean: j.Mean, Deviation: j.Deviation, Limits: j.Limits, Vocabulary: j.Vocabulary, Date: j.Date, Newest: j.Newest, Range: j.Range, Means: j.Means, Deviations: j.Deviations, bounds: j.bounds, rates: j.Rates, Rare: j.Rare}
		for _, w := range j.Bytes {
			st.Vocabulary = append(st.Vocabulary, string(w))
		}
		slices.Sort(st.Vocabulary)
		st.Forms = formsNamed(j.Forms)
		if has := st.rates != nil; has && j.Encode != rateName || j.Encode == rateName && len(st.Means) != map[bool]int{true: schema.RateWidth}[has] {
			return nil, fmt.Errorf("load encoder: features[%d]: counts of rates without their means, or means without counts", i)
		}
		if n := len(st.Means); n != len(st.Deviations) || j.Standardise && j.Encode == "vector" && int64(n) != j.Size {
			return nil, fmt.Errorf("load encoder: features[%d]: %d means and %d deviations of %d elements", i, n, len(st.Deviations), j.Size)
		}
		if err := st.check(); err != nil {
			return nil, fmt.Errorf("load encoder: features[%d]: %w", i, err)
		}
		stats[i] = st
	}
	for _, c := range x.Crosses {
		s.Crosses = append(s.Crosses, schema.Cross(c))
	}
	return compile(s.Fill(), stats)
}

func (s *statistics) check() error {
	if !isFinite(s.Mean) || !isFinite(s.Deviation) || s.Deviation < 0 || math.Abs(s.Mean) > math.MaxFloat32 {
		return fmt.Errorf("mean %v, deviation %v", s.Mean, s.Deviation)
	}
	if err := s.Rare.check(); err != nil {
		return err
	}
	for i, x := range s.Means {
		if d := s.Deviations[i]; !isFinite(x) || !isFinite(d) || d < 0 {
			return fmt.Errorf("element %d: mean %v, deviation %v", i, x, d)
		}
	}
	for i, x := range s.Limits {
		if !isFinite(x) || i > 0 && x <= s.Limits[i-1] {
			return fmt.Errorf("limits do not ascend at %v", x)
		}
	}
	if r := s.Range; r != nil && (len(r) != 2 || !isFinite(r[0]) || !isFinite(r[1]) || r[0] > r[1]) {
		return fmt.Errorf("range %v", r)
	}
	for i, x := range s.Least {
		if len(s.Most) != len(s.Least) || len(s.Least) != max(len(s.Means), 1) || !isFinite(x) || !isFinite(s.Most[i]) || x > s.Most[i] {
			return fmt.Errorf("bounds %v and %v", s.Least, s.Most)
		}
	}
	return nil
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
