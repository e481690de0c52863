package config

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/optim"
)

// checker compares settings with each other. c is the Config as written; full has its
// defaults. A fault that only repeats a fault of a single value is not recorded.
type checker struct {
	*decoder
	c, full *Config
	fields  map[string]int // names of data.fields with their indexes
}

// checkValue checks one value of the file.
func (d *decoder) checkValue(path string, k key, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Slice:
		if v.Len() > maxItems {
			d.fault(d.where(path), path, "has %d entries, at most %d are possible", v.Len(), maxItems)
		}
		return
	case v.Kind() == reflect.String && !utf8.ValidString(v.String()):
		d.fault(d.where(path), path, "is not UTF-8")
		return
	}
	item := strings.HasSuffix(path, "]") // a zero in a list is explicit
	if v.IsZero() && (!item || v.Kind() == reflect.String) || d.knowsFault(path) {
		return
	}
	if why := k.complaint(v); why != "" {
		d.fault(d.where(path), path, "%s", why)
	}
}

// bad records a fault unless a value at path is already rejected.
func (k checker) bad(path, format string, args ...any) {
	if !k.knowsFault(path) {
		k.fault(k.where(path), path, format, args...)
	}
}

// later records a fault at the second in the file of two settings that exclude each other.
func (k checker) later(a, b, why string) {
	if k.knowsFault(a) || k.knowsFault(b) {
		return
	}
	pa, pb := k.where(a), k.where(b)
	if pa.line > pb.line || pa.line == pb.line && pa.column > pb.column {
		a, b = b, a
	}
	k.bad(b, "contradicts %s: %s", a, why)
}

func (k checker) source() {
	s := k.c.Data
	if len(s.Train) == 0 {
		k.bad("data.train", "is missing: name the files of the training data")
	}
	for _, list := range []struct {
		name  string
		files []string
	}{{"train", s.Train}, {"test", s.Test}, {"valid", s.Valid}} {
		for i, f := range list.files {
			if f == "" {
				k.bad(fmt.Sprintf("data.%s[%d]", list.name, i), "is empty; it must name a file")
			}
		}
	}
	if len(s.Valid) > 0 && s.ValidFraction != 0 {
		k.later("data.valid", "data.valid_fraction", "validation data is either separate files or a share of the training data")
	}
	if len(s.Delimiter) > 1 || s.Delimiter != "" && strings.Contains("\"\r\n\x00", s.Delimiter) {
		k.bad("data.delimiter", "is %s; it must be one byte, and neither a line end nor a double quote", quote(s.Delimiter))
	} else if s.Format == "tsv" && s.Delimiter != "" && s.Delimiter != "\t" {
		k.later("data.format", "data.delimiter", "tsv has tabs; for another delimiter use csv")
	}
	if strings.ContainsAny(s.Comment, "\r\n") {
		k.bad("data.comment", "holds a line end, with which no line starts")
	}
	switch {
	case k.knowsFault("data.format"):
	case !s.HasLayout():
		for _, o := range []struct {
			name  string
			given bool
		}{{"delimiter", s.Delimiter != ""}, {"header", s.Header}, {"fields", len(s.Fields) > 0}, {"comment", s.Comment != ""}, {"multiline", s.Multiline}, {"escape", s.Escape != ""}} {
			if o.given {
				k.later("data.format", "data."+o.name, s.Format+" defines the layout of its records")
			}
		}
	case s.Escape == schema.EscapeQuoted && s.Format == "tsv":
		k.later("data.format", "data.escape", "fields of tsv are not quoted; use format: csv with a delimiter, or escape: all")
	case s.Header && len(s.Fields) > 0:
		k.later("data.header", "data.fields", "names come from the header line or from fields")
	case !s.Header && len(s.Fields) == 0 && !k.knowsFault("data.header"):
		k.bad("data.fields", "is missing: name the fields in file order, or set header: true where the first line does")
	}
	for i, f := range s.Fields {
		path := fmt.Sprintf("data.fields[%d]", i)
		if first, again := k.fields[f]; again {
			k.bad(path, "is %s, as is data.fields[%d]; names must differ", quote(f), first)
			continue
		}
		k.fields[f] = i
		k.name(path, f)
	}
	k.derived()
}

// derived checks the expressions of derived columns and adds the column names to fields.
func (k checker) derived() {
	s := k.c.Data
	if k.unlabelled {
		s = s.For(schema.Schema{Features: k.c.Features}.Unlabelled().Fields())
	}
	s.DeriveFaults(s.Fields, func(key, why string) { k.bad("data."+key, "%s", why) })
	for _, d := range s.Derive {
		k.name("data.derive."+d.Name(), d.Name())
		if len(k.fields) > 0 {
			k.fields[d.Name()] = len(k.fields)
		}
	}
}

// holdOut checks the settings that select the validation rows from the training data.
func (k checker) holdOut() {
	s := k.c.Data
	for _, x := range []struct{ path, field string }{{"data.valid_time", s.ValidTime}, {"data.valid_group", s.ValidGroup}} {
		switch {
		case x.field == "":
		case s.ValidFraction == 0 && !k.knowsFault("data.valid_fraction"):
			k.bad(x.path, "needs data.valid_fraction, the share that is held out: set it, such as 0.1, or remove %s", x.path)
		default:
			k.field(x.path, x.field)
		}
	}
	if s.ValidTime != "" && s.ValidGroup != "" {
		k.later("data.valid_time", "data.valid_group", "records are held out by their time or by their group")
	}
}

// name checks that a name can be printed on one line.
func (k checker) name(path, s string) {
	const longest = 256
	switch {
	case s == "":
		k.bad(path, "is empty; it must be a name")
	case len(s) > longest:
		k.bad(path, "has %d bytes; a name has at most %d", len(s), longest)
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		k.bad(path, "is %s; a name has no control characters", quote(s))
	}
}

