package data

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/write"
)

// Target is the output file of a command.
type Target struct {
	Path, Format, Packing string
	bare                  bool // tsv without a header
}

// TargetOf determines format and compression from flags and the file name.
func TargetOf(path, format, packing string) (o Target, err error) {
	promised, rest := write.PackingOf(path)
	if format == "" {
		format = formatOf(rest)
	}
	switch {
	case path == "":
		return o, errors.New("give -out FILE, the file to write")
	case format == "":
		return o, fmt.Errorf("the name %s has no known extension: give -format, one of %s", path, strings.Join(write.Formats(), ", "))
	case !slices.Contains(write.Formats(), format):
		return o, fmt.Errorf("-format %s: there are %s", format, strings.Join(write.Formats(), ", "))
	case packing != "" && !slices.Contains(write.Packings(), packing):
		return o, fmt.Errorf("-compress %s: there are %s", packing, strings.Join(write.Packings(), ", "))
	case write.IsPackedInside(format) && promised != "none":
		return o, fmt.Errorf("%s: a file of %s is compressed inside: leave the suffix out and give -compress %s", path, map[string]string{"parquet": "Parquet", "arrow": "Arrow IPC", "avro": "Avro"}[format], promised)
	case packing != "" && promised != "none" && packing != promised:
		return o, fmt.Errorf("-compress %s contradicts the file name %s (%s)", packing, path, promised)
	case packing == "" && !write.IsPackedInside(format):
		packing = promised
	}
	return Target{Path: path, Format: format, Packing: packing}, nil
}

// Stream writes records to a target.
type Stream struct {
	Target
	counted *counter
	buffer  *bufio.Writer
	pack    io.WriteCloser
	write.Writer
}

// Begin starts a table on w.
func (o Target) Begin(w io.Writer, columns []write.Column, missing []string) (out *Stream, err error) {
	out = &Stream{Target: o, counted: &counter{w: w}}
	out.buffer = bufio.NewWriterSize(out.counted, 1<<20)
	packing, codec := o.Packing, ""
	if write.IsPackedInside(o.Format) {
		packing, codec = "none", o.Packing
	}
	if out.pack, err = write.Pack(out.buffer, packing); err != nil {
		return nil, err
	}
	out.Writer, err = write.New(out.pack, write.Layout{Format: o.Format, Codec: codec, Missing: missing, NoHeader: o.bare}, columns)
	return out, err
}

// End flushes the stream.
func (o *Stream) End() error {
	for _, step := range []func() error{o.Writer.Close, o.pack.Close, o.buffer.Flush} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Output is a file of records being written. It gets its final name when it is complete.
type Output struct {
	Stream
	file *os.File
}

const PartSuffix = ".part"

func (o Target) Create(columns []write.Column, missing []string) (*Output, error) {
	file, err := os.Create(o.Path + PartSuffix)
	if err != nil {
		return nil, err
	}
	out := &Output{file: file}
	s, err := o.Begin(file, columns, missing)
	if err != nil {
		out.Abandon()
		return nil, err
	}
	out.Stream = *s
	return out, nil
}

// Abandon removes the file: a partial file would look complete.
func (o *Output) Abandon() {
	o.file.Close()
	os.Remove(o.file.Name())
}

// Finish gives the file its final name.
func (o *Output) Finish() (err error) {
	for _, step := range []func() error{o.End, o.file.Close, func() error { return os.Rename(o.file.Name(), o.Path) }} {
		if err = step(); err != nil {
			o.Abandon()
			return err
		}
	}
	return nil
}

// pairs reports whether the output format holds only a label and numbers.
func (o Target) pairs() bool { return strings.HasPrefix(o.Format, "lib") }

// isLines reports whether the output format has neither types nor lists.
func (o Target) isLines() bool { return isLines(o.Format) }

// isLines reports whether values of a format are fields of lines.
func isLines(format string) bool { return format == "csv" || format == "tsv" || format == "criteo" }

// counter counts bytes written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// IsText reports whether values are written as text.
func (o Target) IsText() bool { return o.Format == "csv" || o.Format == "tsv" }

// formatOf returns the format by the extension of a file name without compression; "" if
// it has none.
func formatOf(name string) string {
	switch ext := strings.TrimPrefix(filepath.Ext(name), "."); ext {
	case "tfrecords", "tfrec":
		return "tfrecord"
	case "ndjson":
		return "jsonl"
	case "feather":
		return "arrow"
	case "svm":
		return "libsvm"
	case "ffm":
		return "libffm"
	case "txt", "":
		return ""
	default:
		if slices.Contains(write.Formats(), ext) {
			return ext
		}
	}
	return ""
}
