package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/write"
)

// target is the output file of a command.
type target struct {
	path, format, packing string
	bare                  bool // tsv without a header
}

// targetOf determines format and compression from flags and the file name.
func targetOf(path, format, packing string) (o target, err error) {
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
	case format == "parquet" && promised != "none":
		return o, fmt.Errorf("%s: a Parquet file is compressed inside: leave the suffix out and give -compress %s", path, promised)
	case packing != "" && promised != "none" && packing != promised:
		return o, fmt.Errorf("-compress %s contradicts the file name %s (%s)", packing, path, promised)
	case packing == "" && format != "parquet":
		packing = promised
	}
	return target{path: path, format: format, packing: packing}, nil
}

// stream writes records to a target.
type stream struct {
	target
	counted *counter
	buffer  *bufio.Writer
	pack    io.WriteCloser
	write.Writer
}

// begin starts a table on w.
func (o target) begin(w io.Writer, columns []write.Column, missing []string) (out *stream, err error) {
	out = &stream{target: o, counted: &counter{w: w}}
	out.buffer = bufio.NewWriterSize(out.counted, 1<<20)
	packing, codec := o.packing, ""
	if o.format == "parquet" {
		packing, codec = "none", o.packing
	}
	if out.pack, err = write.Pack(out.buffer, packing); err != nil {
		return nil, err
	}
	out.Writer, err = write.New(out.pack, write.Layout{Format: o.format, Codec: codec, Missing: missing, NoHeader: o.bare}, columns)
	return out, err
}

// end flushes the stream.
func (o *stream) end() error {
	for _, step := range []func() error{o.Writer.Close, o.pack.Close, o.buffer.Flush} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// output is a file of records being written. It gets its final name when it is complete.
type output struct {
	stream
	file *os.File
}

const partSuffix = ".part"

func (o target) create(columns []write.Column, missing []string) (*output, error) {
	file, err := os.Create(o.path + partSuffix)
	if err != nil {
		return nil, err
	}
	out := &output{file: file}
	s, err := o.begin(file, columns, missing)
	if err != nil {
		out.abandon()
		return nil, err
	}
	out.stream = *s
	return out, nil
}

// abandon removes the file: a partial file would look complete.
func (o *output) abandon() {
	o.file.Close()
	os.Remove(o.file.Name())
}

// finish gives the file its final name.
func (o *output) finish() (err error) {
	for _, step := range []func() error{o.end, o.file.Close, func() error { return os.Rename(o.file.Name(), o.path) }} {
		if err = step(); err != nil {
			o.abandon()
			return err
		}
	}
	return nil
}

// pairs reports whether the output format holds only a label and numbers.
func (o target) pairs() bool { return strings.HasPrefix(o.format, "lib") }

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

// isText reports whether values are written as text.
func (o target) isText() bool { return o.format == "csv" || o.format == "tsv" }
