package config

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/optim"
)

// tables checks that each entry of tables changes something that is used.
func (k checker) tables() {
	uses := k.full.uses()
	var names []string
	for _, t := range k.full.TablesInUse() {
		names = append(names, t.Name)
	}
	unsure := k.knowsFault("features") || k.knowsFault("crosses") || k.knowsFault("model.wide") || k.knowsFault("model.deep")
	seen := map[string]int{}
	for i, t := range k.c.Tables {
		path := fmt.Sprintf("tables[%d]", i)
		if t.Name == "" {
			k.bad(path+".name", "is missing: say which table this is")
			continue
		}
		if first, again := seen[t.Name]; again {
			k.bad(path+".name", "%s has an entry already: tables[%d]", quote(t.Name), first)
			continue
		}
		seen[t.Name] = i
		u, used := uses[t.Name]
		if !used && !unsure && !k.crowded() {
			k.bad(path+".name", "no feature or cross uses table %s%s", quote(t.Name), nearest.Instead(t.Name, names))
		}
		k.table(path, t, use{u.wide || unsure || !used, u.deep || unsure || !used})
	}
}

// table checks one entry against the use of its table.
func (k checker) table(path string, t Table, u use) {
	for _, x := range []struct {
		name        string
		given, used bool
		part        string
	}{
		{"dim", t.Dim != 0, u.deep, "deep"}, {"init", t.Init != Init{}, u.deep, "deep"},
		{"deep", t.Deep != nil, u.deep, "deep"}, {"l2.deep", t.L2.Deep != nil, u.deep, "deep"},
		{"wide", t.Wide != nil, u.wide, "wide"}, {"l2.wide", t.L2.Wide != nil, u.wide, "wide"},
	} {
		if x.given && !x.used {
			k.bad(path+"."+x.name, "has no meaning: no feature uses table %s in the %s part", quote(t.Name), x.part)
		}
	}
	if t.Deep != nil {
		k.rule(path+".deep", *t.Deep, "")
	}
	if t.Wide != nil {
		k.rule(path+".wide", *t.Wide, "")
	}
	kind := t.Init.Kind
	if kind == "" {
		kind = k.full.Model.Init.Kind
	}
	k.init(path+".init", kind, t.Init.Scale)
	k.rows(path, t)
}

// rows checks the settings for admission, eviction and tiers of a table.
func (k checker) rows(path string, t Table) {
	if t.Admit.Counters != 0 && t.Admit.After < 2 {
		k.bad(path+".admit.counters", "has no meaning without after: 2 or more, since every key gets a row in its first step")
	}
	if t.Evict.MinScore != 0 && t.Evict.HalfLife == 0 {
		k.bad(path+".evict.min_score", "also needs half_life: without it rows have no score")
	}
	switch {
	case t.Tier.Memory != 0 && t.Tier.Dir == "":
		k.bad(path+".tier.dir", "is missing: it names the folder on disk for rows beyond tier.memory")
	case t.Tier.Dir != "" && t.Tier.Memory == 0:
		k.bad(path+".tier.memory", "is missing: say how many MiB of this table a rank keeps")
	}
	k.strategy(path, t)
	if k.c.Train.L2.Mode != "dense" {
		return
	}
	if t.Values == "bfloat16" {
		k.later(path+".values", "train.l2.mode", "the small steps that every row takes would be lost in rounding; use train.l2.mode: lazy")
	}
	if t.Tier != (Tier{}) {
		k.later(path+".tier", "train.l2.mode", "every row takes a step in every step, so that none is cold; use train.l2.mode: lazy")
	}
}

// strategy checks that a table can be exchanged with its strategy.
func (k checker) strategy(path string, t Table) {
	if t.Strategy == "pooled" && (t.Wire.Rows == "bfloat16" || t.Wire.Gradients == "bfloat16") {
		k.later(path+".strategy", path+".wire", "sums that owners pool travel as float32")
	}
}

