package record

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/registry"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// topicBlock is the number of offsets of a partition in a block.
const topicBlock = 1 << 10

// topicSource is a range of a partition, open for reading. Its positions are offsets of
// records, not of bytes.
type topicSource struct {
	log  *kafka.Log
	part kafka.Range
}

func (s topicSource) ReadAt([]byte, int64) (int, error) {
	return 0, errors.New("records of a topic are not bytes of a file") // unreachable
}

func (s topicSource) Close() error { return s.log.Close() }

// resolver finds the files of names. Ranges of one topic share its connections.
type resolver struct {
	logs  map[string]*kafka.Log
	plain map[string]bool // folders that belong to no table
}

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
	for _, m := range marks {
		if m.High > m.Low {
			files = append(files, topicFile(log, a.Of(kafka.Range{Partition: m.Number, Lo: m.Low, Hi: m.High}, "")))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: the topic holds no record", p)
	}
	return files, nil
}

func topicFile(log *kafka.Log, a kafka.Address) File {
	r := *a.Range
	return File{Name: a.String(), Bytes: r.Hi - r.Lo, size: r.Hi, Log: log, part: r}
}

// topicFormat is a format of the records of a topic: a line of a text format, a JSON
// object, or a tf.Example without the frame of a TFRecord.
type topicFormat struct{ Format }

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
	case s.Header:
		return nil, errors.New("the records of a topic have no header: name their fields in data.fields")
	case s.Format == "avro", s.Format == "protobuf":
		if !s.Registry.On() {
			return nil, fmt.Errorf("records of a topic in %s need their schemas: set data.registry.url, the address of a schema registry, or data.registry.files", s.Format)
		}
		return topicFormat{newMessageFormat(s.Format, registry.New(s.Registry, s.Format))}, nil
	case schema.IsTyped(s.FormatName()):
		return nil, errors.New("a record of a topic cannot be " + s.Format + "; it is a line of csv, tsv, criteo, libsvm or libffm, a JSON object (jsonl), a tf.Example (tfrecord), or a message of avro or protobuf")
	default:
		return topicFormat{f}, nil
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

func (t topicFormat) Records(names []string) Records {
	r := &topicRecords{isRecord: func([]byte) bool { return true }}
	switch f := t.Format.(type) {
	case *messageFormat:
		r.messages = f.schemas.NewDecoder(names)
		return r
	case objectFormat:
		r.json = true
	}
	if text, ok := t.Format.Records(names).(*textRecords); ok {
		r.isRecord, r.text = text.isRecord, true
	}
	return r
}

func (topicFormat) Place(f *File, offset int64) (Fault, error) {
	return Fault{File: f.Name, Offset: offset}, nil
}

// topicRecords reads the records of a range.
type topicRecords struct {
	isRecord func([]byte) bool
	text     bool
	json     bool
	messages *registry.Decoder // of messages; nil: the format has its own decoder
	row      []byte            // of a message

	src    topicSource
	at, hi int64 // next range to fetch
	bytes  int   // of the next fetch
	number int32
	held   []kafka.Record
}

func (r *topicRecords) Begin(s Content, _ *File, b Block, offset int64, number int32) error {
	src, ok := s.(topicSource)
	if !ok {
		return errors.New("no topic") // unreachable
	}
	r.src, r.at, r.hi, r.number, r.held, r.bytes = src, max(b.Lo, offset), b.Hi, number, nil, 0
	return nil
}

// Next returns the next record. Records without a value mark the deletion of a key; they
// are skipped, as blank lines are.
func (r *topicRecords) Next() (Unit, error) {
	for {
		if len(r.held) == 0 {
			if r.at >= r.hi {
				return Unit{Number: r.number, Offset: r.hi}, io.EOF
			}
			var err error
			if r.held, r.at, err = r.src.log.From(context.Background(), r.src.part.Partition, r.at, r.bytes); err != nil {
				return Unit{Number: r.number, Offset: r.at}, err
			}
			r.bytes = max(2*r.bytes, 256<<10) // sequential reading: fetch more
			continue
		}
		x := r.held[0]
		if x.Offset >= r.hi {
			r.held, r.at = nil, r.hi
			continue
		}
		r.held = r.held[1:]
		u := Unit{Record: x.Value, Offset: x.Offset, Number: r.number}
		r.number++
		if x.Value == nil {
			continue
		}
		var err error
		if u.Record, u.Flaw, err = r.take(x.Value); err != nil || u.Flaw != nil || r.isRecord(u.Record) {
			return u, err
		}
	}
}

// take returns the record in a value.
func (r *topicRecords) take(b []byte) (record []byte, fl *Flaw, err error) {
	if r.messages != nil {
		r.row, err = r.messages.AppendRow(context.Background(), r.row[:0], b)
		if flaw, ok := errors.AsType[registry.Flaw](err); ok {
			return nil, &Flaw{Field: -1, Want: string(flaw)}, nil
		}
		return r.row, nil, err
	}
	if id, rest, framed := registry.Cut(b); framed { // no text and no tf.Example begins with a zero byte
		if b = rest; !r.json || !jsonl.Is(rest) {
			return nil, &Flaw{Field: -1, Want: fmt.Sprintf("the value begins with the magic byte 0 and schema id %d, as serializers of a schema registry write Avro and Protobuf: set data.format: avro or protobuf, and data.registry.url", id)}, nil
		}
	}
	if r.text {
		b = trimLine(b)
		if len(b) > MaxLine {
			return nil, &Flaw{Field: -1, Want: "the record is longer than 1 MiB"}, nil
		}
	}
	return b, nil, nil
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
func OfTopic(name string) Format { return topicFormat{NewFormat(schema.Source{Format: name})} }
