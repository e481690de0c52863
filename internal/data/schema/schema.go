package schema

import (
	"strings"
)

// Source describes where records are and how a line is split into fields. The yaml tags
// are the keys of the configuration's data section.
type Source struct {
	Train         []string  `yaml:"train"`          // files, globs or builtin:NAME
	Test          []string  `yaml:"test"`           // evaluated once after training
	Valid         []string  `yaml:"valid"`          // evaluated after each epoch
	Hosts         string    `yaml:"hosts"`          // shared, which is the default: the hosts of a job have the same files; each: every host has its own
	NegativeRate  float64   `yaml:"negative_rate"`  // of Train: share of the negatives that stays; 0 is 1
	ValidFraction float64   `yaml:"valid_fraction"` // instead of Valid: share of Train held out, in [0, 1)
	ValidTime     string    `yaml:"valid_time"`     // field: that share are the newest records
	ValidGroup    string    `yaml:"valid_group"`    // field: that share of its values, with all their records
	Format        string    `yaml:"format"`         // one of Formats, csv by default
	Delimiter     string    `yaml:"delimiter"`      // one byte; default , for csv and tab for tsv
	Header        bool      `yaml:"header"`         // the first line names the fields
	Fields        []string  `yaml:"fields"`         // names in file order where there is no header
	Comment       string    `yaml:"comment"`        // lines that start with it are skipped
	Multiline     bool      `yaml:"multiline"`      // of csv: quoted fields may hold line breaks; with EscapeAll: escaped ones too
	Escape        string    `yaml:"escape"`         // of csv and tsv: what a backslash escapes, one of Escapes; empty: nothing
	Missing       []string  `yaml:"missing"`        // values that mean missing, besides the empty one
	Derive        []Derived `yaml:"derive"`         // columns computed from fields
	Where         string    `yaml:"where"`          // condition of the records that are used; empty: all
	TrainWhere    string    `yaml:"train_where"`    // further condition of the records of Train
	ValidWhere    string    `yaml:"valid_where"`    // further condition of the records of Valid
	MaxBad        int64     `yaml:"max_bad"`        // records that cannot be used and are left out; one more is an error
	Index         string    `yaml:"index"`          // file of a feature index, whose statistics a training takes instead of fitting its own
	Follow        Follow    `yaml:"follow"`         // Train grows
	Registry      Registry  `yaml:"registry"`       // schemas of topics
	Explode       string    `yaml:"explode"`        // of topics of jsonl, avro and protobuf: member that is a list, whose elements are records
}

// Label names the field of the label and maps it to 0 or 1.
type Label struct {
	Field     string   `yaml:"field"`
	Positive  []string `yaml:"positive"`  // values that are 1
	Negative  []string `yaml:"negative"`  // values that are 0; empty: every other value
	Threshold *float64 `yaml:"threshold"` // instead of Positive: 1 where the number is at least this

	Kind       string  `yaml:"kind"`        // binary, which is the default, or number
	Loss       string  `yaml:"loss"`        // of a number: squared, which is the default, or poisson; of a binary label: FakeNegative, "" for the log-loss
	Weight     string  `yaml:"weight"`      // field with the weight of the sample
	LossWeight float64 `yaml:"loss_weight"` // factor of this label's loss; 0 is 1
}

