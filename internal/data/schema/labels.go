package schema

// MostLabels is how many labels a model can have.
const MostLabels = 16

// MostWeight is the largest weight of a sample: sums of weights stay exact enough.
const MostWeight = 1 << 20

// Target is a number of each record that is no input of the model: a first label that is
// a number, the weight of the sample, or a label after the first.
type Target struct {
	Field string
	Label *Label // nil: the weight
}

// IsNumber reports whether the label is predicted as a number, not as a probability.
func (l *Label) IsNumber() bool { return l.Kind == "number" }

// IsPoisson reports whether the label is a count whose logarithm the model predicts.
func (l *Label) IsPoisson() bool { return l.IsNumber() && l.Loss == "poisson" }

// noLabel is the kind of a label that is not read: every record then has the label 0.
const noLabel = "none"

// IsNone reports whether the label is not read.
func (l *Label) IsNone() bool { return l.Kind == noLabel }

// Unlabelled is the schema for records that a model predicts: their labels and weights are
// not read and need not exist. The first column of such a schema is a field of a feature.
func (s Schema) Unlabelled() Schema {
	s.Label, s.Labels = Label{Kind: noLabel}, nil
	if len(s.Features) > 0 {
		s.Label.Field = s.Features[0].Field
	}
	return s
}

// FirstInput is the place among Columns of the first column that is not the label's alone.
func (s *Schema) FirstInput() int {
	if s.Label.IsNone() {
		return 0
	}
	return 1
}

// Share is the factor of the label's loss in the sum over the labels.
func (l *Label) Share() float64 {
	if l.LossWeight == 0 {
		return 1
	}
	return l.LossWeight
}

// All returns the labels in order.
func (s *Schema) All() []Label { return append([]Label{s.Label}, s.Labels...) }

// Targets returns the first label if it is a number, then the weight if there is one,
// then the labels after the first.
func (s *Schema) Targets() (list []Target) {
	if s.Label.IsNumber() {
		list = append(list, Target{s.Label.Field, &s.Label})
	}
	if s.Label.Weight != "" {
		list = append(list, Target{Field: s.Label.Weight})
	}
	for i := range s.Labels {
		list = append(list, Target{s.Labels[i].Field, &s.Labels[i]})
	}
	return list
}

// labels checks what the label and the labels after it add to a label of 0 and 1.
func (v *validator) labels() {
	s := &v.schema
	if s.Label.IsNone() {
		return
	}
	if n := 1 + len(s.Labels); n > MostLabels {
		v.Bad("labels", "%d labels, at most %d are possible", n, MostLabels)
		return
	}
	if s.Label.Weight != "" {
		v.field("label: weight", s.Label.Weight)
		v.text("label: weight", s.Label.Weight)
	}
	for i, l := range s.All() {
		place := "label"
		if i > 0 {
			place = "labels"
			v.field(place, l.Field)
			v.text(place, l.Field)
		}
		for _, fault := range l.faults(i > 0) {
			v.Bad(place, "%s: %s", l.Field, fault)
		}
	}
}

// faults says what is wrong with a label, apart from its field.
func (l *Label) faults(further bool) (list []string) {
	listed := len(l.Positive) > 0 || len(l.Negative) > 0
	for _, x := range []struct {
		wrong bool
		why   string
	}{
		{l.Kind != "" && l.Kind != "binary" && !l.IsNumber(), "kind is neither binary nor number"},
		{l.Loss != "" && !l.IsNumber(), "loss is for kind: number; a binary label has the log-loss"},
		{l.Loss != "" && l.Loss != "squared" && l.Loss != "poisson", "loss is neither squared nor poisson"},
		{l.IsNumber() && (listed || l.Threshold != nil), "a number has no positive and negative values and no threshold"},
		{!(l.LossWeight >= 0) || !finite(l.LossWeight), "loss_weight is no number above 0"},
		{further && listed, "positive and negative are for the first label; this one is a number that is 0 or 1, or has a threshold"},
		{further && l.Weight != "", "weight is for the first label and counts for all"},
	} {
		if x.wrong {
			list = append(list, x.why)
		}
	}
	return list
}
