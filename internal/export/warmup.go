package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
)

// warmupRecords is the number of warm-up records of a model: enough to use each layer and
// table, and quick to read.
const warmupRecords = 32

// warmup returns the first records of the training data or of other files, with the fields that the model reads,
// as a TFRecord file of tf.Example.
func warmup(ctx context.Context, from schema.Source, in []Input) ([]byte, error) {
	if from.Follow.On {
		return nil, errors.New("the training data grows")
	}
	files, err := record.OpenFiles(from, from.Train)
	if err != nil {
		return nil, err
	}
	var names []string
	var columns []write.Column
	for _, x := range in {
		names = append(names, x.Field)
		columns = append(columns, write.Column{Name: x.Field, Kind: value.Text, Many: x.List || !from.HasLayout()}) // other formats have lists
	}
	var b bytes.Buffer
	w, err := write.New(&b, write.Layout{Format: "tfrecord", Missing: from.Missing}, columns)
	if err != nil {
		return nil, err
	}
	n := 0
	if _, err := files.Walk(ctx, names, 0, func(lists []value.List) error {
		if err := w.Write(lists); err != nil {
			return err
		}
		if n++; n == warmupRecords {
			return record.Stop
		}
		return nil
	}, nil); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if n == 0 || b.Len() > maxWarmup {
		return nil, fmt.Errorf("%d records of %d bytes, at most %d bytes are kept", n, b.Len(), maxWarmup)
	}
	return b.Bytes(), nil
}