// field checks that a field exists, as far as the configuration determines it.
func (k checker) field(path, f string) {
	if f == "" {
		k.bad(path, "is missing: name a field of the data")
		return
	}
	if _, ok := k.fields[f]; ok || len(k.fields) == 0 || k.knowsFault("data.fields") {
		return
	}
	if k.crowded() {
		return // skip the search for similar names
	}
	k.bad(path, "%s is not a field of the data%s", quote(f), nearest.Instead(f, k.c.Data.Fields))
}

// labelField is field for a field that only records with labels have.
func (k checker) labelField(path, f string) {
	if f == "" || !k.unlabelled {
		k.field(path, f)
	}
}

func (k checker) label() {
	l := k.c.Label
	k.labelField("label.field", l.Field)
	if len(l.Positive) > 0 && l.Threshold != nil {
		k.later("label.positive", "label.threshold", "a label is positive by its value or by a threshold")
	}
	if len(l.Negative) > 0 && len(l.Positive) == 0 {
		k.bad("label.negative", "also needs label.positive")
	}
	positive := map[string]bool{}
	for _, p := range l.Positive {
		positive[p] = true
	}
	for i, n := range l.Negative {
		if positive[n] {
			k.bad(fmt.Sprintf("label.negative[%d]", i), "%s is among label.positive too", quote(n))
		}
	}
	if l.Weight != "" {
		k.labelField("label.weight", l.Weight)
	}
	if l.IsNumber() {
		for _, x := range []struct {
			path  string
			given bool
		}{{"label.positive", len(l.Positive) > 0}, {"label.negative", len(l.Negative) > 0}, {"label.threshold", l.Threshold != nil}, {"train.class_weight", k.c.Train.ClassWeight != Classes{}}} {
			if x.given {
				k.later("label.kind", x.path, "a number has no classes")
			}
		}
		if l.Loss == schema.FakeNegative {
			k.later("label.kind", "label.loss", "fake_negative is for a binary label")
		}
	} else if l.Loss != "" && !l.IsFakeNegative() {
		k.bad("label.loss", "has no meaning without kind: number; a binary label has the log-loss, or fake_negative")
	}
	if l.IsFakeNegative() && k.c.Data.NegativeRate != 0 && k.c.Data.NegativeRate != 1 {
		k.later("data.negative_rate", "label.loss", "fake_negative needs the first, negative sample of each positive one")
	}
	if rate := k.c.Data.NegativeRate; rate != 0 && rate != 1 {
		if l.IsNumber() {
			k.later("data.negative_rate", "label.kind", "a number has no negatives")
		}
		if len(k.c.Labels) > 0 {
			k.later("data.negative_rate", "labels", "the records that stay are chosen by the first label, which would shift the others; give label.weight")
		}
	}
	k.labels()
}

// labels checks the labels after the first.
func (k checker) labels() {
	if most := schema.MaxLabels - 1; len(k.c.Labels) > most {
		k.bad("labels", "has %d entries, at most %d are possible", len(k.c.Labels), most)
	}
	seen := map[string]bool{k.c.Label.Field: true}
	for i, l := range k.c.Labels {
		path := fmt.Sprintf("labels[%d]", i)
		k.labelField(path+".field", l.Field)
		if seen[l.Field] {
			k.bad(path+".field", "%s is a label already", quote(l.Field))
		}
		seen[l.Field] = true
		for _, x := range []struct {
			name  string
			given bool
			why   string
		}{
			{"positive", len(l.Positive) > 0, "is for label; this one is a number: give a threshold, or make a number of the field with data.derive"},
			{"negative", len(l.Negative) > 0, "is for label; this one is a number"},
			{"weight", l.Weight != "", "is for label, and counts for all labels"},
			{"threshold", l.Threshold != nil && l.IsNumber(), "has no meaning with kind: number"},
			{"loss", l.Loss != "" && !l.IsNumber() && !l.IsFakeNegative(), "has no meaning without kind: number"},
		} {
			if x.given {
				k.bad(path+"."+x.name, "%s", x.why)
			}
		}
	}
}

// rule checks the constants of an update rule against its kind.
func (k checker) rule(path string, r optim.Rule, standard string) {
	kind := r.Kind
	if kind == "" {
		kind = standard
	}
	if kind == "" && r != (optim.Rule{}) {
		k.bad(path+".kind", "is missing: a table's rule inherits nothing (%s)", strings.Join(optim.Kinds(), ", "))
	}
	has := optim.Rule{Kind: kind}.Default()
	if has.LearningRate == 0 {
		return // a missing or unknown kind is reported elsewhere
	}
	for _, x := range []struct {
		name        string
		given, used bool
	}{
		{"beta1", r.Beta1 != 0, has.Beta1 != 0}, {"beta2", r.Beta2 != 0, has.Beta2 != 0},
		{"beta", r.Beta != 0, has.Beta != 0}, {"epsilon", r.Epsilon != 0, has.Epsilon != 0},
		{"accumulator", r.Accumulator != nil, has.Accumulator != nil},
		{"weight_decay", r.WeightDecay != nil, has.WeightDecay != nil},
		{"l1", r.L1 != 0, kind == "ftrl"}, {"l2", r.L2 != 0, kind == "ftrl"},
	} {
		if x.given && !x.used {
			k.bad(path+"."+x.name, "is not a constant of %s", kind)
		}
	}
	for _, err := range r.Validate() {
		name, _, _ := strings.Cut(err.Error(), " ")
		k.bad(path+"."+name, "%v", err)
	}
}
