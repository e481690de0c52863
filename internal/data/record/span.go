package record

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// ErrEmpty means that a name of a span has no records.
var ErrEmpty = errors.New("it has no records")

// OpenName opens one name of a span of a stream, with the fields of its first records. part is what to
// read of a file; nil for a range of a topic.
func OpenName(src schema.Source, name string, part *stream.Part) (*Files, error) {
	var parts []stream.Part
	if part != nil {
		parts = []stream.Part{*part}
	}
	s, err := OpenParts(src, []string{name}, parts)
	if errors.Is(err, ErrNoLine) {
		return nil, ErrEmpty
	}
	if err != nil {
		return nil, err
	}
	s.Fields, err = s.NamesIn(0)
	return &Files{s}, err
}

// Placed is Walk for an each that also gets the bytes of the record, such as a JSON object, valid until it returns, and
// its place, such as people.csv:12, which may take a reading of the file. Fields that a JSON object does not have are
// missing.
func (f *Files) Placed(ctx context.Context, names []string, most int, each func(place func() string, record []byte, lists []value.List) error) (Walked, error) {
	return f.With(names).walkRecords(ctx, names, most, each, nil, nil)
}

// Has reports whether a field is in the first records, or around the records of a topic.
func (f *Files) Has(name string) bool {
	return slices.Contains(f.set.Fields, name) || f.set.Files[0].Log != nil && isAround(name)
}

// AreObjects reports whether the records are JSON objects.
func (f *Files) AreObjects() bool { return f.set.Source.FormatName() == "jsonl" }

// Wait makes reading wait for a broker that is away, until ctx ends. notify is called while it waits.
func (f *Files) Wait(ctx context.Context, notify func(cause error, lasted time.Duration)) {
	for i := range f.set.Files {
		if log := f.set.Files[i].Log; log != nil {
			log.Wait(ctx, notify)
		}
	}
}
