//go:build !remote

package remote

import (
	"context"
	"fmt"
)

// Available reports whether the program was built with remote files.
const Available = false

func without(name string) error {
	return fmt.Errorf("remote: %s: this program was built without remote files: build it with go build -tags remote ./cmd/wdlrun, or copy the file here and give its path", name)
}

// Find returns the objects that a name stands for.
func Find(_ context.Context, name string) ([]*Object, error) { return nil, without(name) }

// List returns what Find does, none if there are none.
func List(_ context.Context, name string) ([]*Object, error) { return nil, without(name) }

// Reader reads an object. It cannot be had.
type Reader struct{ name string }

// Open prepares to read an object.
func (o *Object) Open() *Reader { return &Reader{o.Name} }

func (r *Reader) ReadAt([]byte, int64) (int, error) { return 0, without(r.name) }

// Close ends reading ahead.
func (*Reader) Close() error { return nil }
