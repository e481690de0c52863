// Package remote reads byte ranges of files in an object store or on a web server.
//
// # Names
//
//	https://HOST/PATH, http://HOST/PATH        one file
//	s3://BUCKET/KEY, gs://BUCKET/KEY           one object
//	s3a://, oss://, cosn://                    the same, of S3, Alibaba's and Tencent's store
//	webhdfs://HOST:PORT/PATH, swebhdfs://…     one file of HDFS, by HTTP or HTTPS
//	s3://BUCKET/FOLDER/, s3://BUCKET/part-*    the objects in a folder and below; those that match
//	…?endpoint=URL&region=NAME&style=host      s3, oss, cosn: another store with the same API, and
//	                                           whether the bucket is in the host or the path
//	…?user=NAME                                webhdfs: the user; default none
//
// A server must support ranges and report the length of the file. Google's store is read
// through its S3-compatible interface, with HMAC keys, and so are those of Alibaba and Tencent. Keys are searched in the order of the
// AWS command line: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, MINIO_ACCESS_KEY and
// MINIO_SECRET_KEY, ~/.aws/credentials, the role of the machine. Without keys, requests are
// anonymous.
//
// # Build
//
// The build tag remote includes the code, which adds megabytes to the program: go build -tags
// remote ./cmd/wdlrun. Without the tag every function returns an error that names it.
//
// # Cost and limits
//
// A Reader requests 256 KiB, and twice as much if the next read follows, up to 8 MiB. It then
// requests the next part while this one is read, so it holds two parts. A listing has at most
// 2²⁰ objects, a name at most 1024 bytes.
//
// # Errors and concurrency
//
// A request that fails in the network, or with status 408, 429 or 5xx, is repeated with
// growing pauses for 20 seconds. ErrChanged reports an object whose ETag has changed since it
// was found. Several goroutines may use a Reader, one read at a time.
package remote

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
)

// ErrChanged means that a file changed after the job first read it.
var ErrChanged = errors.New("it changed while the job ran; start the job again, on files that no program writes")

// Limits.
const (
	maxObjects = 1 << 20
	maxName    = 1 << 10
)

// Object is a remote file.
type Object struct {
	Name  string // without the query
	Query string // of its address, with the leading ?; "" for none
	Bytes int64
	Tag   string // changes with the content; "" if the server does not send one
	Time  time.Time

	from store
	key  string
}

// Address returns the name by which Find finds the object again.
func (o *Object) Address() string { return o.Name + o.Query }

// Is reports whether a name is the name of a remote file.
func Is(name string) bool {
	for _, s := range []string{"https://", "http://", "s3://", "gs://", "s3a://", "oss://", "cosn://", "webhdfs://", "swebhdfs://"} {
		if strings.HasPrefix(name, s) {
			return true
		}
	}
	return false
}

// store is a bucket, a web server or HDFS.
type store interface {
	// stat returns an object.
	stat(ctx context.Context, key string) (*Object, error)
	// list returns the objects whose keys begin with prefix. Unless below is set, they have no further
	// slash after it.
	list(ctx context.Context, prefix string, below bool) ([]*Object, error)
	// get reads n bytes of an object from an offset.
	get(ctx context.Context, o *Object, off, n int64) (io.ReadCloser, error)
}
