package schema

import "time"

// Follow configures the reading of growing training data: new files of folders, or new
// records of topics, are trained on as they arrive. The yaml tags are the keys of
// data.follow.
type Follow struct {
	On    bool    `yaml:"on"`
	Mark  string  `yaml:"mark"`  // file that ends its folder, default _SUCCESS
	Idle  float64 `yaml:"idle"`  // seconds without anything new after which the stream ends; 0: never
	Poll  float64 `yaml:"poll"`  // seconds between two looks
	Files int     `yaml:"files"` // most of a span
	Rows  int     `yaml:"rows"`  // most of a partition in a span
	Steps int64   `yaml:"steps"` // of the training after which the stream ends; 0: no bound
	Lost  string  `yaml:"lost"`  // what to do about records that no longer exist: LostStop or LostSkip
}

// Values of Follow.Lost.
const (
	LostStop = "stop"
	LostSkip = "skip"
)

// Filled returns the section with defaults filled in.
func (f Follow) Filled() Follow {
	if !f.On {
		return f
	}
	if f.Mark == "" {
		f.Mark = "_SUCCESS" // the name that Hadoop and Spark use
	}
	if f.Poll == 0 {
		f.Poll = 1 // one listing per second is no load for a file system
	}
	if f.Files == 0 {
		f.Files = 64 // enough to shuffle, and few enough that a backlog is several spans
	}
	if f.Rows == 0 {
		f.Rows = 1 << 16 // half of the default shuffle window
	}
	if f.Lost == "" {
		f.Lost = LostStop // a person decides about a loss
	}
	return f
}

// Pause returns the time between two looks.
func (f Follow) Pause() time.Duration { return time.Duration(f.Poll * float64(time.Second)) }
