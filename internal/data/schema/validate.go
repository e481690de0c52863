package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of a schema.
const (
	maxQuantiles = 1 << 16
	minOf        = 2 // features of a cross
	MaxOf        = 8
	MaxCrossed   = 1024 // combinations of one cross in one record
	MaxInputs    = 1 << 14
	MaxVector    = 1 << 12 // elements
)

// defaultQuantiles is the default number of intervals of a quantile feature. The published
// results for Adult use it.
const defaultQuantiles = 33

// Fill returns the schema with defaults filled in. It is idempotent. Encoders use filled
// schemas.
func (s Schema) Fill() Schema {
	s.Features, s.Crosses = slices.Clone(s.Features), slices.Clone(s.Crosses)
	if len(s.Label.Positive) == 0 && s.Label.Threshold == nil && !s.Label.IsNumber() && !s.Label.IsNone() {
		s.Label.Positive = []string{"1"}
		if len(s.Label.Negative) == 0 {
			s.Label.Negative = []string{"0"}
		}
	}
	taken := map[string]bool{}
	for _, f := range s.Features {
		taken[f.Name] = true
	}
	for i := range s.Features {
		f := &s.Features[i]
		if f.Name == "" && f.Field != "" {
			if f.Name = f.Field; taken[f.Name] {
				f.Name = f.Field + "_" + f.Encode
			}
			taken[f.Name] = true
		}
		f.fill()
	}
	for i := range s.Crosses {
		x := &s.Crosses[i]
		if x.Name == "" {
			x.Name = strings.Join(x.Of, "_x_")
		}
		if x.Table == "" {
			x.Table = x.Name
		}
	}
	return s
}

func (f *Feature) fill() {
	e, ok := EncodingOf(f.Encode)
	if !ok {
		return
	}
	switch {
	case e == Quantile && f.Buckets == 0:
		f.Buckets = defaultQuantiles
	case e == Vocabulary && f.MinCount == 0:
		f.MinCount = 1
	}
	if e.Sparse() {
		yes := true
		if f.Table == "" {
			f.Table = f.Name
		}
		if f.Wide == nil {
			f.Wide = &yes
		}
		if f.Deep == nil {
			f.Deep = &yes
		}
	}
}

// Validate returns all faults of the schema, nil if there are none. fields are the fields
// of a record; nil if not known yet. Each error begins with the place: "label: …",
// "features[3] (age): …".
func (s Schema) Validate(fields []string) []error {
	v := validator{fields: fields, times: make(map[string]int, len(fields)), schema: s, full: s.Fill()}
	for _, name := range fields {
		v.times[name]++
	}
	v.label()
	v.labels()
	if len(s.Features) == 0 {
		v.Bad("features", "there are none; the model needs at least one input")
	}
	if n := len(s.Features) + len(s.Crosses); n > MaxInputs {
		v.Bad("features", "%d features and crosses, at most %d are possible", n, MaxInputs)
		return v.Faults
	}
	for i := range s.Features {
		v.feature(i)
	}
	for i := range s.Crosses {
		v.cross(i)
	}
	if s.HoldOut != "" {
		v.field("field that splits or groups the records", s.HoldOut)
	}
	v.names()
	return v.summarised()
}

// maxAlone is the maximum number of missing fields that are reported one by one. If more
// are missing, the file is probably the wrong one.
const maxAlone = 2

// summarised returns the faults, with one fault in place of those about missing fields if
// there are more than maxAlone.
func (v *validator) summarised() []error {
	if len(v.absent) <= maxAlone {
		return v.Faults
	}
	first := func(names []string) string {
		text := fmt.Sprintf("%.40q", names[:min(len(names), 3)])
		text = strings.ReplaceAll(text[1:len(text)-1], `" "`, `", "`)
		if len(names) > 3 {
			text += ", …"
		}
		return text
	}
	all := []error{fmt.Errorf("%d fields are missing: %s; the file has %d: %s; is it the right one?", len(v.absent), first(v.absent), len(v.fields), first(v.fields))}
	if other := v.otherCase(); other != nil {
		all[0] = fmt.Errorf("%d fields are missing: %s; the names in the file differ only in case: %s; write them so in the configuration, or rename the columns", len(v.absent), first(v.absent), first(other))
	}
	for i, err := range v.Faults {
		if !slices.Contains(v.alone, i) {
			all = append(all, err)
		}
	}
	return all
}

