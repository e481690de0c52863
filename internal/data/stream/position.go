package stream

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Position is the point up to which a stream has been read. It is the same on every rank,
// and checkpoints store it.
type Position struct {
	Spans      int64       `json:"spans"`                // taken, with the current one
	Span       []string    `json:"span,omitempty"`       // names that the current one reads; none between two
	Parts      []Part      `json:"parts,omitempty"`      // what of each name, for files; none: all of it
	Folders    []Folder    `json:"folders,omitempty"`    // in the order of the configuration
	Partitions []Partition `json:"partitions,omitempty"` // of all topics
	Lost       int64       `json:"lost,omitempty"`       // records that were skipped because they no longer existed
	Files      int64       `json:"bad_files,omitempty"`  // files that were skipped because they are unusable
	Skipped    []string    `json:"skipped,omitempty"`    // their names, the last ones
	Ended      string      `json:"ended,omitempty"`      // why nothing more is read
}

// Clone returns a deep copy.
func (p Position) Clone() Position {
	p.Span, p.Parts, p.Skipped = slices.Clone(p.Span), slices.Clone(p.Parts), slices.Clone(p.Skipped)
	p.Folders, p.Partitions = slices.Clone(p.Folders), slices.Clone(p.Partitions)
	return p
}

// Validate returns the fault of a position read from a file.
func (p *Position) Validate() error {
	switch {
	case p.Spans < 0 || p.Lost < 0 || len(p.Folders) > maxFolders || len(p.Span) > maxSpan || len(p.Partitions) > maxPartitions:
		return fmt.Errorf("stream: position: %d spans, %d names, %d folders, %d partitions", p.Spans, len(p.Span), len(p.Folders), len(p.Partitions))
	case len(p.Span) > 0 && p.Spans == 0:
		return fmt.Errorf("stream: position: a span of %d names, and none was taken", len(p.Span))
	case len(p.Parts) > 0 && len(p.Parts) != len(p.Span):
		return fmt.Errorf("stream: position: %d parts of %d names", len(p.Parts), len(p.Span))
	}
	for i, x := range p.Parts {
		if x.Lo < 0 || x.Lo >= x.Hi {
			return fmt.Errorf("stream: position: the bytes %d to %d of %q", x.Lo, x.Hi, p.Span[i])
		}
	}
	if p.Files < 0 || len(p.Skipped) > maxSkipped {
		return fmt.Errorf("stream: position: %d unusable files, %d names", p.Files, len(p.Skipped))
	}
	for _, s := range slices.Concat(p.Span, p.Skipped) {
		if s == "" || len(s) > maxName {
			return fmt.Errorf("stream: position: a name of %d bytes", len(s))
		}
	}
	for i, f := range p.Folders {
		if f.Files < 0 || len(f.Last) > maxName || f.Name == "" || len(f.Name) > maxName || (f.Files == 0) != (f.Last == "") {
			return fmt.Errorf("stream: position: folder %d: %d files up to %q", i, f.Files, f.Last)
		}
	}
	for i, t := range p.Partitions {
		if t.Next < 0 || t.Number < 0 || t.Topic == "" || len(t.ID) > maxID || i > 0 && comparePartitions(p.Partitions[i-1], t) >= 0 {
			return fmt.Errorf("stream: position: partition %d of topic %q at offset %d", t.Number, t.Topic, t.Next)
		}
	}
	return nil
}

// Skip counts files that are skipped.
func (p *Position) Skip(files []Bad) {
	p.Files += int64(len(files))
	for _, x := range files {
		p.Skipped = append(p.Skipped, x.Name)
	}
	p.Skipped = p.Skipped[max(len(p.Skipped)-maxSkipped, 0):]
}

// Rules configure a stream.
type Rules struct {
	Most int           // maximum files of a span
	Idle time.Duration // time without anything new after which the stream ends; 0: never
	Skip bool          // continue after records that no longer exist; otherwise they are an error
	Late bool          // skip files that come late; otherwise they are an error

	Probe func(name string, bytes int64) (Probe, error) // returns the state of the first bytes of a file; for folders
}

// Verdict is the decision: read a span, or end. If both are empty, look again later.
type Verdict struct {
	Span    []string // names, in order
	Parts   []Part   // the bytes to read of each file
	End     string   // reason of the end
	Reports []string // about files that changed after they were taken, and offsets that do not exist
	Bad     []Bad    // files that are skipped
}

// Partition is the offset up to which one partition of a topic has been read.
type Partition struct {
	Topic  string `json:"topic"`
	Number int32  `json:"number"`
	Next   int64  `json:"next"`         // offset of the first record that was not taken
	ID     string `json:"id,omitempty"` // of the topic that has been read; "" in positions of earlier versions and without Mark.ID
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
}

const (
	maxPartitions = 1 << 16
	maxID         = 64 // bytes of the id of a topic
)

// Folder is the point up to which one folder has been read.
type Folder struct {
	Name   string `json:"name"`
	Last   string `json:"last"`   // name that was taken last
	Files  int64  `json:"files"`  // taken
	Digest uint64 `json:"digest"` // sum of the hashes of their names
}

// Bad is a file that is skipped.
type Bad struct{ Name, Why string }

// Limits of a position.
const (
	maxFolders = 1 << 10
	maxSpan    = 1 << 16 // names of a span
	maxName    = 1 << 12 // bytes of a name
	maxTaken   = 1 << 16 // remembered names of removed files
	maxSkipped = 1 << 12 // remembered names of unusable files
)

// File is a file found by a look. Stamp distinguishes two states of the same size, for
// example the modification time.
type File struct {
	Name  string
	Bytes int64
	Stamp string
}

// Folders is a stream of growing folders.
type Folders struct {
	rules    Rules
	past     Past
	at       []Folder           // watched folders, then other folders of the position
	before   []map[string]File  // new files of the previous look
	changing []map[string]File  // taken files of the previous look that have changed since
	taken    []map[string]taken // by name, files known to be taken
}

// Part is the bytes [Lo, Hi) of a file.
type Part struct {
	Lo     int64  `json:"lo,omitempty"`
	Hi     int64  `json:"hi"`
	Digest uint64 `json:"digest"` // of the bytes before Hi
}

// Probe describes the first bytes of a file.
type Probe struct {
	Digest  uint64 // of the bytes
	Appends bool   // bytes after them can be read without them
	Cut     bool   // they end inside a line
}

// Past is how much was read of files before a resume, by their names. Complete means that
// files without a part were empty when they were taken; otherwise their length is unknown.
type Past struct {
	Parts    map[string]Part
	Skipped  map[string]bool // files that are not read
	Complete bool
}

// taken is the last known state of a file that was taken.
type taken struct {
	bytes  int64
	stamp  string // "" if unknown
	digest uint64 // of its bytes
	closed bool   // it was replaced and is no longer read
}