// init checks that a scale is given only with an initialisation that uses it.
func (k checker) init(path, kind string, scale float64) {
	if kind == "zero" && scale != 0 {
		k.bad(path+".scale", "has no meaning with kind zero")
	}
}

// model checks that each part has inputs and that no setting belongs to a disabled part.
func (k checker) model() {
	m, o, l2 := k.c.Model, k.c.Train.Optimizer, k.c.Train.L2
	wide, deep := m.HasWide(), on(m.Deep)
	if !wide && !deep {
		k.later("model.wide", "model.deep", "both are false, which leaves no model")
		return
	}
	const maxLayers = 64
	if len(m.Hidden) > maxLayers {
		k.bad("model.hidden", "has %d layers, at most %d are possible", len(m.Hidden), maxLayers)
	}
	for _, x := range []struct {
		path  string
		given bool
		part  string
		on    bool
	}{
		{"model.embedding_dim", m.EmbeddingDim != 0, "deep", deep},
		{"model.init", m.Init != Init{}, "deep", deep},
		{"model.hidden", len(m.Hidden) > 0, "deep", deep},
		{"model.activation", m.Activation != "", "deep", deep},
		{"model.batch_norm", m.BatchNorm, "deep", deep},
		{"model.dropout", m.Dropout != 0, "deep", deep},
		{"model.weights", m.Weights != "", "deep", deep},
		{"train.optimizer.deep", o.Deep != (optim.Rule{}), "deep", deep},
		{"train.l2.dense", l2.Dense != 0, "deep", deep},
		{"train.l2.deep", l2.Deep != 0, "deep", deep},
		{"train.optimizer.wide", o.Wide != (optim.Rule{}), "wide", wide},
		{"train.l2.wide", l2.Wide != 0, "wide", wide},
		{"crosses", len(k.c.Crosses) > 0, "wide", wide},
	} {
		if x.given && !x.on {
			reason := ""
			if x.part == "wide" && m.Wide == nil {
				reason = fmt.Sprintf(", the default of model.kind: %s; set model.wide: true, or remove it", m.Kind)
			}
			k.bad(x.path, "has no meaning with model.%s: false%s", x.part, reason)
		}
	}
	k.init("model.init", m.Init.Kind, m.Init.Scale)
	k.kind()
	if k.knowsFault("features") || k.knowsFault("crosses") || len(k.c.Features) == 0 {
		return
	}
	if !slices.ContainsFunc(k.c.Features, func(f schema.Feature) bool { return sparse(f.Encode) }) {
		k.bad("features", "has numbers only, and a model needs a sparse feature: add one of the fields with encode: quantile")
		return
	}
	var fed use
	for _, u := range k.full.uses() {
		fed.wide, fed.deep = fed.wide || u.wide, fed.deep || u.deep
	}
	for _, f := range k.c.Features {
		fed.deep = fed.deep || !sparse(f.Encode)
	}
	if wide && !fed.wide {
		k.bad("model.wide", "has no input: give it a sparse feature or a cross, or set model.wide: false")
	}
	if deep && !fed.deep {
		k.bad("model.deep", "has no input: give it a feature, or set model.deep: false")
	}
}

// kind checks the requirements of each kind of model.
func (k checker) kind() {
	m := k.c.Model
	if k.knowsFault("model.kind") {
		return
	}
	kind := k.full.Model.Kind
	for _, other := range network.Kinds() {
		switch {
		case !m.Given(other):
		case other.Name != kind:
			k.bad("model."+other.Own.Name, "has no meaning for %s: only %s has %s", kind, other.Name, other.Terms)
		case other.Check != nil:
			if why := other.Check(&m); why != "" {
				k.bad("model."+other.Own.Name, "%s", why)
			}
		}
	}
	if kind != network.Default && !on(m.Deep) {
		k.later("model.kind", "model.deep", kind+" is a network of embeddings; for only the wide part use "+network.Default)
	}
	if k.crowded() || k.operation(func(s network.Support) bool { return s.OneWidth }) == nil {
		return
	}
	for i, t := range k.c.Tables {
		if t.Dim != 0 && t.Dim != k.full.Model.EmbeddingDim {
			k.bad(fmt.Sprintf("tables[%d].dim", i), "is %d and model.embedding_dim %d: %s needs embeddings of one width", t.Dim, k.full.Model.EmbeddingDim, kind)
		}
	}
}

