package write

import (
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// packings by name and by the suffix of files.
var packings = []struct{ name, suffix string }{{"none", ""}, {"gzip", ".gz"}, {"zstd", ".zst"}, {"snappy", ".sz"}}

// Packings returns the names of the compressions.
func Packings() []string {
	names := make([]string, len(packings))
	for i, p := range packings {
		names[i] = p.name
	}
	return names
}

// PackingOf returns the packing by the suffix of a file name, and the name without it.
func PackingOf(path string) (packing, rest string) {
	for _, p := range packings[1:] {
		if rest, ok := strings.CutSuffix(path, p.suffix); ok {
			return p.name, rest
		}
	}
	return "none", path
}

// Pack returns a writer that compresses to w. Close flushes it and does not close w.
func Pack(w io.Writer, packing string) (io.WriteCloser, error) {
	switch packing {
	case "none":
		return open{w}, nil
	case "gzip":
		return gzip.NewWriter(w), nil
	case "zstd":
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
		return z, nil
	case "snappy":
		return snappy.NewBufferedWriter(w), nil
	}
	return nil, fmt.Errorf("write: there is no compression %q; there are %s", packing, strings.Join(Packings(), ", "))
}

type open struct{ io.Writer }

func (open) Close() error { return nil }

// IsPackedInside reports whether a format is compressed in the file, and not as a whole.
func IsPackedInside(format string) bool {
	return format == "parquet" || format == "arrow" || format == "avro"
}