// Feature turns one field into one input of the model. Encodings:
//
//	vocabulary   sparse: strings that occur in training data at least MinCount times get
//	             separate keys, at most MaxSize of them, the most frequent ones, if
//	             given; all others share the unknown key
//	hash         sparse: 64-bit hash of the string, modulo Buckets if given
//	id           sparse: the field is a 64-bit integer, used as the key
//	quantile     sparse: number of the interval, of Buckets intervals with about equally
//	             many training records; a value more frequent than that gets its own
//	boundaries   sparse: number of the interval between the given Boundaries
//	hour         sparse: hour of a date, 0 to 23
//	weekday      sparse: day of the week of a date, from Monday, 0 to 6
//	month        sparse: month of a date, 0 to 11
//	standardise  dense: (x − mean) / standard deviation, from training data
//	log          dense: sign(x)·ln(1 + |x|)
//	raw          dense: x
//	vector       dense: Size numbers, the elements of a list, standardised one by one if
//	             Standardise is set
//	age          dense: days from a date to Reference or, without one, to the newest
//	             date of the training data, standardised
//	rate         dense: two numbers of the value, standardised: the log-odds of the smoothed
//	             share of positives among the training records that have it, and the
//	             logarithm of 1 + their number; see package encode
//
// Numbers that are standardised, other than ages, are clipped to the range of the training data unless
// Clip is false.
//
// Format is the format of dates, see package date. Without it, dates have the format that
// reads most values of the training data. A value that is not a date is missing.
type Feature struct {
	Name        string    `yaml:"name"`        // default: the field, or field_encode if that is taken
	Field       string    `yaml:"field"`       //
	Encode      string    `yaml:"encode"`      // see above
	Separator   string    `yaml:"separator"`   // several values in one field, split here (sparse)
	Pairs       string    `yaml:"pairs"`       // mark between a value and its weight in one field (sparse)
	Padding     string    `yaml:"padding"`     // value that fills up lists and means none (sparse)
	MaxLen      int64     `yaml:"max_len"`     // of a list: that many first values, or if negative, last ones, are used (sparse)
	Weights     string    `yaml:"weights"`     // field with a number for each of the values (sparse)
	Size        int64     `yaml:"size"`        // vector: number of elements
	Standardise bool      `yaml:"standardise"` // vector: each element
	Buckets     uint64    `yaml:"buckets"`     // hash: modulus, 0 for none; quantile: default 33
	Boundaries  []float64 `yaml:"boundaries"`  // ascending
	MinCount    int64     `yaml:"min_count"`   // vocabulary: default 1
	MaxSize     int64     `yaml:"max_size"`    // vocabulary: default 0, no bound
	Log         bool      `yaml:"log"`         // standardise, age: take the log first
	Clip        *bool     `yaml:"clip"`        // standardise, vector: to the range of the training data; default true
	Format      string    `yaml:"format"`      // hour, weekday, month, age: how dates are written
	Zone        string    `yaml:"zone"`        // hour, weekday, month: time zone; default UTC
	Reference   string    `yaml:"reference"`   // age: a date in ISO 8601
	Table       string    `yaml:"table"`       // sparse: table it is looked up in; default: its name
	Wide        *bool     `yaml:"wide"`        // sparse: part of the wide model; default true
	Deep        *bool     `yaml:"deep"`        // sparse: part of the deep model; default true
	Init        string    `yaml:"init"`        // file of vectors with which its embeddings begin (sparse)
	Freeze      int64     `yaml:"freeze"`      // with init: steps in which the embeddings of its table do not change
	Was         string    `yaml:"was"`         // name of the feature in the model that a training begins with; default: its name
}

// Cross is a sparse feature of the wide model made from several others: one key per
// combination of their values.
type Cross struct {
	Name    string   `yaml:"name"`    // default: the features joined by _x_
	Of      []string `yaml:"of"`      // names of two or more sparse features
	Buckets uint64   `yaml:"buckets"` // modulus of the combined hash, 0 for none
	Table   string   `yaml:"table"`   // default: its name
}

// Derived is a column that an expression computes: NAME = EXPRESSION.
type Derived string

// Name returns the name of the column.
func (d Derived) Name() string {
	name, _, _ := strings.Cut(string(d), " = ")
	return name
}

// Expression returns the expression; see package expr.
func (d Derived) Expression() string {
	_, e, _ := strings.Cut(string(d), " = ")
	return e
}

// Schema maps the fields of a record to the label and the inputs of the model.
type Schema struct {
	Label    Label
	Labels   []Label // after the first
	Features []Feature
	Crosses  []Cross
	HoldOut  string // field whose values select the held-out records; "" for none
}
