//go:build remote

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Available reports whether the program was built with support for remote files.
const Available = true

// open returns the store of a name and the key in it.
func open(name string) (s store, key string, err error) {
	bad := func(why string) (store, string, error) {
		return nil, "", fmt.Errorf("remote: %s: %s", name, why)
	}
	if len(name) > maxName {
		return bad(fmt.Sprintf("the name has more than %d bytes", maxName))
	}
	scheme, rest, _ := strings.Cut(name, "://")
	if scheme == "http" || scheme == "https" {
		if u, err := url.Parse(name); err != nil || u.Host == "" || u.User != nil {
			return bad("it is not an address of a web server, such as https://host/clicks.csv")
		}
		return web{newTransport()}, name, nil
	}
	rest, query, _ := strings.Cut(rest, "?")
	first, key, ok := strings.Cut(rest, "/")
	if !ok || first == "" || key == "" {
		return bad("it names no bucket and key, such as " + scheme + "://bucket/clicks.csv")
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return bad(err.Error())
	}
	if isHDFS(scheme) {
		h, err := newHDFS(scheme, first, q)
		if err != nil {
			return bad(err.Error())
		}
		return h, key, nil
	}
	b, err := newBucket(scheme, first, q)
	if err != nil {
		return bad(err.Error())
	}
	return b, key, nil
}

// newBucket returns the bucket of an address with these settings.
func newBucket(scheme, bucket string, q url.Values) (b bucketOf, err error) {
	b = bucketOf{scheme: scheme, bucket: bucket, region: q.Get("region"), style: q.Get("style"), endpoint: "https://s3.amazonaws.com"}
	for k := range q {
		if scheme == "gs" || k != "endpoint" && k != "region" && k != "style" {
			return b, fmt.Errorf("%s has no meaning there; s3, oss and cosn have endpoint=URL, region=NAME and style=host or path", k)
		}
	}
	switch {
	case b.style != "" && b.style != "host" && b.style != "path":
		return b, fmt.Errorf("style=%s: the bucket is in the host or in the path of addresses: style=host or style=path", b.style)
	case q.Has("endpoint"):
		b.endpoint = q.Get("endpoint")
	case scheme == "gs":
		b.endpoint = "https://storage.googleapis.com"
	case (scheme == "oss" || scheme == "cosn") && b.region == "":
		return b, fmt.Errorf("the region of the bucket is missing: %s://%s/…?region=NAME, or endpoint=URL", scheme, bucket)
	case scheme == "oss":
		b.endpoint = "https://oss-" + b.region + ".aliyuncs.com"
	case scheme == "cosn":
		b.endpoint = "https://cos." + b.region + ".myqcloud.com"
	}
	if b.style == "" && (scheme == "oss" || scheme == "cosn") {
		b.style = "host" // the only one that they have
	}
	if len(q) > 0 {
		b.query = "?" + q.Encode()
	}
	b.client, err = b.connect(q.Has("endpoint"))
	return b, err
}

// Find returns the objects of a name, at least one.
func Find(ctx context.Context, name string) ([]*Object, error) {
	s, key, err := open(name)
	if err != nil {
		return nil, err
	}
	if isPattern(s, key) {
		all, err := List(ctx, name)
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("remote: %s: there is no object", name)
		}
		return all, err
	}
	var o *Object
	err = insist(ctx, name, func(ctx context.Context) (err error) {
		o, err = s.stat(ctx, key)
		return err
	})
	return []*Object{o}, err
}

// isPattern reports whether a key is a folder or a glob. A web server has neither.
func isPattern(s store, key string) bool {
	_, isWeb := s.(web)
	return !isWeb && (strings.HasSuffix(key, "/") || strings.ContainsAny(key, "*?["))
}

