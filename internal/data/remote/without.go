//go:build !remote

package remote

import (
	"context"
	"fmt"
)

// Available reports whether the program was built with support for remote files.
const Available = false

func without(name string) error {
	return fmt.Errorf("remote: %s: this program was built without remote files: build it with go build -tags remote ./cmd/wdlrun, or copy the file here and give its path", name)
}

// Find fails: the program was built without support for remote files.
func Find(_ context.Context, name string) ([]*Object, error) { return nil, without(name) }

// List fails, as Find does.
func List(_ context.Context, name string) ([]*Object, error) { return nil, without(name) }

// Open returns a Reader that fails.
func (o *Object) Open() *Reader {
	return NewReader(o.Bytes, func(context.Context, int64, int64) ([]byte, error) { return nil, without(o.Name) })
}
