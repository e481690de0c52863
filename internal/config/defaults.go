package config

import (
	"reflect"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/optim"
)

// defaults returns the defaults of all settings that c leaves out and that something uses,
// each with its reason. The names of features and tables depend on each other and are set by
// fillNames and fillTables.
func defaults(c *Config) (d Config) {
	wide, deep := c.Model.HasWide(), on(c.Model.Deep)
	d.Data.Format = "csv"
	switch {
	case c.Data.Format == "tsv":
		d.Data.Delimiter = "\t"
	case c.Data.HasLayout():
		d.Data.Delimiter = ","
	}
	if len(c.Label.Positive) == 0 && c.Label.Threshold == nil && !c.Label.IsNumber() {
		// The labels of most click logs. Any other value is an error rather than a silent 0.
		d.Label = schema.Label{Positive: []string{"1"}, Negative: []string{"0"}}
	}

	d.Model.Kind, d.Model.Wide, d.Model.Deep = network.Default, ptr(wide), ptr(true)
	d.Model.Pooling = "sum" // keeps the number of occurrences of a value in a bag
	if deep {
		d.Model.EmbeddingDim = 8        // enough for small data sets; benchmarks use 10 to 40
		d.Model.Init.Kind = "normal"    // as in most frameworks
		d.Model.Hidden = []int{128, 64} // trains in seconds on two cores
		d.Model.Activation = "relu"     // the paper's
		d.Model.Weights = "he"          // keeps the variance from layer to layer
		if c.Model.Init.Kind != "zero" {
			d.Model.Init.Scale = 0.05 // small compared with a learned row, large enough to tell keys apart
		}
	}

	if kind, known := network.Of(c.Model.Kind); known && kind.Fill != nil {
		kind.Fill(&d.Model)
	}

	t := &d.Train
	t.Epochs = 1 // click models overfit from the second pass on
	if c.Train.Batch == 0 {
		// Global, so that the same file means the same training on any number of ranks. Small, so
		// that small data sets get enough steps.
		t.GlobalBatch = 256
	}
	t.Precision, t.Mode = "fp32", "wait" // as in other frameworks, and supported by every CPU
	t.Device = "cpu"                     // every machine has one
	t.Threads = 1                        // more ranks use the cores of a host too, and also divide the tables
	t.Shuffle = ptr(true)
	if c.Train.EvalSteps == 0 {
		t.EvalEvery = 1
	}
	t.Optimizer.Dense.Kind = "adam" // needs little tuning
	if deep {
		t.Optimizer.Deep.Kind = "adagrad" // each value has its own rate, at any batch size
	}
	if wide {
		t.Optimizer.Wide.Kind = "ftrl" // the paper's; each weight has its own rate
	}
	t.Scaling = "sqrt" // makes results nearly independent of the batch size: docs/design/0008-batches.md
	t.L2.Mode = "lazy" // costs nothing for rows outside the batch
	t.Schedule.Kind = "constant"
	switch c.Train.Schedule.Kind {
	case "step":
		t.Schedule.Factor = 0.1
	case "plateau":
		// As in the published benchmarks: a tenth after each evaluation without improvement.
		t.Schedule.Factor, t.Schedule.Patience = 0.1, 1
	}
	t.EarlyStop.Metric = "logloss" // the loss that training minimises; AUC does not show that an overfitted model loses its calibration
	t.Checkpoint = c.Train.Checkpoint.defaults()
	t.Export = c.Train.Export.defaults()
	t.Export.Guard = c.Train.Export.Guard.defaults()
	return d
}

func (c Export) defaults() (d Export) {
	if c.Dir != "" {
		d.EverySeconds, d.FullEvery = 2, 100 // a few minutes of changes need little memory and load quickly
		d.Keep.Versions, d.Keep.Complete = 1, 2
	}
	return d
}

func (c Guard) defaults() (d Guard) {
	if c.Action != "" {
		// 10,000 samples with a rate of .1 have a log-loss within .009 and a calibration within .06, at two
		// standard deviations.
		d.Window, d.LogLoss, d.Calibration, d.AUCDrop = 10_000, .1, .2, .02
	}
	return d
}

func (c Checkpoint) defaults() (d Checkpoint) {
	if c.EverySteps == 0 {
		d.EverySeconds = 600 // a crash loses at most ten minutes
	}
	d.FullEvery, d.Keep = 10, 3 // a chain of ten loads quickly; if one is damaged, two are left
	d.Copies = 1
	return d
}

// Fill sets every setting that was left out to its default. Calling it again changes nothing.
// Call it on a Config without faults, after the last Set.
func (c *Config) Fill() {
	c.Data.Follow = c.Data.Follow.Filled()
	merge(reflect.ValueOf(c).Elem(), reflect.ValueOf(defaults(c)))
	for _, r := range []*optim.Rule{&c.Train.Optimizer.Dense, &c.Train.Optimizer.Deep, &c.Train.Optimizer.Wide} {
		fillRule(r)
	}
	c.fillNames()
	for i := range c.Features {
		c.fillFeature(&c.Features[i])
	}
	c.fillTables()
}

// merge sets the zero values of v to the values in d.
func merge(v, d reflect.Value) {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			merge(v.Field(i), d.Field(i))
		}
		return
	}
	if v.IsZero() {
		v.Set(d)
	}
}