// List returns the objects in a folder and in folders in it, except hidden ones, or those that match a
// glob, sorted by name. Only the last part of a glob may have wildcards. A hidden object of the folder
// itself is listed: it may be a mark.
func List(ctx context.Context, name string) (all []*Object, err error) {
	s, key, err := open(name)
	if err != nil {
		return nil, err
	}
	if !isPattern(s, key) {
		return nil, fmt.Errorf("remote: %s is neither a folder, whose name ends in /, nor a glob", name)
	}
	folder, last := path.Split(key)
	prefix := key[:len(folder)+max(0, strings.IndexAny(last, `*?[\`))]
	if strings.ContainsAny(folder, "*?[") {
		return nil, fmt.Errorf("remote: %s: wildcards are for the last part of a name", name)
	}
	if _, err := path.Match(key, ""); err != nil {
		return nil, fmt.Errorf("remote: %s: %w", name, err)
	}
	err = insist(ctx, name, func(ctx context.Context) (err error) {
		all, err = s.list(ctx, prefix, last == "")
		return err
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(o *Object) bool {
		match, _ := path.Match(key, o.key)
		return last != "" && !match || strings.HasSuffix(o.key, "/") || last == "" && isHidden(o.key[len(folder):])
	})
	slices.SortFunc(all, func(a, b *Object) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// insist is Insist, and errors name the file.
func insist(ctx context.Context, name string, do func(context.Context) error) error {
	if err := Insist(ctx, do); err != nil {
		return fmt.Errorf("remote: %s: %w", name, err)
	}
	return nil
}

// bucketOf is a bucket of S3 or of a compatible store.
type bucketOf struct {
	scheme, bucket, endpoint, region, style, query string
	client                                         *minio.Core
}

func (b bucketOf) connect(own bool) (*minio.Core, error) {
	u, err := url.Parse(b.endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("endpoint %q is not an address such as https://host:9000", b.endpoint)
	}
	options := &minio.Options{
		Secure: u.Scheme == "https", Region: b.region, Transport: newTransport(), MaxRetries: 1,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: 2 * time.Second}},
		}),
	}
	if own && options.Region == "" {
		options.Region = "us-east-1" // compatible stores accept it for any region
	}
	switch {
	case b.style == "host":
		options.BucketLookup = minio.BucketLookupDNS
	case own || b.style == "path":
		options.BucketLookup = minio.BucketLookupPath
	}
	return minio.NewCore(u.Host, options)
}

// fault marks permanent failures.
func (b bucketOf) fault(err error) error {
	var r minio.ErrorResponse
	switch {
	case !errors.As(err, &r):
		return err
	case r.StatusCode == 0: // the request was not sent
		return fmt.Errorf("%w: %s", ErrFinal, r.Message)
	}
	return status(r.StatusCode, r.Code+" "+r.Message)
}

func (b bucketOf) object(i minio.ObjectInfo) *Object {
	return &Object{Name: b.scheme + "://" + b.bucket + "/" + i.Key, Query: b.query, Bytes: i.Size, Tag: i.ETag, Time: i.LastModified, from: b, key: i.Key}
}

func (b bucketOf) stat(ctx context.Context, key string) (*Object, error) {
	i, err := b.client.StatObject(ctx, b.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return nil, b.fault(err)
	}
	return b.object(i), nil
}

func (b bucketOf) list(ctx context.Context, prefix string, below bool) (all []*Object, err error) {
	for i := range b.client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: below}) {
		switch {
		case i.Err != nil:
			return nil, b.fault(i.Err)
		case len(all) == maxObjects:
			return nil, fmt.Errorf("%w: more than %d objects; name fewer", ErrFinal, maxObjects)
		case len(i.Key) > maxName || !strings.HasPrefix(i.Key, prefix) || !below && strings.Contains(i.Key[len(prefix):len(i.Key)-min(1, len(i.Key)-len(prefix))], "/"):
			return nil, fmt.Errorf("%w: it lists %.100q below %q", ErrFinal, i.Key, prefix)
		}
		all = append(all, b.object(i))
	}
	return all, ctx.Err()
}

func (b bucketOf) get(ctx context.Context, o *Object, off, n int64) (io.ReadCloser, error) {
	var options minio.GetObjectOptions
	if err := options.SetRange(off, off+n-1); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFinal, err)
	}
	if o.Tag != "" {
		if err := options.SetMatchETag(o.Tag); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFinal, err)
		}
	}
	r, i, _, err := b.client.GetObject(ctx, b.bucket, o.key, options)
	if err != nil {
		return nil, b.fault(err)
	}
	if o.Tag != "" && i.ETag != o.Tag {
		r.Close()
		return nil, fmt.Errorf("%w: %w", ErrFinal, ErrChanged)
	}
	return r, nil
}

// Open returns a Reader of the object. It sends no request.
func (o *Object) Open() *Reader { return NewReader(o.Bytes, o.read) }

// read returns bytes of the object. After a failure it continues at the first missing
// byte.
func (o *Object) read(ctx context.Context, lo, hi int64) ([]byte, error) {
	b, n := make([]byte, hi-lo), int64(0)
	var last error
	for n < hi-lo {
		before := n
		err := insist(ctx, o.Name, func(ctx context.Context) error {
			src, err := o.from.get(ctx, o, lo+n, hi-lo-n)
			if err != nil {
				return err
			}
			defer src.Close()
			m, err := io.ReadFull(src, b[n:])
			n += int64(m)
			if m > 0 && n < hi-lo {
				last = err
				return nil // there was progress: request the rest
			}
			if errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if n == before {
			return nil, fmt.Errorf("remote: %s: offset %d: %w", o.Name, lo+n, last) // unreachable
		}
	}
	return b, nil
}
