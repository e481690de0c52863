// Package adult holds the UCI Adult (Census Income) data set: 32,561 records
// for training and 16,281 for testing, of 14 attributes and a label, so that
// there is real data to train on without a download.
//
// The files are embedded as zstd (0.5 MB instead of 6) and decompressed into
// memory when they are first asked for, once per process. They are licensed
// under CC BY 4.0; ATTRIBUTION.md, also from Attribution, gives the credit.
package adult

import (
	_ "embed" // the compressed files
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

//go:embed ATTRIBUTION.md
var attribution string

//go:embed adult.data.zst
var train []byte

//go:embed adult.test.zst
var test []byte

// Names of the two files, as Open takes them.
const (
	Train = "adult.data"
	Test  = "adult.test"
)

// Sizes of the decompressed files: what decompression may take and must give.
const (
	trainBytes = 3974305
	testBytes  = 2003153
)

var (
	openTrain = sync.OnceValues(func() ([]byte, error) { return inflate(Train, train, trainBytes) })
	openTest  = sync.OnceValues(func() ([]byte, error) { return inflate(Test, test, testBytes) })
)

// Attribution is the credit that the licence of the data asks for, as Markdown.
func Attribution() string { return attribution }

// Open returns the content of a file, which the caller must not change.
// It is safe for concurrent use.
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
