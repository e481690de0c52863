package join

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
)

// Config configures a join.
type Config struct {
	Impressions, Feedback []string // folders, globs or topics
	Out, State            string   // folders of samples and of the state; Out may be a topic
	Late                  string   // folder or topic of late feedback and of feedback without open impression; "": Rejected
	On                    [2]Fields
	Window, Delay         time.Duration
	Early                 bool

	Follow bool          // wait for new records; otherwise end when there are none
	Poll   time.Duration // between two looks
	Idle   time.Duration // without new records, after which a source does not hold up the others; 0: never
	Ahead  time.Duration // of the clock, by which the time of a record may be
	Lost   string        // schema.LostStop or LostSkip

	Warn   func(line string)
	Commit func(Status) // called after each commit; nil: not
}

// StateOf returns the default folder of the state of a join into a folder or topic.
func StateOf(out string) string {
	if _, name, ok := strings.Cut(strings.TrimPrefix(out, kafka.Scheme), "/"); ok && kafka.IsTopic(out) {
		out, _, _ = strings.Cut(name, "?")
	}
	return filepath.Clean(out) + ".state"
}

// Sides of a join.
const (
	impressions = iota
	feedbacks
)

var sideNames = [2]string{"impressions", "feedback"}

// Counts are the numbers of records since the state began.
type Counts struct {
	Impressions int64 `json:"impressions"`
	Feedback    int64 `json:"feedback"`
	Samples     int64 `json:"samples"`
	Positives   int64 `json:"positives"`
	Duplicates  int64 `json:"duplicates"` // impressions with the key of an open one
	Repeated    int64 `json:"repeated"`   // feedback about an impression that has feedback

	LateImpressions int64 `json:"late_impressions"`
	LateFeedback    int64 `json:"late_feedback"`
	Unmatched       int64 `json:"unmatched"` // feedback without impression
	Bad             int64 `json:"bad"`       // records that cannot be used
	BadFiles        int64 `json:"bad_files"`
}

// Rejected returns the number of records that are in the folder of rejected ones.
func (c *Counts) Rejected() int64 {
	return c.LateImpressions + c.LateFeedback + c.Unmatched + c.Bad + c.BadFiles
}

// Status is the state of a join at a commit. status.json of the state directory contains the last one.
type Status struct {
	Counts
	Commits   int64      `json:"commits"`
	Open      int        `json:"open"`
	Held      int        `json:"held"` // feedback that waits for its impression
	Watermark *time.Time `json:"watermark,omitempty"`
	Newest    *time.Time `json:"event_time,omitempty"` // of the samples that have been written
	Time      time.Time  `json:"time"`                 // of the commit
	Sources   []Source   `json:"sources"`
	Ended     bool       `json:"ended,omitempty"`
}

// StatusFile is the name of the file with the Status of the last commit.
const StatusFile = "status.json"

// commit is the durable state beside the records in the log.
type commit struct {
	ID        string            `json:"id,omitempty"` // of the state, for the names of transactions
	Number    int64             `json:"number"`
	Settings  settings          `json:"settings"`
	Positions []stream.Position `json:"positions"` // by input
	Formats   [2]*schema.Source `json:"formats"`
	Sources   []Source          `json:"sources"`
	Watermark int64             `json:"watermark"`
	Newest    int64             `json:"newest"`
	Counts    `json:"counts"`
	Ended     bool `json:"ended,omitempty"`
}

// settings are those that a state keeps for its life.
type settings struct {
	Inputs [2][]string `json:"inputs"`
	On     [2]Fields   `json:"on"`
	Window int64       `json:"window"`
	Early  bool        `json:"early,omitempty"`
	Out    string      `json:"out"`
	Late   string      `json:"late,omitempty"`
}

// differ returns the error for a state that was begun with other settings. It names the flag.
func (s *settings) differ(now settings) error {
	both := func(shown, clicked []string) string {
		a, b := strings.Join(shown, ","), strings.Join(clicked, ",")
		if a != b {
			a += "=" + b
		}
		return strconv.Quote(a)
	}
	for _, x := range []struct{ flag, was, is string }{
		{"impressions", fmt.Sprint(s.Inputs[0]), fmt.Sprint(now.Inputs[0])},
		{"feedback", fmt.Sprint(s.Inputs[1]), fmt.Sprint(now.Inputs[1])},
		{"out", s.Out, now.Out},
		{"late", s.Late, now.Late},
		{"key", both(s.On[0].Key, s.On[1].Key), both(now.On[0].Key, now.On[1].Key)},
		{"time", both([]string{s.On[0].Time}, []string{s.On[1].Time}), both([]string{now.On[0].Time}, []string{now.On[1].Time})},
		{"label", strconv.Quote(s.On[0].Label), strconv.Quote(now.On[0].Label)},
		{"value", strconv.Quote(s.On[1].Value), strconv.Quote(now.On[1].Value)},
		{"window", fmt.Sprint(time.Duration(s.Window) * time.Millisecond), fmt.Sprint(time.Duration(now.Window) * time.Millisecond)},
		{"emit", emitted[s.Early], emitted[now.Early]},
	} {
		if x.was != x.is {
			return fmt.Errorf("the state was begun with another -%s: %s, now: %s", x.flag, x.was, x.is)
		}
	}
	return nil
}

var emitted = map[bool]string{false: "window", true: "early"}

// joiner runs a join.
type joiner struct {
	Config
	commit
	machine  *Machine
	log      *stateLog
	samples  output
	rejected output
	late     output
	inputs   []*input
	label    []byte // its name, JSON

	adding  bool     // the record of a Sample may not be in the log yet
	pending []Sample // while adding
	fault   error    // of an Output method
	line    []byte
	value   []byte
	spans   []string // entries of the files of spans that the next commit needs
	dirty   bool     // there is something to commit
}

// input is a folder, a glob or a topic.
type input struct {
	j       *joiner
	number  int
	side    int
	pattern string
	feed    *data.Feed
	at      stream.Position
	quiet   time.Time // of the first look without anything new since there was something
	away    bool      // the broker does not answer
	named   bool      // as one that holds up the join
	sources map[string]int
	decoder decoder
	spans   *os.File // of folders: what was read of each file
	names   []string // of fields, in objects of other formats
}
