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
	Bad   Bad     `yaml:"bad"`   // unusable records and files to leave out
}

// Bad is the rate of unusable records of a stream that are left out. An unusable file counts as a
// record.
type Bad struct {
	Per  int64  `yaml:"per"`  // records
	Most int64  `yaml:"most"` // unusable ones of them; 0: Source.MaxBad is the limit, and an unusable file is an error
	To   string `yaml:"to"`   // folder or topic for them; "": a file of the run directory
}

// On reports whether there is a rate.
func (b Bad) On() bool { return b.Most > 0 }

// Debt returns the debt of a stream after more records, of which some are unusable. Each unusable one
// adds Per to it, and each record pays off Most. over reports that more than Most are unpaid.
func (b Bad) Debt(debt, records, unusable int64) (next int64, over bool) {
	next = max(debt+unusable*b.Per-records*b.Most, 0)
	return next, next > b.Most*b.Per
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
	if f.Bad.On() && f.Bad.Per == 0 {
		f.Bad.Per = 10000
	}
	if f.Lost == "" {
		f.Lost = LostStop // a person decides about a loss
	}
	return f
}

// Pause returns the time between two looks.
func (f Follow) Pause() time.Duration { return time.Duration(f.Poll * float64(time.Second)) }
