package data

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestValuesOfSeveralRecords: elements of a list, and lines of a value, are records like others: shuffled,
// read from any position on, left out and counted.
func TestValuesOfSeveralRecords(t *testing.T) {
	const n = 3000
	schemaOf := func(label, field string) schema.Schema {
		return schema.Schema{Label: schema.Label{Field: label}, Features: []schema.Feature{{Field: field, Encode: "id"}}}
	}
	values := func(one func(n int) string, between, begin, end, none string) (all []string) {
		for i, size := 0, 0; i < n; i += size {
			size = min((i*7+3)%8, n-i)
			var rows []string
			for k := range size {
				rows = append(rows, one(i+k))
			}
			all = append(all, begin+strings.Join(rows, between)+end)
			if size == 0 {
				size = 1
				all[len(all)-1] = none
				all = append(all, begin+one(i)+end)
			}
		}
		return all
	}
	changes := messageSource(t, new(standIn))
	changes.Explode, changes.Where = "data", "type == 'INSERT'"
	item := func(i int) string { return "\x02" + framedRecord(1, i)[5:] } // a part of an array
	object := func(i int) string { return fmt.Sprintf(`{"n":%d,"y":%d}`, i, i%2) }
	for _, x := range []struct {
		name   string
		src    schema.Source
		schema schema.Schema
		values []string
	}{
		{"canal", schema.Source{Format: "jsonl", Explode: "data", Where: "type == 'INSERT' and not missing(data.y)", MaxBad: 1 << 20}, schemaOf("data.y", "data.n"),
			values(object, ",", `{"type":"INSERT","old":[{}],"data":[{"n":7},`, `,{"n":"x","y":9}]}`, `{"type":"DDL","data":null}`)},
		{"messages", changes, schemaOf("data.y", "data.n"), values(item, "", "\x00\x00\x00\x00\x03\x0cINSERT", "\x00", "\x00\x00\x00\x00\x03\x06DDL"+item(1)+"\x00")},
		{"objects", schema.Source{Format: "jsonl"}, schemaOf("y", "n"), values(object, "\n", "", "\r\n", "  \n")},
		{"lines", numberedSource(), numberedSchema(), values(func(i int) string { return fmt.Sprintf("%d,0,%d", i, i%2) }, "\n", "# a comment\n", "\n\n", "\n")},
	} {
		t.Run(x.name, func(t *testing.T) {
			address := topic(t, x.values)
			for _, l := range []limits{tiny, {minGroup, maxHeld}} {
				d, fit := prepareWithin(t, l, x.src, x.schema, 2, address)
				if d.Rows(All) != n {
					t.Fatalf("%d rows", d.Rows(All))
				}
				e := newEncoder(t, fit)
				for _, start := range []int64{0, 1, 701, n - 1} {
					for _, shuffle := range []bool{false, true} {
						rows := rowsOf(t, readAll(t, d, e, ReaderConfig{Seed: 3, GlobalBatch: 64, Size: 1, Shuffle: shuffle, Start: start}))
						if slices.Sort(rows); int64(len(rows)) != n-start || len(slices.Compact(rows)) != len(rows) {
							t.Errorf("from %d on: %d rows", start, len(rows))
						}
					}
				}
			}
		})
	}
}

// TestFieldsAroundValues: key, time and headers are fields, in each format that has any.
func TestFieldsAroundValues(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "clicks"))
	fatal.If(t, err)
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("clicks"))
	fatal.If(t, err)
	t.Cleanup(cl.Close)
	number := func(n int64) (l value.List) {
		l.Begin(value.Int)
		l.Ints = append(l.Ints, n)
		return l
	}
	s := new(standIn)
	lines := schema.Source{Fields: []string{"n", "x", "y", "_key", "_time", "_header.site"}}
	quoted := lines
	quoted.Format = "tsv"
	at := int64(0)
	for _, x := range []struct {
		src   schema.Source
		value string
		key   string
	}{
		{schema.Source{Format: "jsonl"}, `{"n":1,"y":1}`, `a"b`},
		{schema.Source{Format: "jsonl", Explode: "data"}, `{"data":[{}],"n":1,"y":1}`, "k"},
		{schema.Source{Format: "tfrecord"}, string(tfrecord.AppendExample(nil, []string{"n", "y"}, []value.List{number(1), number(1)})), "k"},
		{lines, "1,2,1\n", "a,b"},
		{quoted, "1\t2\t1", "k"},
		{messageSource(t, s), framedRecord(1, 1), "k"},
		{messageSource(t, s), framedRecord(2, 1), "\xff"},
	} {
		for i, r := range []*kgo.Record{
			{Value: []byte(x.value), Key: []byte(x.key), Timestamp: time.UnixMilli(1700000000123), Headers: []kgo.RecordHeader{{Key: "site", Value: []byte("old")}, {Key: "site", Value: []byte("m.news")}}},
			{Value: []byte(x.value), Timestamp: time.UnixMilli(0)},
		} {
			fatal.If(t, cl.ProduceSync(context.Background(), r).FirstErr())
			at++
			want := [][]string{{x.key, "2023-11-14 22:13:20.123+00", "m.news", "1"}, {"", "1970-01-01 00:00:00+00", "", "1"}}[i]
			if x.key == "\xff" && i == 0 {
				want[0] = `\xFF`
			}
			names := []string{"_key", "_time", "_header.site", "y"}
			f, err := record.OpenFiles(x.src, []string{fmt.Sprintf("kafka://%s/clicks#0:%d-%d", c.ListenAddrs()[0], at-1, at)})
			fatal.If(t, err)
			var got []string
			w, err := f.With(names).Walk(context.Background(), names, 1, func(lists []value.List) error {
				for i := range lists {
					var b []byte
					if lists[i].Len() > 0 {
						b = lists[i].Append(nil, 0)
					}
					got = append(got, string(b))
				}
				return nil
			}, nil)
			if err != nil || w.Bad > 0 || !slices.Equal(got, want) {
				t.Errorf("%s %s: %q, %v %v, want %q", x.src.Format, x.src.Explode, got, err, w.Faults, want)
			}
		}
	}
	d, fit := prepare(t, numberedSource(), numberedSchema(), 1, topic(t, []string{"0,\"two\nlines\",0\n", "1,a,1\n2,b,0"}))
	if rows := rowsOf(t, readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 9})); len(rows) != 3 {
		t.Errorf("quoted line breaks: %d rows", len(rows))
	}
	lines.Fields = []string{"n", "_key", "y"}
	if _, err := record.OpenFiles(lines, []string{"kafka://" + c.ListenAddrs()[0] + "/clicks"}); err == nil || !strings.Contains(err.Error(), "name them last") {
		t.Errorf("misplaced: %v", err)
	}
}

// TestLongObjects: an object of a topic may be longer than a line of a file.
func TestLongObjects(t *testing.T) {
	long := fmt.Sprintf(`{"n": 0, "text": %q, "y": 0}`, strings.Repeat("x", 3<<20))
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "clicks"))
	fatal.If(t, err)
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("clicks"), kgo.ProducerBatchMaxBytes(8<<20))
	fatal.If(t, err)
	t.Cleanup(cl.Close)
	fatal.If(t, cl.ProduceSync(context.Background(), &kgo.Record{Value: []byte(long)}).FirstErr())
	d, fit := prepare(t, schema.Source{Format: "jsonl"}, numberedSchema(), 1, "kafka://"+c.ListenAddrs()[0]+"/clicks")
	if rows := rowsOf(t, readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 9})); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
}