// fillRule sets the missing constants of a rule that has a kind.
func fillRule(r *optim.Rule) {
	if r.Kind != "" {
		*r = r.Default()
	}
}

// fillNames sets missing names of features, in the order of the file: the field, or
// field_encode if another feature has that name. Given names take precedence. Two features
// that would get the same name are left to the checks.
func (c *Config) fillNames() {
	taken := map[string]bool{}
	for _, f := range c.Features {
		taken[f.Name] = true
	}
	for i := range c.Features {
		f := &c.Features[i]
		if f.Name != "" || f.Field == "" {
			continue
		}
		f.Name = f.Field
		if taken[f.Name] {
			f.Name = f.Field + "_" + f.Encode
		}
		taken[f.Name] = true
	}
	for i := range c.Crosses {
		x := &c.Crosses[i]
		if x.Name == "" {
			x.Name = strings.Join(x.Of, "_x_")
		}
		if x.Table == "" {
			x.Table = x.Name // crosses share weights only if a table is given
		}
	}
}

func (c *Config) fillFeature(f *schema.Feature) {
	switch f.Encode {
	case "quantile":
		if f.Buckets == 0 {
			f.Buckets = 33 // a third of a decile each, as in the reference results
		}
	case "vocabulary":
		if f.MinCount == 0 {
			f.MinCount = 1
		}
	}
	if !sparse(f.Encode) {
		return
	}
	if f.Table == "" {
		f.Table = f.Name
	}
	if f.Wide == nil {
		f.Wide = ptr(c.Model.HasWide())
	}
	if f.Deep == nil {
		f.Deep = ptr(on(c.Model.Deep))
	}
}

// fillTables sets what the entries of Tables leave out, for the parts of each table that are
// used.
func (c *Config) fillTables() {
	uses := c.uses()
	for i := range c.Tables {
		t := &c.Tables[i]
		u := uses[t.Name]
		if t.Pooling == "" {
			t.Pooling = c.Model.Pooling
		}
		if t.Values == "" {
			t.Values = "float32"
		}
		if t.Strategy == "" {
			t.Strategy = "auto"
		}
		if t.Wire.Rows == "" {
			t.Wire.Rows = "float32"
		}
		if t.Wire.Gradients == "" {
			t.Wire.Gradients = "float32"
		}
		if u.deep {
			c.fillDeep(t)
		}
		if u.wide {
			t.Wide = ruleOr(t.Wide, c.Train.Optimizer.Wide)
			t.L2.Wide = numberOr(t.L2.Wide, c.Train.L2.Wide)
		}
	}
}

func (c *Config) fillDeep(t *Table) {
	if t.Dim == 0 {
		t.Dim = c.Model.EmbeddingDim
	}
	switch {
	case t.Init == Init{}:
		t.Init = c.Model.Init
	case t.Init.Kind == "":
		t.Init.Kind = c.Model.Init.Kind
	case t.Init.Kind != "zero" && t.Init.Scale == 0:
		t.Init.Scale = 0.05 // as in the model
	}
	t.Deep = ruleOr(t.Deep, c.Train.Optimizer.Deep)
	t.L2.Deep = numberOr(t.L2.Deep, c.Train.L2.Deep)
}

// ruleOr returns own, or a copy of all if own is nil.
func ruleOr(own *optim.Rule, all optim.Rule) *optim.Rule {
	if own == nil {
		return &all
	}
	fillRule(own)
	return own
}

func numberOr(own *float64, all float64) *float64 {
	if own == nil {
		return &all
	}
	return own
}

// use records which parts of the model a table serves.
type use struct{ wide, deep bool }

// uses returns the use of each table. A feature without explicit parts has the parts of the
// model.
func (c *Config) uses() map[string]use {
	uses := map[string]use{}
	for _, f := range c.Features {
		if !sparse(f.Encode) {
			continue
		}
		u := uses[f.Table]
		u.wide = u.wide || f.Wide != nil && *f.Wide
		u.deep = u.deep || f.Deep != nil && *f.Deep
		uses[f.Table] = u
	}
	for _, x := range c.Crosses {
		u := uses[x.Table]
		u.wide = true
		uses[x.Table] = u
	}
	return uses
}

// TablesInUse returns every table of a filled Config with all its settings, in the order of
// first use by features, then crosses. Deep and Dim are zero if a table has no deep part;
// Wide is nil if it has no wide part.
func (c *Config) TablesInUse() []Table {
	full := Config{Model: c.Model, Train: c.Train, Features: c.Features, Crosses: c.Crosses}
	own, seen := map[string]Table{}, map[string]bool{}
	for _, t := range c.Tables {
		own[t.Name] = t
	}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			t := own[name]
			t.Name = name
			full.Tables = append(full.Tables, t)
		}
	}
	for _, f := range c.Features {
		if sparse(f.Encode) {
			add(f.Table)
		}
	}
	for _, x := range c.Crosses {
		add(x.Table)
	}
	full = *full.Clone()
	full.fillTables()
	return full.Tables
}

// sparse reports whether an encoding produces keys of a table.
func sparse(encode string) bool {
	e, ok := schema.EncodingOf(encode)
	return ok && e.Sparse()
}

// on returns the value of a switch whose default is true.
func on(b *bool) bool { return b == nil || *b }

func ptr[T any](v T) *T { return &v }
