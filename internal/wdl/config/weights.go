package config

// Classes has the factors by which training multiplies the weights of samples, by their
// first label; 0 is 1.
type Classes struct {
	Positive float64 `yaml:"positive"`
	Negative float64 `yaml:"negative"`
}

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

// LossName names what training minimises: the log-loss, unless it is, or is added to,
// the loss of a number.
func (c *Config) LossName() string {
	if c.Label.IsNumber() || len(c.Labels) > 0 {
		return "loss"
	}
	return "log-loss"
}

// Weighted reports whether samples have weights in training.
func (c *Config) Weighted() bool { return c.Label.Weight != "" || c.Train.ClassWeight != Classes{} }
