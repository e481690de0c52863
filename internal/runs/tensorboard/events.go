package tensorboard

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Field numbers, see the package comment.
const (
	eventWallTime, eventStep, eventVersion    = 1, 2, 3
	eventGraph, eventSummary, eventSession    = 4, 5, 7
	sessionStatus, sessionStart               = 1, 1
	summaryValue                              = 1
	valueTag, valueSimple, valueMetadata      = 1, 2, 9
	metadataPlugin, metadataClass, pluginName = 1, 4, 1
	classScalar                               = 1
)

// file is an event file.
type file struct {
	to    *os.File
	path  string
	size  int64           // bytes written
	hold  int             // bytes to collect before a write; 0: each event is written at once
	bytes []byte          // whole events not yet written
	known map[string]bool // tags whose metadata has been written
}

// holds is the number of bytes that are collected when many events are written at once.
const holds = 1 << 16

// fileNames formats the name of an event file from its second.
const fileNames = "events.out.tfevents.%s.wdlrun"

// create creates an event file in a folder of dir, such as a/b, with the event that every file
// starts with. It replaces a file with the name of that time if replace is set; otherwise it
// takes the name of the next second that is free.
func create(dir, folder string, at time.Time, replace bool) (*file, error) {
	in, err := makeFolder(dir, folder)
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	defer in.Close()
	f := &file{known: map[string]bool{}}
	if replace {
		f.hold = holds
	}
	const tries = 1000
	for second := max(0, at.Unix()); ; second++ {
		name := fmt.Sprintf(fileNames, fmt.Sprintf("%010d", second))
		f.path = filepath.Join(in.Name(), name)
		if replace {
			in.Remove(name) // if it remains, it exists below
		}
		to, err := in.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			f.to = to
			break
		}
		if !errors.Is(err, fs.ErrExist) || second >= at.Unix()+tries {
			return nil, fmt.Errorf("tensorboard: %w", regular.WithPath(f.path, err))
		}
	}
	e := wallTime(nil, at)
	e = protowire.AppendTag(e, eventVersion, protowire.BytesType)
	return f, f.append(protowire.AppendString(e, "brain.Event:2"))
}

// makeFolder makes and opens a folder of dir, see regular.OpenFolder.
func makeFolder(dir, folder string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := regular.OpenFolder(dir)
	for name := range strings.SplitSeq(folder, "/") {
		if err != nil {
			return nil, err
		}
		parent := root
		root, err = regular.MakeFolder(parent, name)
		parent.Close()
	}
	return root, err
}

// removeOlder removes the event files of earlier jobs from the file's folder. TensorBoard shows
// the first hyperparameters and the first end that it reads in a folder.
func (f *file) removeOlder() error {
	in, err := regular.OpenFolder(filepath.Dir(f.path))
	if err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	defer in.Close()
	older, err := fs.Glob(in.FS(), fmt.Sprintf(fileNames, "*"))
	for _, name := range older {
		if name != filepath.Base(f.path) {
			err = errors.Join(err, in.Remove(name))
		}
	}
	if err != nil {
		err = fmt.Errorf("tensorboard: %w", err)
	}
	return err
}

// append appends a whole event. After an error the file ends with the last event that was
// written.
func (f *file) append(event []byte) error {
	f.bytes = tfrecord.AppendFrame(f.bytes, event)
	if len(f.bytes) < f.hold {
		return nil
	}
	return f.flush()
}

func (f *file) flush() error {
	n, err := f.to.Write(f.bytes)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, f.to.Truncate(f.size))
		}
		return fmt.Errorf("tensorboard: %w", err)
	}
	f.size += int64(n)
	f.bytes = f.bytes[:0]
	return nil
}

func (f *file) close() error { return errors.Join(f.flush(), f.to.Close()) }

func wallTime(e []byte, at time.Time) []byte {
	return double(e, eventWallTime, seconds(at))
}

// seconds returns a time in the form of events.
func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixNano()) / 1e9
}

// scalar is a number with its tag.
type scalar struct {
	tag   string
	value float64
}

// add appends an event with those scalars that are finite.
func (f *file) add(at time.Time, step int64, all ...scalar) error {
	var summary []byte
	for _, s := range all {
		if math.IsNaN(s.value) || math.Abs(s.value) > math.MaxFloat32 {
			continue
		}
		summary = message(summary, summaryValue, f.value(s))
	}
	if len(summary) == 0 {
		return nil
	}
	return f.event(at, step, eventSummary, summary)
}

// event appends an event with a message in the given field.
func (f *file) event(at time.Time, step int64, field protowire.Number, m []byte) error {
	e := wallTime(nil, at)
	e = protowire.AppendVarint(protowire.AppendTag(e, eventStep, protowire.VarintType), uint64(step))
	return f.append(message(e, field, m))
}

func (f *file) value(s scalar) []byte {
	v := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), s.tag)
	v = protowire.AppendFixed32(protowire.AppendTag(v, valueSimple, protowire.Fixed32Type), math.Float32bits(float32(s.value)))
	if f.known[s.tag] {
		return v
	}
	f.known[s.tag] = true
	plugin := protowire.AppendString(protowire.AppendTag(nil, pluginName, protowire.BytesType), "scalars")
	m := protowire.AppendBytes(protowire.AppendTag(nil, metadataPlugin, protowire.BytesType), plugin)
	m = protowire.AppendVarint(protowire.AppendTag(m, metadataClass, protowire.VarintType), classScalar)
	return protowire.AppendBytes(protowire.AppendTag(v, valueMetadata, protowire.BytesType), m)
}

func message(to []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), m)
}

func double(to []byte, field protowire.Number, x float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(to, field, protowire.Fixed64Type), math.Float64bits(x))
}

// Field numbers, see the package comment.
const (
	valueTensor, pluginContent                  = 8, 2
	tensorType, tensorShape, tensorFloats       = 1, 2, 5
	shapeDim, dimSize                           = 2, 1
	pluginStart, pluginEnd                      = 3, 4
	startHParams, startTime                     = 1, 5
	mapKey, mapValue, numberValue, textValue    = 1, 2, 2, 3
	boolValue                                   = 4
	endStatus, endTime                          = 1, 2
	statusSuccess                               = 1
	typeFloat                                   = 1
	startTag, endTag, hparamsPlugin, maxHParams = "_hparams_/session_start_info", "_hparams_/session_end_info", "hparams", 200
)
