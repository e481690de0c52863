package runs

import "time"

// ThinEvent is the event of the line that counts the lines that a training has removed from
// metrics.jsonl, so that the file does not grow without limit.
const ThinEvent = "thinned"

// Thinned is that line.
type Thinned struct {
	Event string    `json:"event"`
	Time  time.Time `json:"time"`
	Step  int64     `json:"step"` // of the last one
	Lines int       `json:"lines"`
}
