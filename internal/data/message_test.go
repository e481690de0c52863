package data

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/registry"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// standIn answers as a schema registry does, with two versions of a schema of Avro, and counts.
type standIn struct {
	asked atomic.Int32
	away  atomic.Bool
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	switch {
	case s.away.Load():
		http.Error(w, "", http.StatusServiceUnavailable)
	case r.URL.Path == "/schemas/ids/1":
		fmt.Fprint(w, `{"schema": "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"n\",\"type\":\"long\"},{\"name\":\"y\",\"type\":\"int\"}]}"}`)
	case r.URL.Path == "/schemas/ids/2":
		fmt.Fprint(w, `{"schema": "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"y\",\"type\":[\"null\",\"string\"]},{\"name\":\"new\",\"type\":\"string\"},{\"name\":\"n\",\"type\":\"int\"}]}"}`)
	case r.URL.Path == "/schemas/ids/3":
		fmt.Fprint(w, `{"schema": "{\"type\":\"record\",\"name\":\"C\",\"fields\":[{\"name\":\"type\",\"type\":\"string\"},{\"name\":\"data\",\"type\":{\"type\":\"array\",\"items\":{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"n\",\"type\":\"long\"},{\"name\":\"y\",\"type\":\"int\"}]}}}]}"}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error_code": 40403, "message": "Schema 9 not found"}`)
	}
}

// framedRecord is record n of numberedSource, with the schema of an id.
func framedRecord(id byte, n int) string {
	b := []byte{0, 0, 0, 0, id}
	if id == 1 {
		return string(binary.AppendVarint(binary.AppendVarint(b, int64(n)), int64(n%2)))
	}
	b = append(b, 2, 2, '0'+byte(n%2), 4, 'x', 'y')
	return string(binary.AppendVarint(b, int64(n)))
}

func messageSource(t *testing.T, s *standIn) schema.Source {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return schema.Source{Format: "avro", Registry: schema.Registry{URL: server.URL}}
}

// TestTopicOfMessages: fields are found by name in the schema of each record, and what cannot be read
// is a bad record.
func TestTopicOfMessages(t *testing.T) {
	s := new(standIn)
	src := messageSource(t, s)
	var all []string
	for n := range 40 {
		all = append(all, framedRecord(byte(1+n/3%2), n))
	}
	address := topic(t, all[:25], all[25:])
	d, fit := prepare(t, src, numberedSchema(), 2, address)
	if rows := rowsOf(t, readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 9, Shuffle: true})); len(rows) != 40 {
		t.Errorf("%d rows", len(rows))
	}
	if n := s.asked.Load(); n != 2 {
		t.Errorf("%d requests, want one for each schema", n)
	}
	for record, want := range map[string]string{
		framedRecord(9, 1):          "the registry does not know it",
		framedRecord(1, 1)[5:]:      "does not begin with the magic byte",
		framedRecord(2, 1)[:9]:      "its bytes end early",
		framedRecord(1, 1) + "\x00": "bytes follow",
	} {
		bad, err := Open(src, numberedSchema(), []string{topic(t, []string{framedRecord(1, 0), record})})
		fatal.If(t, err)
		_, err = bad.Scan(context.Background(), 0, 1, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "#0:0-2: offset 1: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %v, want %s", record, err, want)
		}
	}
}

// TestMagicByteIsNamed: no format but JSON can be read behind the frame of a serializer.
func TestMagicByteIsNamed(t *testing.T) {
	for _, x := range []struct {
		src  schema.Source
		want string
	}{
		{numberedSource(), "magic byte 0 and schema id 1"},
		{schema.Source{Format: "tfrecord"}, "magic byte 0 and schema id 1"},
		{schema.Source{Format: "jsonl"}, "magic byte 0 and schema id 1"},
		{schema.Source{Format: "avro"}, "data.registry.url"},
	} {
		d, err := Open(x.src, numberedSchema(), []string{topic(t, []string{framedRecord(1, 0)})})
		if err == nil {
			_, err = d.Scan(context.Background(), 0, 1, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s", x.src.Format, err, x.want)
		}
	}
	if _, err := inspect.First(topic(t, []string{framedRecord(1, 0)}), 0); err == nil || !strings.Contains(err.Error(), "magic byte 0 and schema id 1") {
		t.Errorf("init: %v", err)
	}
	if files, err := record.List([]string{topic(t, []string{framedRecord(1, 0)}), "message_test.go"}); err != nil || len(files) != 1 {
		t.Errorf("local files: %v, %v", files, err)
	}
	avro := messageSource(t, new(standIn))
	if src, err := inspect.For(avro, []string{topic(t, []string{framedRecord(1, 0)})}); err != nil || src.Format != "avro" {
		t.Errorf("evaluated on a topic: %+v, %v", src, err)
	}
	frame := "\x00\x00\x00\x00\x05"
	d, fit := prepare(t, schema.Source{Format: "jsonl"}, numberedSchema(), 1, topic(t, []string{frame + `{"n": 0, "y": 0}`, frame + ` {"n": 1, "y": 1}` + "\n", `{"n": 2, "y": 0}`}))
	if rows := rowsOf(t, readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 9})); len(rows) != 3 {
		t.Errorf("JSON: %d rows", len(rows))
	}
}

