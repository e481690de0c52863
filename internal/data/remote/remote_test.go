//go:build remote

package remote

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

// server is a store inside this process: a web server, and S3 if the path begins with a
// bucket.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte // by path
	version map[string]int
	fault   func(w http.ResponseWriter, r *http.Request) bool // may handle the request itself
	asked   atomic.Int64
	sent    atomic.Int64
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{objects: map[string][]byte{}, version: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return s
}

func (s *server) put(path string, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[path] = b
	s.version[path]++
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	if s.fault != nil && s.fault(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Get("list-type") == "2" {
		s.list(w, strings.Trim(r.URL.Path, "/"), r.URL.Query().Get("prefix"), r.URL.Query().Get("delimiter"))
		return
	}
	b, ok := s.objects[r.URL.Path]
	if !ok {
		http.Error(w, "<Error><Code>NoSuchKey</Code></Error>", http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, s.version[r.URL.Path]))
	http.ServeContent(w, r, "", time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), bytes.NewReader(b))
	s.sent.Add(int64(len(b)))
}

// list answers as S3 does.
func (s *server) list(w http.ResponseWriter, bucket, prefix, delimiter string) {
	type contents struct {
		Key          string
		LastModified string
		ETag         string
		Size         int
	}
	result := struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Name     string
		Prefix   string
		KeyCount int
		Contents []contents
	}{Name: bucket, Prefix: prefix}
	for path, b := range s.objects {
		if key, ok := strings.CutPrefix(path, "/"+bucket+"/"); ok && strings.HasPrefix(key, prefix) && (delimiter == "" || !strings.Contains(key[len(prefix):], delimiter)) {
			result.Contents = append(result.Contents, contents{key, "2026-11-21T10:00:00.000Z", fmt.Sprintf(`"%d"`, s.version[path]), len(b)})
		}
	}
	w.Header().Set("Content-Type", "application/xml")
	xml.NewEncoder(w).Encode(result)
}

func (s *server) s3(path string) string { return "s3://" + path + "?endpoint=" + s.URL }

// some returns n random bytes.
func some(n int) []byte {
	rng, b := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func find(t testing.TB, name string) *Object {
	t.Helper()
	all, err := Find(context.Background(), name)
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %d objects: %v", name, len(all), err)
	}
	return all[0]
}

// TestReadAnyhow: any sequence of reads returns the bytes of the object, from a web server
// and from S3, and sequential reading needs few requests.
func TestReadAnyhow(t *testing.T) {
	s := newServer(t)
	want := some(5<<20 + 17)
	s.put("/clicks/day-1", want)
	for _, name := range []string{s.URL + "/clicks/day-1", s.s3("clicks/day-1")} {
		o := find(t, name)
		if o.Bytes != int64(len(want)) || o.Tag == "" {
			t.Fatalf("%+v", o)
		}
		s.asked.Store(0)
		r := o.Open()
		got, err := io.ReadAll(io.NewSectionReader(r, 0, o.Bytes))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %d bytes: %v", name, len(got), err)
		}
		if n := s.asked.Load(); n > 6 {
			t.Errorf("%s: %d requests for %d bytes", name, n, len(want))
		}
		rng := rand.New(rand.NewPCG(3, 4))
		for range 40 {
			lo, n := rng.IntN(len(want)+100), rng.IntN(600<<10)
			b := make([]byte, n)
			m, err := r.ReadAt(b, int64(lo))
			end := min(lo+n, len(want))
			if m != max(end-lo, 0) && n > 0 || m > 0 && !bytes.Equal(b[:m], want[lo:end]) || (err == io.EOF) != (n > 0 && lo+n > len(want)) {
				t.Fatalf("%d bytes at %d: %d, %v", n, lo, m, err)
			}
		}
		r.Close()
	}
}

// TestFaultsThatPass: reading survives busy servers and interrupted connections.
func TestFaultsThatPass(t *testing.T) {
	s := newServer(t)
	want := some(700 << 10)
	s.put("/bkt/x", want)
	var n atomic.Int64
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		switch k := n.Add(1); {
		case k%3 == 1:
			http.Error(w, "", []int{503, 429, 500, 408}[k/3%4])
			return true
		case k%5 == 3 && r.Method == http.MethodGet:
			w.Header().Set("Content-Length", "100000") // and breaks off
			var lo, hi int
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &lo, &hi)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", lo, hi, len(want)))
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")
			w.WriteHeader(http.StatusPartialContent)
			w.Write(want[lo:min(lo+1000, hi+1)])
			return true
		}
		return false
	}
	for _, name := range []string{s.URL + "/bkt/x", s.s3("bkt/x")} {
		o := find(t, name)
		r := o.Open()
		got, err := io.ReadAll(io.NewSectionReader(r, 0, o.Bytes))
		r.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes: %v", name, len(got), err)
		}
	}
}

