package network

// Model is the section model of a configuration. The output of a model is the sum of the wide
// logit (one weight per key) and the deep logit (embeddings and dense inputs through the network of
// its kind). Either part may be left out: the wide part alone is logistic regression.
type Model struct {
	Kind         string  `yaml:"kind"`
	Wide         *bool   `yaml:"wide"`
	Deep         *bool   `yaml:"deep"`
	EmbeddingDim int     `yaml:"embedding_dim"` // E
	Pooling      string  `yaml:"pooling"`
	Init         Init    `yaml:"init"`
	Hidden       []int   `yaml:"hidden"` // H of each layer
	Activation   string  `yaml:"activation"`
	BatchNorm    bool    `yaml:"batch_norm"`
	Dropout      float64 `yaml:"dropout"`
	Weights      string  `yaml:"weights"` // initialisation of perceptrons: he or pytorch

	// The own keys of kinds.
	Cross Cross `yaml:"cross"`
	CIN   []int `yaml:"cin"`
	Mask  Mask  `yaml:"mask"`
}

// Init is the initialisation of embedding rows.
type Init struct {
	Kind  string  `yaml:"kind"`  // normal, uniform or zero
	Scale float64 `yaml:"scale"` // normal: standard deviation; uniform: half the width
}
