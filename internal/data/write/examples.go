package write

import (
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// examples writes TFRecord of tf.Example.
type examples struct {
	table
	w             io.Writer
	features      []string
	record, frame []byte
}

func newExamples(w io.Writer, t table) *examples {
	return &examples{table: t, w: w, features: t.names()}
}

func (x *examples) Write(lists []value.List) error {
	if err := x.take(lists); err != nil {
		return err
	}
	if err := x.checkNulls(); err != nil {
		return err
	}
	x.record = tfrecord.AppendExample(x.record[:0], x.features, x.typed)
	if len(x.record) > tfrecord.MaxRecord {
		return fmt.Errorf("write: record %d: %d bytes; %w", x.rows, len(x.record), tfrecord.ErrLength)
	}
	x.frame = tfrecord.AppendFrame(x.frame[:0], x.record)
	if _, err := x.w.Write(x.frame); err != nil {
		return fmt.Errorf("write: record %d: %w", x.rows, err)
	}
	return nil
}

func (x *examples) Close() error { return nil }
