package config

// Of returns the factor of a class.
func (w Classes) Of(positive bool) float64 {
	x := w.Negative
	if positive {
		x = w.Positive
	}
	if x == 0 {
		return 1
	}
	return x
}

// LossName returns the name of the loss that training minimises: "log-loss" for a single
// label of two classes, else "loss".
func (c *Config) LossName() string {
	if c.Label.IsNumber() || len(c.Labels) > 0 {
		return "loss"
	}
	return "log-loss"
}

// Weighted reports whether samples have weights in training.
func (c *Config) Weighted() bool { return c.Label.Weight != "" || c.Train.ClassWeight != Classes{} }