// otherCase returns the fields of the file that differ from the missing ones only in case, nil if
// some do not exist.
func (v *validator) otherCase() (names []string) {
	for _, name := range v.absent {
		i := slices.IndexFunc(v.fields, func(f string) bool { return strings.EqualFold(f, name) })
		if i < 0 {
			return nil
		}
		names = append(names, v.fields[i])
	}
	return names
}

func (v *validator) label() {
	l := v.schema.Label
	if l.IsNone() {
		return
	}
	v.field("label", l.Field)
	if l.Threshold != nil {
		if len(l.Positive) > 0 || len(l.Negative) > 0 {
			v.Bad("label", "has a threshold and lists of values; keep one of the two")
		}
		if !finite(*l.Threshold) {
			v.Bad("label", "threshold is %v, a finite number is needed", *l.Threshold)
		}
	}
	if l.Threshold == nil && len(l.Positive) == 0 && len(l.Negative) > 0 {
		v.Bad("label", "negative is given without positive; say which values are 1")
	}
	v.text("label", slices.Concat([]string{l.Field}, l.Positive, l.Negative)...)
	for _, p := range l.Positive {
		if slices.Contains(l.Negative, p) {
			v.Bad("label", "%q is both positive and negative", p)
		}
	}
}

func (v *validator) feature(i int) {
	f := v.schema.Features[i]
	place := fmt.Sprintf("features[%d]", i)
	if name := v.full.Features[i].Name; name != "" {
		place += " (" + name + ")"
	}
	v.field(place, f.Field)
	for _, l := range v.schema.All() {
		if f.Field != "" && f.Field == l.Field && !l.IsNone() {
			v.Bad(place, "its field is the label; a model that sees the label learns nothing else")
		}
	}
	e, ok := EncodingOf(f.Encode)
	switch {
	case f.Encode == "":
		v.Bad(place, "encode is missing; say how the field becomes an input%s", v.instead("", Encodings()))
		return
	case !ok:
		v.Bad(place, "encode is %q%s", f.Encode, v.instead(f.Encode, Encodings()))
		return
	}
	for _, o := range []struct {
		name         string
		given, reads bool
	}{
		{"separator", f.Separator != "", e.Text() || e == Vector || e == Rate},
		{"size", f.Size != 0, e == Vector},
		{"standardise", f.Standardise, e == Vector},
		{"weights", f.Weights != "", e.Text()},
		{"pairs", f.Pairs != "", e.Text()},
		{"padding", f.Padding != "", e.Text()},
		{"max_len", f.MaxLen != 0, e.Text()},
		{"buckets", f.Buckets != 0, e == Hash || e == Quantile},
		{"boundaries", len(f.Boundaries) > 0, e == Boundaries},
		{"min_count", f.MinCount != 0, e == Vocabulary},
		{"max_size", f.MaxSize != 0, e == Vocabulary},
		{"log", f.Log, e == Standardise || e == Age},
		{"clip", f.Clip != nil, f.Standardised()},
		{"format", f.Format != "", e.Date()},
		{"zone", f.Zone != "", e.Date() && e.Sparse()},
		{"reference", f.Reference != "", e == Age},
		{"table", f.Table != "", e.Sparse()},
		{"wide", f.Wide != nil, e.Sparse()},
		{"deep", f.Deep != nil, e.Sparse()},
	} {
		if o.given && !o.reads {
			v.Bad(place, "%s has no meaning with encode: %s; remove it", o.name, f.Encode)
		}
	}
	if f.Weights != "" {
		v.field(place+": weights", f.Weights)
	}
	switch {
	case f.Pairs != "" && f.Weights != "":
		v.Bad(place, "has pairs and weights; the weights are either in the field or in another one")
	case f.Pairs != "" && f.Pairs == f.Separator:
		v.Bad(place, "pairs and separator are both %q", f.Pairs)
	}
	v.text(place, f.Pairs, f.Padding)
	v.text(place, f.Name, f.Field, f.Separator, f.Weights, f.Table, f.Format)
	for key, why := range f.DateFaults() {
		v.Bad(place, "%s: %s", key, why)
	}
	v.values(place, f, e)
}

