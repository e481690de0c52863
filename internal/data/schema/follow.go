package schema

import "time"

// Follow says how training data that grows is read: folders whose new files, or
// topics whose new records, are trained on as they come. The yaml tags are the keys of the configuration's
// data.follow section.
type Follow struct {
	On    bool    `yaml:"on"`
	Mark  string  `yaml:"mark"`  // file that ends its folder, default _SUCCESS
	Idle  float64 `yaml:"idle"`  // seconds without anything new after which the stream ends; 0: never
	Poll  float64 `yaml:"poll"`  // seconds between two looks
	Files int     `yaml:"files"` // most of a span
	Rows  int     `yaml:"rows"`  // most of a partition in a span
	Steps int64   `yaml:"steps"` // of the training after which the stream ends; 0: no bound
}

// Filled is the section with its defaults.
func (f Follow) Filled() Follow {
	if !f.On {
		return f
	}
	if f.Mark == "" {
		f.Mark = "_SUCCESS" // as Hadoop and Spark name it
	}
	if f.Poll == 0 {
		f.Poll = 1 // seen within two looks; a listing a second burdens no file system
	}
	if f.Files == 0 {
		f.Files = 64 // enough to shuffle among, few enough that a backlog does not become one span
	}
	if f.Rows == 0 {
		f.Rows = 1 << 16 // half of the default shuffle window
	}
	return f
}

// Pause is the time between two looks.
func (f Follow) Pause() time.Duration { return time.Duration(f.Poll * float64(time.Second)) }
