package record

import (
	"bytes"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

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