// values checks the numbers of a feature.
func (v *validator) values(place string, f Feature, e Encoding) {
	if f.MinCount < 0 {
		v.Bad(place, "min_count is %d, at least 1 is needed", f.MinCount)
	}
	if f.MaxSize < 0 {
		v.Bad(place, "max_size is %d, at least 1 is needed", f.MaxSize)
	}
	if e == Quantile && (f.Buckets == 1 || f.Buckets > maxQuantiles) {
		v.Bad(place, "buckets is %d, quantiles are from 2 to %d", f.Buckets, maxQuantiles)
	}
	if e == Vector && (f.Size < 1 || f.Size > MaxVector) {
		v.Bad(place, "size is %d; a vector has from 1 to %d elements", f.Size, MaxVector)
	}
	for _, o := range v.schema.Features {
		if other, _ := EncodingOf(o.Encode); o.Field == f.Field && e == Vector && (other.Number() || other == Vector && (o.Size != f.Size || o.Separator != f.Separator)) {
			v.Bad(place, "its field is also read with encode: %s, size %d and separator %q; a field contains vectors of one size and form", o.Encode, o.Size, o.Separator)
			break
		}
	}
	if e != Boundaries {
		return
	}
	if len(f.Boundaries) == 0 || len(f.Boundaries) > maxQuantiles {
		v.Bad(place, "boundaries has %d limits, from 1 to %d are needed", len(f.Boundaries), maxQuantiles)
	}
	for j, b := range f.Boundaries {
		if !finite(b) || j > 0 && b <= f.Boundaries[j-1] {
			v.Bad(place, "boundaries[%d] is %v; boundaries are finite numbers that ascend", j, b)
			return
		}
	}
}

func (v *validator) cross(i int) {
	x := v.schema.Crosses[i]
	place := fmt.Sprintf("crosses[%d]", i)
	if name := v.full.Crosses[i].Name; name != "" {
		place += " (" + name + ")"
	}
	v.text(place, x.Name, x.Table)
	if n := len(x.Of); n < minOf || n > MaxOf {
		v.Bad(place, "is made of %d features, from %d to %d are possible", n, minOf, MaxOf)
	}
	var sparse []string
	for _, f := range v.full.Features {
		if e, ok := EncodingOf(f.Encode); ok && e.Sparse() {
			sparse = append(sparse, f.Name)
		}
	}
	for j, name := range x.Of {
		if slices.Contains(x.Of[:j], name) {
			v.Bad(place, "%q occurs twice", name)
			continue
		}
		if slices.Contains(sparse, name) {
			continue
		}
		if v.full.index(name) >= 0 {
			v.Bad(place, "%q is a number; a cross is made of sparse features, such as quantile", name)
		} else {
			v.Bad(place, "there is no feature %q%s", name, v.instead(name, sparse))
		}
	}
}

// index returns the index of a feature, −1 if there is none of that name.
func (s Schema) index(name string) int {
	return slices.IndexFunc(s.Features, func(f Feature) bool { return f.Name == name })
}

// names checks that no two features or crosses have one name.
func (v *validator) names() {
	first := map[string]string{}
	one := func(place, name string) {
		if name == "" {
			return
		}
		if at, again := first[name]; again {
			v.Bad(place, "is named %s, as %s is; give it another name", strconv.Quote(name), at)
			return
		}
		first[name] = place
	}
	for i, f := range v.full.Features {
		one(fmt.Sprintf("features[%d]", i), f.Name)
	}
	for i, x := range v.full.Crosses {
		one(fmt.Sprintf("crosses[%d]", i), x.Name)
	}
}

