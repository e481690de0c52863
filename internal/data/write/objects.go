package write

import (
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// objects writes JSON objects, one per line.
type objects struct {
	table
	w    io.Writer
	keys [][]byte // written before each value
	line []byte
}

func newObjects(w io.Writer, t table) (*objects, error) {
	x := &objects{table: t, w: w}
	for i, c := range t.columns {
		key, err := jsonl.AppendString([]byte{"{,"[min(i, 1)]}, []byte(c.Name))
		if err != nil {
			return nil, fmt.Errorf("write: column %d: its name, %q, %w", i+1, c.Name, err)
		}
		x.keys = append(x.keys, append(key, ':'))
	}
	return x, nil
}

func (x *objects) Write(lists []value.List) error {
	if err := x.take(lists); err != nil {
		return err
	}
	x.line = x.line[:0]
	for i := range x.typed {
		var err error
		if x.line, err = jsonl.AppendList(append(x.line, x.keys[i]...), &x.typed[i], x.columns[i].Many, x.columns[i].Truth); err != nil {
			return x.fault(i, err.Error())
		}
	}
	x.line = append(x.line, "}\n"...)
	if n := len(x.line) - 1; n > maxLine {
		return fmt.Errorf("write: record %d: it is %d bytes long, a line has at most %d", x.rows, n, maxLine)
	}
	if _, err := x.w.Write(x.line); err != nil {
		return fmt.Errorf("write: record %d: %w", x.rows, err)
	}
	return nil
}

func (x *objects) Close() error { return nil }
