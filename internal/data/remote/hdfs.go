//go:build remote

package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// hdfs is a cluster that answers WebHDFS, or HttpFS and Knox, which have the same interface:
// https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html. A name node
// redirects reading to a data node.
type hdfs struct {
	web
	scheme, host, user, query string
}

// isHDFS reports whether a scheme is one of HDFS.
func isHDFS(scheme string) bool { return scheme == "webhdfs" || scheme == "swebhdfs" }

func newHDFS(scheme, host string, q url.Values) (h hdfs, err error) {
	h = hdfs{web{newTransport()}, scheme, host, "", ""}
	for k := range q {
		if k != "user" {
			return h, fmt.Errorf("%s has no meaning there; HDFS has user=NAME", k)
		}
		h.user, h.query = q.Get(k), "?"+q.Encode()
	}
	if u, err := url.Parse("http://" + host); err != nil || u.Host != host || u.Port() == "" {
		return h, fmt.Errorf("%q is not the address of a name node, such as host:9870", host)
	}
	return h, nil
}

// call sends an operation on a path. The answer is 200.
func (h hdfs) call(ctx context.Context, op, key string, more url.Values) (*http.Response, error) {
	q := url.Values{"op": {op}}
	if h.user != "" {
		q.Set("user.name", h.user)
	}
	for k, v := range more {
		q[k] = v
	}
	u := url.URL{Scheme: map[string]string{"webhdfs": "http", "swebhdfs": "https"}[h.scheme], Host: h.host, Path: "/webhdfs/v1/" + key, RawQuery: q.Encode()}
	resp, err := h.request(ctx, http.MethodGet, u.String(), nil)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	var fault struct {
		RemoteException struct {
			Exception string `json:"exception"`
			Message   string `json:"message"`
		}
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // the status says enough without it
	_ = json.Unmarshal(b, &fault)
	if e := fault.RemoteException.Exception; e == "RetriableException" || e == "StandbyException" { // with the status 403
		return nil, fmt.Errorf("the name node is not ready: %s: %s", e, fault.RemoteException.Message)
	}
	line, _, _ := strings.Cut(fault.RemoteException.Message, "\n")
	return nil, status(resp.StatusCode, strings.TrimSpace(fault.RemoteException.Exception+" "+line))
}

// fileStatus is what HDFS knows of a file.
type fileStatus struct {
	Suffix   string `json:"pathSuffix"`
	Type     string `json:"type"`
	Length   int64  `json:"length"`
	Modified int64  `json:"modificationTime"`
	ID       int64  `json:"fileId"`
}

// read reads the answer to an operation.
func (h hdfs) read(ctx context.Context, op, key string, into any) error {
	const most = 1 << 30
	resp, err := h.call(ctx, op, key, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, most)).Decode(into); err != nil {
		return fmt.Errorf("%w: its answer to %s: %w", ErrFinal, op, err)
	}
	return nil
}

func (h hdfs) object(key string, f *fileStatus) *Object {
	return &Object{
		Name: h.scheme + "://" + h.host + "/" + key, Query: h.query, Bytes: f.Length, Time: time.UnixMilli(f.Modified),
		Tag: fmt.Sprintf("%d-%d-%d", f.ID, f.Modified, f.Length), from: h, key: key,
	}
}

func (h hdfs) stat(ctx context.Context, key string) (*Object, error) {
	var answer struct{ FileStatus fileStatus }
	if err := h.read(ctx, "GETFILESTATUS", key, &answer); err != nil {
		return nil, err
	}
	switch f := &answer.FileStatus; {
	case f.Type == "DIRECTORY":
		return nil, fmt.Errorf("%w: it is a folder; end its name with /", ErrFinal)
	case f.Type != "FILE" || f.Length < 0:
		return nil, fmt.Errorf("%w: it is of the type %q, with %d bytes", ErrFinal, f.Type, f.Length)
	default:
		return h.object(key, f), nil
	}
}

// list also lists folders in the folder of prefix, if below is set.
func (h hdfs) list(ctx context.Context, prefix string, below bool) (all []*Object, err error) {
	folders := []string{path.Dir(prefix + "x")}
	for n := 0; n < len(folders); n++ {
		var answer struct {
			FileStatuses struct{ FileStatus []fileStatus }
		}
		if err := h.read(ctx, "LISTSTATUS", folders[n], &answer); err != nil {
			return nil, err
		}
		for i := range answer.FileStatuses.FileStatus {
			f := &answer.FileStatuses.FileStatus[i]
			key := path.Join(folders[n], f.Suffix)
			switch {
			case f.Suffix == "" || strings.ContainsAny(f.Suffix, "/\x00") || f.Suffix == ".." || len(key) > maxName || f.Length < 0:
				return nil, fmt.Errorf("%w: it lists %.100q in %q", ErrFinal, f.Suffix, folders[n])
			case len(all)+len(folders) >= maxObjects:
				return nil, fmt.Errorf("%w: more than %d files; name fewer", ErrFinal, maxObjects)
			case f.Type == "DIRECTORY" && below && !isHidden(f.Suffix+"/x"):
				folders = append(folders, key)
			case f.Type == "FILE" && strings.HasPrefix(key, prefix):
				all = append(all, h.object(key, f))
			}
		}
	}
	return all, ctx.Err()
}

// get reads a part of a file. HDFS has no condition like If-Match: the file is looked at first.
func (h hdfs) get(ctx context.Context, o *Object, off, n int64) (io.ReadCloser, error) {
	now, err := h.stat(ctx, o.key)
	if err != nil {
		return nil, err
	}
	if now.Tag != o.Tag {
		return nil, fmt.Errorf("%w: %w", ErrFinal, ErrChanged)
	}
	resp, err := h.call(ctx, "OPEN", o.key, url.Values{"offset": {strconv.FormatInt(off, 10)}, "length": {strconv.FormatInt(n, 10)}})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
