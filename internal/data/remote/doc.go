// Package remote reads files that are in an object store or on a web server, by
// ranges of their bytes.
//
// # Names
//
//	https://HOST/PATH, http://HOST/PATH        one file
//	s3://BUCKET/KEY, gs://BUCKET/KEY           one object
//	s3://BUCKET/FOLDER/, s3://BUCKET/part-*    the objects directly in a folder; those that match
//	…?endpoint=URL&region=NAME                 of s3: another store that speaks its language
//
// A server must answer to ranges and say how long the file is. Google's store is
// read through its S3-compatible interface, with HMAC keys. Keys are looked for
// where the AWS command line does: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,
// MINIO_ACCESS_KEY and MINIO_SECRET_KEY, ~/.aws/credentials, then the machine's
// own role; without any, requests are anonymous.
//
// # Build
//
// The code follows the build tag remote, for it adds megabytes to the
// program: go build -tags remote ./cmd/wdlrun. Without the tag every function
// says so.
//
// # Cost and limits
//
// A Reader asks for 256 KiB, twice as much when the next read follows, up to
// 8 MiB, and then asks for the next part while this one is read: it holds two
// parts. A listing has at most 2²⁰ objects, a name 1024 bytes.
//
// # Errors and concurrency
//
// A request that fails on the way, or with 408, 429 or 5xx, is repeated with
// growing pauses for 20 seconds. An object that is not what it was when it was
// found (by its ETag) is ErrChanged. A Reader may be used by several goroutines,
// one read at a time.
package remote

import (
	"context"
	"errors"
	"strings"
	"time"
)

// ErrChanged means that a file is not what it was when the job looked at it.
var ErrChanged = errors.New("it changed while the job ran; start the job again, on files that no program writes")

// Limits.
const (
	mostObjects = 1 << 20
	mostName    = 1 << 10
)

// Object is a file that was found.
type Object struct {
	Name  string // without the query
	Query string // of its address, with the ? before it; "" for none
	Bytes int64
	Tag   string // changes when the content does; "" if the server tells none
	Time  time.Time

	from store
	key  string
}

// Address is what Find finds the object by again.
func (o *Object) Address() string { return o.Name + o.Query }

// Is reports whether a name is one of a remote file.
func Is(name string) bool {
	for _, s := range []string{"https://", "http://", "s3://", "gs://"} {
		if strings.HasPrefix(name, s) {
			return true
		}
	}
	return false
}

// store is where objects are.
type store interface {
	// stat finds an object.
	stat(ctx context.Context, key string) (*Object, error)
	// list returns the objects whose keys begin with prefix and have no further
	// slash behind it.
	list(ctx context.Context, prefix string) ([]*Object, error)
	// get reads n bytes of an object from an offset on.
	get(ctx context.Context, o *Object, off, n int64) (body, error)
}

// body is what a store sends.
type body interface {
	Read([]byte) (int, error)
	Close() error
}