// TestFaultsThatStay: permanent failures are reported at once, with the name and the
// cause.
func TestFaultsThatStay(t *testing.T) {
	s := newServer(t)
	s.put("/bkt/x", some(100))
	for _, x := range []struct{ name, want string }{
		{s.URL + "/bkt/none", "there is no such file (404)"},
		{s.s3("bkt/none"), "there is no such file (404)"},
		{s.s3("bkt/none-*"), "there is no object"},
		{s.s3("bkt/x") + "&color=red", "color has no meaning"},
		{"s3://bkt/x?endpoint=ftp://h", "is not an address such as"},
		{"gs://bkt/x?endpoint=http://h", "endpoint has no meaning"},
		{"s3://bkt", "names no bucket and key"},
		{"https://user:pass@host/x", "not an address of a web server"},
		{s.s3("bkt/*/x/"), "wildcards are for the last part"},
		{"https://h/" + strings.Repeat("x", 2000), "more than 1024 bytes"},
	} {
		if _, err := Find(context.Background(), x.name); err == nil || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), x.name[:5]) {
			t.Errorf("%.80s: %v, want %q", x.name, err, x.want)
		}
	}
	for _, name := range []string{s.URL + "/bkt/x", s.s3("bkt/x")} {
		o := find(t, name)
		s.put("/bkt/x", some(100))
		if _, err := o.Open().ReadAt(make([]byte, 10), 0); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: a file that changed: %v", name, err)
		}
	}
	o := find(t, s.URL+"/bkt/x")
	for what, answer := range map[string]func(w http.ResponseWriter){
		"does not support ranges": func(w http.ResponseWriter) { w.Write(make([]byte, 100)) },
		"it changed": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 5-14/100")
			w.WriteHeader(http.StatusPartialContent)
		},
		"403": func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) },
	} {
		s.fault = func(w http.ResponseWriter, _ *http.Request) bool { answer(w); return true }
		if _, err := o.Open().ReadAt(make([]byte, 10), 0); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

func TestListings(t *testing.T) {
	s := newServer(t)
	for i, path := range []string{"/bkt/in/part-2.csv", "/bkt/in/part-10.csv", "/bkt/in/_SUCCESS", "/bkt/in/dt=1/x.csv", "/bkt/in/dt=1/_SUCCESS", "/bkt/in/_temporary/y.csv", "/bkt/in/other.csv", "/bkt/into.csv"} {
		s.put(path, some(i))
	}
	for _, x := range []struct{ name, want string }{
		{"bkt/in/", "s3://bkt/in/_SUCCESS s3://bkt/in/dt=1/x.csv s3://bkt/in/other.csv s3://bkt/in/part-10.csv s3://bkt/in/part-2.csv"},
		{"bkt/in/part-*.csv", "s3://bkt/in/part-10.csv s3://bkt/in/part-2.csv"},
		{"bkt/in/part-[0-9].csv", "s3://bkt/in/part-2.csv"},
	} {
		all, err := List(context.Background(), s.s3(x.name))
		var names []string
		for _, o := range all {
			names = append(names, o.Name)
			if o.Address() != o.Name+"?endpoint="+strings.NewReplacer(":", "%3A", "/", "%2F").Replace(s.URL) {
				t.Errorf("address %s", o.Address())
			}
		}
		if err != nil || strings.Join(names, " ") != x.want {
			t.Errorf("%s: %v: %v", x.name, names, err)
		}
	}
	// Invalid answers of a store.
	for _, body := range []string{
		"<ListBucketResult><Contents><Key>../../etc/passwd</Key><Size>1</Size></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><Key>in/" + strings.Repeat("x", 2000) + "</Key></Contents></ListBucketResult>",
	} {
		s.fault = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/xml")
			io.WriteString(w, body)
			return true
		}
		if all, err := List(context.Background(), s.s3("bkt/in/")); err == nil || !strings.Contains(err.Error(), "it lists") {
			t.Errorf("%.80s: %v: %v", body, all, err)
		}
	}
}

func TestCloseEndsReadingAhead(t *testing.T) {
	s := newServer(t)
	s.put("/bkt/x", some(4<<20))
	o := find(t, s.URL+"/bkt/x")
	r := o.Open()
	if _, err := r.ReadAt(make([]byte, 300<<10), 0); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := r.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("a closed reader reads")
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"s3://bkt/in/part-*?endpoint=http%3A%2F%2Fh&region=r", "gs://bkt/k", "https://h/x?y=z", "s3://bkt/[?endpoint=http://h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if !Is(name) {
			return
		}
		s, key, err := open(name)
		if err != nil {
			return
		}
		if b, ok := s.(bucketOf); ok && (b.bucket == "" || key == "" || slices.Contains([]string{b.bucket}, "/")) {
			t.Fatalf("%q is bucket %q, key %q", name, b.bucket, key)
		}
	})
}
