package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/registry"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// topic returns one file per range of a topic: the range in the address, or the current
// contents of each partition.
func (r *resolver) topic(p string) ([]File, error) {
	a, err := kafka.ParseAddress(p)
	if err != nil {
		return nil, err
	}
	whole := a
	whole.Range = nil
	log := r.logs[whole.String()]
	if log == nil {
		log = kafka.NewLog(a)
		r.logs[whole.String()] = log
	}
	if a.Range != nil {
		return []File{topicFile(log, a)}, nil
	}
	if err := log.Open(); err != nil {
		return nil, err
	}
	defer log.Close()
	marks, err := log.Marks(context.Background())
	if err != nil {
		return nil, err
	}
	if err := log.Pin(marks[0].ID); err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	var files []File
	why := "the topic holds no record"
	for _, m := range marks {
		if m.Written > m.High {
			why = m.Open()
		}
		if m.High > m.Low {
			files = append(files, topicFile(log, a.Of(kafka.Range{Partition: m.Number, Lo: m.Low, Hi: m.High}, "")))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %s", p, why)
	}
	return files, nil
}

func topicFile(log *kafka.Log, a kafka.Address) File {
	r := *a.Range
	return File{Name: a.String(), Bytes: r.Hi - r.Lo, size: r.Hi, Log: log, part: r}
}

// IsTopic reports whether a name is the address of a topic, or of a range of one.
func IsTopic(name string) bool { return strings.HasPrefix(name, kafka.Scheme) }

// formatFor returns the format of some files.
func formatFor(s schema.Source, files []File) (Format, error) {
	n := 0
	for i := range files {
		if files[i].Log != nil {
			n++
		}
	}
	switch f := NewFormat(s); {
	case n == 0 && s.Format == "protobuf":
		return nil, errors.New("protobuf is a format of topics; write files as tfrecord, jsonl, parquet or avro")
	case n == 0:
		return f, nil
	case n < len(files):
		return nil, errors.New("topics and files cannot be read together; train on one of them")
	case misplaced(s.Fields):
		return nil, errors.New("_key, _time and _header.NAME are not in the lines of a topic: name them last in data.fields")
	case s.Header:
		return nil, errors.New("the records of a topic have no header: name their fields in data.fields")
	case s.Format == "avro", s.Format == "protobuf":
		if !s.Registry.On() {
			return nil, fmt.Errorf("records of a topic in %s need their schemas: set data.registry.url, the address of a schema registry, or data.registry.files", s.Format)
		}
		return topicFormat{Format: newMessageFormat(s.Format, registry.New(s.Registry, s.Format, s.Explode))}, nil
	case schema.IsTyped(s.FormatName()):
		return nil, errors.New("a record of a topic cannot be " + s.Format + "; it is a line of csv, tsv, criteo, libsvm or libffm, a JSON object (jsonl), a tf.Example (tfrecord), or a message of avro or protobuf")
	default:
		return topicFormat{f, s.Explode, s.Fields}, nil
	}
}

// Look returns no names for records that name their fields: a range is too short to show
// all that may occur.
func (t topicFormat) Look(f *File, s Content) ([]string, error) {
	if _, ok := namingOf(t); ok {
		return nil, nil
	}
	return t.Format.Look(f, s)
}

func (topicFormat) Place(f *File, offset int64) (Fault, error) {
	return Fault{File: f.Name, Offset: offset}, nil
}

// trimLine removes a line end.
func trimLine(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}

// OfTopic returns the format of the records of a topic written in format name.
func OfTopic(name string) Format { return topicFormat{Format: NewFormat(schema.Source{Format: name})} }

// misplaced reports whether a field of lines follows one from around the value.
func misplaced(fields []string) bool {
	i := slices.IndexFunc(fields, isAround)
	return i >= 0 && slices.ContainsFunc(fields[i:], func(name string) bool { return !isAround(name) })
}
