//go:build remote

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

var cluster = flag.String("cluster", "", "the address of a name node, such as that of tests/hdfs/cluster")

// TestCluster: the files of Hadoop's own cluster, with -cluster.
func TestCluster(t *testing.T) {
	if *cluster == "" {
		t.Skip("without -cluster")
	}
	want := some(3<<20 + 11)
	send := func(method, path, query string, body []byte, want int) {
		u := url.URL{Scheme: "http", Host: *cluster, Path: "/webhdfs/v1/wdlrun-test" + path, RawQuery: query + "&user.name=root"}
		req, err := http.NewRequestWithContext(t.Context(), method, u.String(), bytes.NewReader(body))
		fatal.If(t, err)
		resp, err := http.DefaultClient.Do(req)
		fatal.If(t, err)
		if resp.Body.Close(); resp.StatusCode != want {
			t.Fatal(resp.Status)
		}
	}
	send(http.MethodDelete, "", "op=DELETE&recursive=true", nil, http.StatusOK)
	for _, name := range []string{"/dt=1/a b%3A+ü.csv", "/dt=2/b.csv", "/_temporary/c.csv"} {
		send(http.MethodPut, name, "op=CREATE&overwrite=true", want, http.StatusCreated)
	}
	http.DefaultClient.CloseIdleConnections()
	all, err := List(t.Context(), "webhdfs://"+*cluster+"/wdlrun-test/?user=root")
	if err != nil || len(all) != 2 || all[0].Bytes != int64(len(want)) {
		t.Fatalf("%v, %v", all, err)
	}
	for _, o := range all {
		r := o.Open()
		got, err := io.ReadAll(io.NewSectionReader(r, 0, o.Bytes))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes of %d, %v", o.Name, len(got), len(want), err)
		}
		r.Close()
	}
	if _, err := Find(t.Context(), "webhdfs://"+*cluster+"/wdlrun-test/none"); err == nil || !strings.Contains(err.Error(), "no such file (404)") {
		t.Error(err)
	}
}

// nameNode is a name node inside this process, with a data node. As in Hadoop, only GET is answered,
// ranges have no meaning, and reading at the end of a file fails.
type nameNode struct {
	name, data *httptest.Server
	files      map[string][]byte // by path
	changed    int64             // time
	starting   int               // requests that it refuses because it is starting
	users      map[string]bool
}

func newNameNode(t *testing.T, files map[string][]byte) *nameNode {
	n := &nameNode{files: files, changed: 1764500000123, users: map[string]bool{}}
	n.data = httptest.NewServer(http.HandlerFunc(n.open))
	n.name = httptest.NewServer(http.HandlerFunc(n.serve))
	t.Cleanup(n.name.Close)
	t.Cleanup(n.data.Close)
	return n
}

func (n *nameNode) address(path string) string {
	return "webhdfs://" + strings.TrimPrefix(n.name.URL, "http://") + path
}

func refuse(w http.ResponseWriter, code int, exception, message string) {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"RemoteException": map[string]string{"exception": exception, "message": message}})
}