// bf16 checks that nothing prevents products in bfloat16.
func (k checker) bf16() {
	if !k.c.Train.BF16OnCPU() {
		return
	}
	if !on(k.c.Model.Deep) {
		k.later("model.deep", "train.precision", "bf16 is for the products of the MLP, and without the deep part there is none")
		return
	}
	for _, setting := range k.settings(func(s network.Support) bool { return !s.BF16 }) {
		k.later(setting, "train.precision", "bf16 is for an MLP of linear layers with relu")
	}
}

// operations returns the operations of the model. There are none
// without a deep part, or if the kind or its settings are rejected.
func (k checker) operations() *network.Network {
	if !on(k.c.Model.Deep) {
		return new(network.Network)
	}
	n, err := network.Nominal(k.full.Model)
	if err != nil {
		return new(network.Network)
	}
	return n
}

// operation returns the first operation of the model for which lacks returns true; nil if there is
// none.
func (k checker) operation(lacks func(network.Support) bool) *network.Op {
	return k.operations().First(lacks)
}

// settings returns the settings that add operations for which lacks returns true.
func (k checker) settings(lacks func(network.Support) bool) (all []string) {
	n := k.operations()
	for i := range n.Ops {
		if o := &n.Ops[i]; o.Setting != "" && lacks(o.Supports()) && !slices.Contains(all, o.Setting) {
			all = append(all, o.Setting)
		}
	}
	slices.Sort(all)
	return all
}

// gpu checks that the device can compute the model.
func (k checker) gpu() {
	t := k.c.Train
	if t.Precision == "tf32" && t.Device != "gpu" {
		k.later("train.device", "train.precision", "tf32 is a format of GPUs: use device: gpu, or precision: fp32")
	}
	if !t.MayUseGPU() {
		return
	}
	for _, x := range []struct {
		path, why string
		given     bool
	}{
		{"train.optimizer.dense.kind", "there is no kernel of rowwise_adagrad: use adagrad", t.Optimizer.Dense.Kind == "rowwise_adagrad"},
		{"train.optimizer.wide.kind", "the bias is on the device, where there is no kernel of rowwise_adagrad: use adagrad", t.Optimizer.Wide.Kind == "rowwise_adagrad"},
		{"label.loss", "there is no kernel of fake_negative: use device: cpu", k.c.Label.IsFakeNegative() || slices.ContainsFunc(k.c.Labels, func(l schema.Label) bool { return l.IsFakeNegative() })},
	} {
		if x.given {
			k.later(x.path, "train.device", x.why)
		}
	}
	if o := k.operation(func(s network.Support) bool { return !s.Device }); o != nil {
		k.later("model.kind", "train.device", fmt.Sprintf("%s has the operation %v, for which there is no kernel: use device: cpu", k.full.Model.Kind, o))
	}
}