// Validate returns all faults of the settings of a source, except for its files.
func (s Source) Validate() []error {
	var v validator
	if !slices.Contains(Formats(), s.FormatName()) {
		v.Bad("format", "is %q%s", s.Format, v.instead(s.Format, Formats()))
	}
	if s.Delimiter != "" && (len(s.Delimiter) != 1 || strings.ContainsAny(s.Delimiter, "\"\r\n\x00")) {
		v.Bad("delimiter", "is %q, one byte is needed, and no quote or line break", s.Delimiter)
	}
	if s.Hosts != "" && !slices.Contains(Hosting(), s.Hosts) {
		v.Bad("hosts", "is %q%s", s.Hosts, v.instead(s.Hosts, Hosting()))
	}
	if s.EachHost() && s.Follow.On {
		v.Bad("hosts", "is each, and rank 0 finds the new files of data.follow: use a shared folder, an object store or a topic, with hosts: shared")
	}
	if s.TrainWhere != "" && s.Follow.On {
		v.Bad("train_where", "cannot be combined with data.follow: write the condition as where")
	}
	if s.ValidWhere != "" && len(s.Valid) == 0 {
		v.Bad("valid_where", "has no effect without data.valid")
	}
	if !(s.ValidFraction >= 0 && s.ValidFraction < 1) {
		v.Bad("valid_fraction", "is %v, a share from 0 up to, not including, 1 is needed", s.ValidFraction)
	}
	if s.ValidFraction > 0 && len(s.Valid) > 0 {
		v.Bad("valid_fraction", "is given with valid; keep one of the two")
	}
	if s.MaxBad < 0 {
		v.Bad("max_bad", "is %d, at least 0 is needed", s.MaxBad)
	}
	if slices.Contains(Formats(), s.FormatName()) {
		v.layout(s)
	}
	if strings.ContainsAny(s.Comment, "\r\n") {
		v.Bad("comment", "is %q, it cannot hold a line break", s.Comment)
	}
	return v.Faults
}

// layout checks the settings of lines of text.
func (v *validator) layout(s Source) {
	if !s.HasLayout() {
		for _, o := range []struct {
			name  string
			given bool
		}{{"delimiter", s.Delimiter != ""}, {"header", s.Header}, {"fields", len(s.Fields) > 0}, {"comment", s.Comment != ""}, {"multiline", s.Multiline}, {"escape", s.Escape != ""}} {
			if o.given {
				v.Bad(o.name, "has no meaning with format: %s; remove it", s.Format)
			}
		}
		return
	}
	if s.Header && len(s.Fields) > 0 {
		v.Bad("fields", "are given with header: true; the header names them, keep one of the two")
	}
	if s.Multiline && s.FormatName() != "csv" && s.Escape != EscapeAll {
		v.Bad("multiline", "has no meaning with format: %s, whose fields are not quoted; remove it", s.Format)
	}
	switch {
	case s.Escape != "" && !slices.Contains(Escapes(), s.Escape):
		v.Bad("escape", "is %q%s", s.Escape, v.instead(s.Escape, Escapes()))
	case s.Escape == EscapeQuoted && s.FormatName() != "csv":
		v.Bad("escape", "quoted has no meaning with format: %s, whose fields are not quoted; use format: csv with a delimiter, or escape: all", s.Format)
	}
	if !s.Header && len(s.Fields) == 0 {
		v.Bad("fields", "are missing; name them in the order of the file, or set header: true if its first line does")
	}
}

// Joined joins faults into one error; nil if there are none.
func Joined(prefix string, faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", prefix, errors.Join(faults...))
}

// NeedsFit returns the features that need statistics from training data or a feature
// index.
func (s Schema) NeedsFit() (names []string) {
	for _, f := range s.Fill().Features {
		if f.Fitted() {
			names = append(names, f.Name)
		}
	}
	return names
}
