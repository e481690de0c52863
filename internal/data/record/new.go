package record

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// NewFormat returns the format of a valid source.
func NewFormat(s schema.Source) Format {
	switch s.FormatName() {
	case "csv", "tsv", "criteo":
		return NewDelimited(s)
	case "tfrecord":
		return exampleFormat{}
	case "jsonl":
		return objectFormat{}
	case "parquet", "arrow", "avro", "protobuf":
		return typedFormat{s.Format}
	case "libsvm", "libffm":
		svm := svmFormat{fields: s.Format == "libffm"}
		if len(s.Fields) > 0 {
			svm.partitions = &s.Fields
		}
		return svm
	}
	panic(fmt.Sprintf("data: format %q was not validated", s.Format))
}