// train checks the settings of the training.
func (k checker) train() {
	t := k.c.Train
	if t.Threads > 1 {
		for _, setting := range k.settings(func(s network.Support) bool { return !s.Threads }) {
			k.later("train.threads", setting, "its statistics need the whole batch in one thread")
		}
	}
	if t.Batch != 0 && t.GlobalBatch != 0 {
		k.later("train.batch", "train.global_batch", "the batch is given per rank or for all ranks together")
	}
	k.bf16()
	k.gpu()
	if t.Export.Dir != "" && t.L2.Mode == "dense" {
		k.later("train.export.dir", "train.l2.mode", "every row changes in every step, so that each version would be complete; use train.l2.mode: lazy, or export a checkpoint")
	}
	if t.Export.Dir == "" && t.Export != (Export{}) {
		k.bad("train.export.dir", "is missing: it is the folder of the versions, such as models/ctr")
	}
	if g := t.Export.Guard; g.Action == "" && g != (Guard{}) {
		k.bad("train.export.guard.action", "is missing: choose hold, warn or stop")
	} else if g.Action != "" && k.c.Label.IsNumber() {
		k.later("train.export.guard.action", "label.kind", "the guard needs a label that is 0 or 1")
	}
	if t.Gate.Metric == "" && (t.Gate.Tolerance != 0 || t.Gate.Data != "") {
		k.bad("train.gate.metric", "is missing: name the metric to compare, logloss or auc")
	}
	if t.Gate.Metric != "" && t.Export.Dir != "" {
		k.later("train.gate.metric", "train.export.dir", "versions are published during the training, before the model is compared; remove export, and use wdlrun export -resume latest once the training has ended with code 0")
	}
	if t.EvalEvery != 0 && t.EvalSteps != 0 {
		k.later("train.eval_every", "train.eval_steps", "evaluations are counted in epochs or in steps")
	}
	if mode := k.full.Train.Mode; t.EvalSteps != 0 && mode != "wait" && !k.knowsFault("train.mode") {
		k.later("train.mode", "train.eval_steps", "ranks in mode "+mode+" only meet at the end of an epoch; use train.eval_every")
	}
	k.rule("train.optimizer.dense", t.Optimizer.Dense, "adam")
	k.rule("train.optimizer.deep", t.Optimizer.Deep, "adagrad")
	k.rule("train.optimizer.wide", t.Optimizer.Wide, "ftrl")
	if len(k.c.Data.Valid) > 0 || k.c.Data.ValidFraction > 0 || k.knowsFault("data.valid") || k.knowsFault("data.valid_fraction") {
		return
	}
	for _, path := range needValidation(&t) {
		k.bad(path, "needs validation data: give data.valid or data.valid_fraction")
	}
}

// needValidation returns the settings of a training that need validation data.
func needValidation(t *Train) (paths []string) {
	for _, x := range []struct {
		path  string
		given bool
	}{
		{"train.early_stop.patience", t.EarlyStop.Patience > 0},
		{"train.eval_steps", t.EvalSteps > 0},
		{"train.schedule.kind", t.Schedule.Kind == "plateau"},
		{"train.gate.metric", t.Gate.Metric != "" && t.Gate.Data != "next"},
	} {
		if x.given {
			paths = append(paths, x.path)
		}
	}
	return paths
}

// WithoutValidation removes the settings of a training that need validation data.
func (t *Train) WithoutValidation() {
	t.EarlyStop, t.EvalSteps, t.Schedule, t.Gate = EarlyStop{}, 0, Schedule{}, Gate{}
}

// schedule checks that a schedule has exactly the settings that its kind uses.
func (k checker) schedule() {
	s := k.c.Train.Schedule
	const path = "train.schedule."
	if k.knowsFault("train.schedule.kind") {
		return
	}
	kind := k.full.Train.Schedule.Kind
	for _, x := range []struct {
		name  string
		given bool
		kinds []string
	}{
		{"min", s.Min != 0, []string{"linear", "cosine", "step", "plateau"}},
		{"factor", s.Factor != 0, []string{"step", "plateau"}},
		{"every_steps", s.EverySteps != 0, []string{"step"}},
		{"patience", s.Patience != 0, []string{"plateau"}},
	} {
		if x.given && !among(kind, x.kinds) && among(kind, schedules()) {
			k.bad(path+x.name, "has no meaning for a %s schedule", kind)
		}
	}
	if kind == "step" && s.EverySteps == 0 {
		k.bad(path+"every_steps", "is missing: it is the number of steps between two reductions of the rate")
	}
}

func among(s string, list []string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
