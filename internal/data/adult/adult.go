// Package adult contains the UCI Adult (Census Income) data set: 32,561 records for
// training and 16,281 for testing, with 14 attributes and a label. It is real data to
// train on without a download.
//
// The files are embedded as zstd (0.5 MB instead of 6) and decompressed into memory on
// first use, once per process. They are licensed under CC BY 4.0; ATTRIBUTION.md is the
// credit.
package adult

import (
	_ "embed" // the compressed files
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

//go:embed adult.data.zst
var train []byte

//go:embed adult.test.zst
var test []byte

// Names of the two files, as arguments of Open.
const (
	Train = "adult.data"
	Test  = "adult.test"
)

// Sizes of the decompressed files, limits of the decompression.
const (
	trainBytes = 3974305
	testBytes  = 2003153
)

var (
	openTrain = sync.OnceValues(func() ([]byte, error) { return inflate(Train, train, trainBytes) })
	openTest  = sync.OnceValues(func() ([]byte, error) { return inflate(Test, test, testBytes) })
)

// Open returns the contents of a file. The caller must not change them. It is safe for
// concurrent use.
func Open(name string) ([]byte, error) {
	switch name {
	case Train:
		return openTrain()
	case Test:
		return openTest()
	}
	return nil, fmt.Errorf("adult: there is no file %q; there are %s and %s", name, Train, Test)
}

func inflate(name string, b []byte, size int) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<25))
	if err != nil {
		return nil, fmt.Errorf("adult: %s: %w", name, err)
	}
	defer d.Close()
	out, err := d.DecodeAll(b, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("adult: %s: the program is damaged: %w", name, err)
	}
	if len(out) != size {
		return nil, fmt.Errorf("adult: %s: the program is damaged: %d bytes, %d expected", name, len(out), size)
	}
	return out, nil
}
