package schema

// MaxLabels is the maximum number of labels of a model.
const MaxLabels = 16

// MaxWeight is the maximum weight of a sample. Sums of weights stay sufficiently exact.
const MaxWeight = 1 << 20

// Target is a number of each record that is not an input of the model: a numeric first
// label, the weight of the sample, or a label after the first.
type Target struct {
	Field string
	Label *Label // nil: the weight
}

// IsNumber reports whether the label is predicted as a number, not as a probability.
func (l *Label) IsNumber() bool { return l.Kind == "number" }

// IsPoisson reports whether the label is a count whose logarithm the model predicts.
func (l *Label) IsPoisson() bool { return l.IsNumber() && l.Loss == "poisson" }

// FakeNegative is the loss of a binary label whose samples are negatives first, and are repeated as positives.
const FakeNegative = "fake_negative"

// IsFakeNegative reports whether the loss has importance weights for delayed feedback.
func (l *Label) IsFakeNegative() bool { return !l.IsNumber() && l.Loss == FakeNegative }

// noLabel is the kind of a label that is not read: every record has the label 0.
const noLabel = "none"

// IsNone reports whether the label is not read.
func (l *Label) IsNone() bool { return l.Kind == noLabel }

// Unlabelled returns the schema for records to be predicted: their labels and weights are
// not read and need not exist. Its first column is a field of a feature.
func (s Schema) Unlabelled() Schema {
	s.Label, s.Labels = Label{Kind: noLabel}, nil
	if len(s.Features) > 0 {
		s.Label.Field = s.Features[0].Field
	}
	return s
}

// FirstInput returns the index among Columns of the first column of a feature.
func (s *Schema) FirstInput() int {
	if s.Label.IsNone() {
		return 0
	}
	return 1
}

// Share returns the factor of the label's loss in the sum over the labels.
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

// labels checks the settings of labels beyond the settings of a binary label.
func (v *validator) labels() {
	s := &v.schema
	if s.Label.IsNone() {
		return
	}
	if n := 1 + len(s.Labels); n > MaxLabels {
		v.Bad("labels", "%d labels, at most %d are possible", n, MaxLabels)
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

// faults returns the faults of a label, except for its field.
func (l *Label) faults(further bool) (list []string) {
	listed := len(l.Positive) > 0 || len(l.Negative) > 0
	for _, x := range []struct {
		wrong bool
		why   string
	}{
		{l.Kind != "" && l.Kind != "binary" && !l.IsNumber(), "kind is neither binary nor number"},
		{l.Loss != "" && l.Loss != FakeNegative && !l.IsNumber(), "loss " + l.Loss + " is for kind: number; a binary label has the log-loss or fake_negative"},
		{l.Loss != "" && l.Loss != "squared" && l.Loss != "poisson" && l.IsNumber(), "loss of a number is neither squared nor poisson"},
		{l.IsNumber() && (listed || l.Threshold != nil), "a number has no positive and negative values and no threshold"},
		{!(l.LossWeight >= 0) || !finite(l.LossWeight), "loss_weight is not a number above 0"},
		{further && listed, "positive and negative are for the first label; this one is a number that is 0 or 1, or has a threshold"},
		{further && l.Weight != "", "weight is for the first label and counts for all"},
	} {
		if x.wrong {
			list = append(list, x.why)
		}
	}
	return list
}
