package record

import (
	"bytes"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Partition is a field that a folder NAME=VALUE gives to all records of the files in it, as
// Hive and Spark name them.
type Partition struct {
	Name, Value string
	Missing     bool // __HIVE_DEFAULT_PARTITION__, or no value
}

// hiveMissing is the value of a folder whose records have no value.
const hiveMissing = "__HIVE_DEFAULT_PARTITION__"

// partitionsOf returns the partitions of a path of a file, outermost first.
func partitionsOf(path string) (all []Partition, err error) {
	if !strings.Contains(path, "=") {
		return nil, nil
	}
	folders := strings.Split(filepath.ToSlash(path), "/")
	for _, folder := range folders[:len(folders)-1] {
		name, text, ok := strings.Cut(folder, "=")
		if !ok || name == "" {
			continue
		}
		p := Partition{Name: decoded(name), Value: decoded(text), Missing: text == "" || text == hiveMissing}
		if err := printable(p.Name + p.Value); err != nil {
			return nil, fmt.Errorf("%s: the folder %q gives a field with a control character: rename the folder", path, folder)
		}
		if slices.ContainsFunc(all, func(q Partition) bool { return q.Name == p.Name }) {
			return nil, fmt.Errorf("%s: %s= occurs twice in the path; the value of the field %s is unclear: rename a folder", path, p.Name, p.Name)
		}
		all = append(all, p)
	}
	return all, nil
}

// decoded replaces percent encodings, with which Hive and Spark write special characters.
func decoded(s string) string {
	if text, err := url.PathUnescape(s); err == nil {
		return text
	}
	return s
}

// PartitionNames returns the names of the partitions of some files, in order of occurrence.
func PartitionNames(files []File) (names []string) {
	known := map[string]bool{}
	for i := range files {
		for _, p := range files[i].Partitions {
			if !known[p.Name] {
				known[p.Name] = true
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// Partition returns the value of a partition of a file; false if it is missing.
func (f *File) Partition(name string) (text string, ok bool) {
	for _, p := range f.Partitions {
		if p.Name == name {
			return p.Value, !p.Missing
		}
	}
	return "", false
}

// carried are the partitions of a file in the form of its format. Readers of records add them
// to each record, so that decoders find them like other fields:
//
//	csv, tsv           the last fields of the line
//	jsonl              the first members of the object
//	tfrecord           a second message, which protobuf merges with the first
//	libsvm, libffm     after svmTail: the values, in the order of the names, each after svmNext
//	parquet            columns of one value
type carried struct {
	names  []string
	values [][]byte // nil: missing
	added  []byte
	object bool // added begins an object
}

// The bytes that separate the partitions of a record of LibSVM. A value has no control character.
const (
	svmTail = '\x1d'
	svmNext = '\x1f'
)

// newCarried returns the partitions of a file with these names, nil if there are none.
func newCarried(form Format, f *File, names []string) (*carried, error) {
	if len(names) == 0 {
		return nil, nil
	}
	c := &carried{names: names, values: make([][]byte, len(names))}
	for i, name := range names {
		if text, ok := f.Partition(name); ok {
			c.values[i] = []byte(text)
		}
	}
	if i := c.write(form); i >= 0 {
		return nil, fmt.Errorf("%s: the value %q of the folder %s= contains the delimiter, which tsv cannot hold: rename the folder", f.Name, c.values[i], names[i])
	}
	return c, nil
}

// write writes added from values. It returns the index of a value that a line cannot hold, -1 if there
// is none.
func (c *carried) write(form Format) int {
	c.added = c.added[:0]
	switch form := form.(type) {
	case *Delimited:
		for i, v := range c.values {
			c.added = append(c.added, form.Delim)
			if v == nil {
				continue
			}
			text, ok := form.quoted(v)
			if !ok {
				return i
			}
			c.added = append(c.added, text...)
		}
	case objectFormat:
		c.object, c.added = true, append(c.added, '{')
		for i, v := range c.values {
			if v == nil {
				continue
			}
			if len(c.added) > 1 {
				c.added = append(c.added, ',')
			}
			c.added, _ = jsonl.AppendString(c.added, []byte(c.names[i])) // both are UTF-8: they are printable
			c.added, _ = jsonl.AppendString(append(c.added, ':'), v)
		}
	case exampleFormat:
		lists := make([]value.List, len(c.names))
		for i, v := range c.values {
			if v != nil {
				lists[i].SetText(v)
			}
		}
		c.added = tfrecord.AppendExample(c.added, c.names, lists)
	case svmFormat:
		c.added = append(c.added, svmTail)
		for _, v := range c.values {
			c.added = append(append(c.added, svmNext), v...)
		}
	}
	return -1
}

// quoted returns a value as a field of a line. It returns false for one that tsv cannot hold.
func (d *Delimited) quoted(text []byte) ([]byte, bool) {
	if plain := d.trim(text); len(plain) == len(text) && bytes.IndexByte(text, d.Delim) < 0 && bytes.IndexByte(text, '"') < 0 {
		return text, true
	}
	if !d.quotes {
		return text, bytes.IndexByte(text, d.Delim) < 0
	}
	return append(append([]byte{'"'}, bytes.ReplaceAll(text, []byte{'"'}, []byte(`""`))...), '"'), true
}

// join returns a record with the partitions of its file. It is valid until the next call.
func (c *carrier) join(record []byte) []byte {
	of := c.of
	if of == nil {
		return record
	}
	if !of.object {
		c.buffer = append(append(c.buffer[:0], record...), of.added...)
		return c.buffer
	}
	rest := bytes.TrimLeft(record, " \t\r")
	if len(rest) == 0 || rest[0] != '{' {
		return record // the decoder reports it
	}
	c.buffer = append(c.buffer[:0], of.added...)
	if rest = bytes.TrimLeft(rest[1:], " \t\r"); len(of.added) > 1 && (len(rest) == 0 || rest[0] != '}') {
		c.buffer = append(c.buffer, ',')
	}
	c.buffer = append(c.buffer, rest...)
	return c.buffer
}

// carrier adds the partitions of the current file to records.
type carrier struct {
	of     *carried // nil: none
	buffer []byte
}

// carry makes the readers of a file add its partitions to records. names are the fields of the
// file; carry returns them with the partitions that it adds. A field that the file has too is
// read from the file, but the two must not contradict each other.
func (s *Set) carry(f *File, src Content, names []string) ([]string, error) {
	if len(s.partitions) == 0 {
		return names, nil
	}
	var own, added []string
	for _, name := range s.partitions {
		if slices.Contains(names, name) {
			own = append(own, name)
		} else {
			added = append(added, name)
		}
	}
	if err := s.agree(f, src, names, own); err != nil {
		return nil, err
	}
	var err error
	if f.carried, err = newCarried(s.Format, f, added); err != nil || names == nil {
		return nil, err
	}
	return append(slices.Clip(names), added...), nil
}

// agree returns an error if one of the first records of a file has another value in a field
// than the folder of the file.
func (s *Set) agree(f *File, src Content, fields, names []string) error {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, ok := f.Partition(name)
		return !ok
	})
	if len(names) == 0 {
		return nil
	}
	d, err := s.Format.Decoder(fields, names)
	if err != nil {
		return err
	}
	lists, text := make([]value.List, len(names)), []byte(nil)
	return FirstUnits(s.Format, names, f, src, lookRecords, func(record []byte) error {
		if d.Decode(record, lists) != nil {
			return nil // the scan reports faults
		}
		for i, name := range names {
			want, _ := f.Partition(name)
			if lists[i].Len() == 0 {
				continue
			}
			if text = lists[i].Append(text[:0], 0); lists[i].Len() > 1 || !sameValue(text, []byte(want)) {
				return fmt.Errorf("%s: its column %s contains %q, but its folder is %s=%s: move the file, or remove or rename the column",
					f.Name, name, CutLong(text), name, want)
			}
		}
		return nil
	})
}

// sameValue reports whether two texts are equal, or are equal numbers.
func sameValue(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, why := value.ParseNumber(a)
	y, whyNot := value.ParseNumber(b)
	return why == "" && whyNot == "" && x == y
}