// TestSpansShareSchemas: later spans do not ask the registry again, and one that must waits for it.
func TestSpansShareSchemas(t *testing.T) {
	s := new(standIn)
	src := messageSource(t, s)
	address := topic(t, []string{framedRecord(1, 0), framedRecord(1, 1), framedRecord(2, 2), framedRecord(1, 3)})
	src.Train, src.Follow = []string{address}, schema.Follow{On: true}
	var schemas *registry.Schemas
	var causes []string
	for i, span := range []string{"#0:0-1", "#0:1-2", "#0:2-4"} {
		d, err := OpenSpan(src, numberedSchema(), stream.Position{Span: []string{address + span}})
		fatal.If(t, err)
		schemas = ShareSchemas(d, schemas)
		d.Wait(t.Context(), func(cause error, _ time.Duration) {
			causes = append(causes, cause.Error())
			s.away.Store(false)
		})
		s.away.Store(i > 0)
		c, err := d.Scan(context.Background(), 0, 1, nil, nil)
		fatal.If(t, err)
		fatal.If(t, d.Use(c))
		b := readAll(t, d, newEncoder(t, encode.NewFit(numberedSchema())), ReaderConfig{GlobalBatch: 9})
		if n := len(b[0].Label); n != max(1, i) || b[0].Sparse[0].Values[n-1] != []uint64{0, 1, 3}[i] {
			t.Errorf("span %s: %d rows, %d", span, n, b[0].Sparse[0].Values)
		}
	}
	if len(causes) != 1 || !strings.Contains(causes[0], "schema 2: GET ") || !strings.Contains(causes[0], "503") {
		t.Errorf("causes of waiting: %q", causes)
	}
	if n := s.asked.Load(); n != 3 {
		t.Errorf("%d requests, want 3: schema 1, schema 2 while the registry was away, and again", n)
	}
}

// TestConfluentsClient reads what Confluent's client for Python writes to a real broker.
func TestConfluentsClient(t *testing.T) {
	broker := os.Getenv(realBroker)
	if broker == "" || exec.Command("python3", "-c", "import confluent_kafka.schema_registry.protobuf").Run() != nil {
		t.Skip("set " + realBroker + ", and install confluent-kafka in python3, see tests/interop/confluent.py")
	}
	l := newLiveTopic(t, broker)
	for _, format := range []string{"avro", "protobuf", "json"} {
		_, err := l.admin.CreateTopic(context.Background(), 2, 1, nil, l.name+"."+format)
		fatal.If(t, err)
		t.Cleanup(func() { l.admin.DeleteTopic(context.Background(), l.name+"."+format) })
	}
	python := exec.Command("python3", "../../tests/interop/confluent.py", "topics", broker, l.name)
	python.Stderr = os.Stderr
	in, err := python.StdinPipe()
	fatal.If(t, err)
	out, err := python.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, python.Start())
	defer func() { in.Close(); python.Wait() }()
	url, err := bufio.NewReader(out).ReadString('\n')
	fatal.If(t, err)
	s := schema.Schema{Label: schema.Label{Field: "click"}, Features: []schema.Feature{
		{Field: "user.id", Encode: "hash"}, {Field: "site", Encode: "hash"}, {Field: "tags", Encode: "hash"}, {Field: "user.kind", Encode: "hash"}, {Field: "at", Encode: "hour"}, {Field: "price", Encode: "raw"}}}
	var first []*encode.Batch
	for _, format := range []string{"avro", "protobuf", "json"} {
		src := schema.Source{Format: format, Registry: schema.Registry{URL: strings.TrimSpace(url)}}
		if format == "json" {
			src = schema.Source{Format: "jsonl"}
		}
		d, fit := prepare(t, src, s, 2, l.address+"."+format)
		got := readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 1000})
		if d.Rows(All) != 1000 {
			t.Fatalf("%s: %d rows", format, d.Rows(All))
		}
		if first == nil {
			first = got
		}
		if !reflect.DeepEqual(got[0].Sparse, first[0].Sparse) {
			t.Errorf("%s differs from Avro", format)
		}
	}
}