func (n *nameNode) serve(w http.ResponseWriter, r *http.Request) {
	n.users[r.URL.Query().Get("user.name")] = true
	at, ok := strings.CutPrefix(r.URL.Path, "/webhdfs/v1")
	if r.Method != http.MethodGet || !ok || r.Header.Get("Range") != "" {
		refuse(w, http.StatusMethodNotAllowed, "Unsupported", r.Method)
		return
	}
	if n.starting--; n.starting >= 0 {
		refuse(w, http.StatusForbidden, "RetriableException", "Namenode is in startup mode")
		return
	}
	type status map[string]any
	of := func(at, suffix string) status {
		b, isFile := n.files[at]
		kind := map[bool]string{true: "FILE", false: "DIRECTORY"}[isFile]
		return status{"pathSuffix": suffix, "type": kind, "length": len(b), "modificationTime": n.changed, "fileId": 16386}
	}
	members := map[string]bool{}
	for name := range n.files {
		if below, ok := strings.CutPrefix(name, strings.TrimSuffix(at, "/")+"/"); ok {
			member, _, _ := strings.Cut(below, "/")
			members[member] = true
		}
	}
	_, isFile := n.files[at]
	switch op := r.URL.Query().Get("op"); {
	case !isFile && len(members) == 0:
		refuse(w, http.StatusNotFound, "FileNotFoundException", "File does not exist: "+at)
	case op == "GETFILESTATUS":
		json.NewEncoder(w).Encode(map[string]status{"FileStatus": of(at, "")})
	case op == "LISTSTATUS":
		var all []status
		for member := range members {
			all = append(all, of(path.Join(at, member), member))
		}
		json.NewEncoder(w).Encode(map[string]any{"FileStatuses": map[string]any{"FileStatus": all}})
	case op == "OPEN":
		http.Redirect(w, r, n.data.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	default:
		refuse(w, http.StatusBadRequest, "IllegalArgumentException", op)
	}
}

func (n *nameNode) open(w http.ResponseWriter, r *http.Request) {
	b := n.files[strings.TrimPrefix(r.URL.Path, "/webhdfs/v1")]
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	length, err := strconv.Atoi(r.URL.Query().Get("length"))
	if err != nil || offset >= len(b) {
		refuse(w, http.StatusForbidden, "IOException", fmt.Sprintf("Offset=%d out of the range [0, %d)", offset, len(b)))
		return
	}
	w.Write(b[offset:min(len(b), offset+length)])
}

// TestHDFS: files of a cluster are read by offset, with odd names, folders are read with those in them, and
// faults name the answer of the cluster.
func TestHDFS(t *testing.T) {
	want := some(3<<20 + 11)
	n := newNameNode(t, map[string][]byte{
		"/day/dt=1/a b%3A+ü.csv": want, "/day/dt=2/b.csv": want[:7], "/day/_temporary/0/c.csv": want[:5], "/day/_SUCCESS": nil, "/day/x.csv": want[:9], "/other": want[:3],
	})
	n.starting = 2
	all, err := List(t.Context(), n.address("/day/"))
	fatal.If(t, err)
	var names []string
	for _, o := range all {
		names = append(names, strings.TrimPrefix(o.Name, n.address("")))
	}
	if got := strings.Join(names, " "); got != "/day/_SUCCESS /day/dt=1/a b%3A+ü.csv /day/dt=2/b.csv /day/x.csv" {
		t.Error(got)
	}
	got, err := io.ReadAll(io.NewSectionReader(all[1].Open(), 0, all[1].Bytes))
	if err != nil || string(got) != string(want) || all[1].Time.UnixMilli() != n.changed {
		t.Errorf("%d bytes of %d, %v, %v", len(got), len(want), err, all[1].Time)
	}
	o := find(t, n.address("/day/x.csv?user=me"))
	if !n.users[""] || !n.users["me"] || o.Address() != n.address("/day/x.csv?user=me") {
		t.Errorf("users %v, %s", n.users, o.Address())
	}
	if some, err := List(t.Context(), n.address("/day/*.csv")); err != nil || len(some) != 1 {
		t.Errorf("%v, %v", some, err)
	}
	n.changed++
	if _, err := o.Open().ReadAt(make([]byte, 3), 0); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that changed: %v", err)
	}
	for name, want := range map[string]string{
		n.address("/day"):                "it is a folder; end its name with /",
		n.address("/none"):               "there is no such file (404)",
		n.address("/day/x.csv?region=a"): "HDFS has user=NAME",
		"webhdfs://host/day/x.csv":       `"host" is not the address of a name node`,
		n.address("/"):                   "it names no bucket and key",
	} {
		if _, err := Find(context.Background(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestStoresByName: the names of other stores of the same API lead to their addresses, with the bucket in
// the host or in the path.
func TestStoresByName(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for name, want := range map[string]string{
		"s3a://bkt/k?region=us-east-1":                 "https://bkt.s3.dualstack.us-east-1.amazonaws.com/",
		"oss://bkt/k?region=cn-hangzhou":               "https://bkt.oss-cn-hangzhou.aliyuncs.com/",
		"cosn://bkt-125/k?region=ap-guangzhou":         "https://bkt-125.cos.ap-guangzhou.myqcloud.com/",
		"s3://bkt/k?endpoint=https://h:9":              "https://h:9/bkt/",
		"s3://bkt/k?endpoint=https://h.x:9&style=host": "https://bkt.h.x:9/",
		"s3://bkt/k?region=eu-west-1&style=path":       "https://s3.dualstack.eu-west-1.amazonaws.com/bkt/",
		"oss://bkt/k":                                  "the region of the bucket is missing: oss://bkt/…?region=NAME",
		"s3://bkt/k?style=both":                        "style=host or style=path",
		"gs://bkt/k?style=host":                        "style has no meaning there",
	} {
		s, _, err := open(name)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
			continue
		}
		b := s.(bucketOf)
		u, err := b.client.PresignHeader(t.Context(), http.MethodGet, b.bucket, "k", time.Minute, nil, nil)
		if err != nil || !strings.HasPrefix(u.String(), want) {
			t.Errorf("%s: %v, %v, want %s", name, u, err, want)
		}
	}
}
