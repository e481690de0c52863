package data

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// topic makes a topic of an in-process broker, with these records in each of its
// partitions; an empty one is a tombstone. It returns its address.
func topic(t testing.TB, partitions ...[]string) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(len(partitions)), "clicks"))
	fatal.If(t, err)
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("clicks"))
	fatal.If(t, err)
	defer cl.Close()
	var all []*kgo.Record
	for p, records := range partitions {
		for _, r := range records {
			x := &kgo.Record{Partition: int32(p), Value: []byte(r)}
			if r == "" {
				x.Key, x.Value = []byte("gone"), nil
			}
			all = append(all, x)
		}
	}
	fatal.If(t, cl.ProduceSync(context.Background(), all...).FirstErr())
	return "kafka://" + strings.Join(c.ListenAddrs(), ",") + "/clicks"
}

// numberedLines returns records from, from+1, … of numberedSource, every seventh of them blank or
// gone.
func numberedLines(from, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%d,%d,%d\r\n", from+i, i%5, (from+i)%2))
		if i%7 == 3 {
			all = append(all, []string{"", "  \n"}[i%2])
		}
	}
	return all
}

// TestTopicIsReadAsAFileIs: the records of a topic come in an order that does not
// depend on the number of ranks, each once, and from any position on.
func TestTopicIsReadAsAFileIs(t *testing.T) {
	const n = 3000
	address := topic(t, numberedLines(0, n), nil, numberedLines(n, 100))
	var want []uint64
	for _, size := range []int{1, 2, 3} {
		d, fit := prepare(t, numberedSource(), numberedSchema(), size, address)
		if d.Rows(All) != n+100 {
			t.Fatalf("%d rows", d.Rows(All))
		}
		e := newEncoder(t, fit)
		for _, start := range []int64{0, 700, n + 99} {
			var rows []uint64
			for rank := range size {
				c := ReaderConfig{Seed: 3, GlobalBatch: 64, Rank: rank, Size: size, Shuffle: true, Start: start}
				rows = append(rows, rowsOf(t, readAll(t, d, e, c))...)
			}
			slices.Sort(rows)
			if start == 0 {
				if want == nil {
					want = rows
				}
				if len(rows) != n+100 || !slices.Equal(rows, want) || slices.Compact(slices.Clone(rows))[n+99] != rows[n+99] {
					t.Fatalf("%d ranks: %d rows", size, len(rows))
				}
			} else if len(rows) != int(n+100-start) {
				t.Errorf("%d ranks from %d on: %d rows", size, start, len(rows))
			}
		}
	}
}

// TestCompactedTopic: records that compaction has left are read once, in any order and from any position on.
func TestCompactedTopic(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	fatal.If(t, err)
	t.Cleanup(c.Close)
	fatal.If(t, c.CreateTopic("clicks", 1, map[string]string{"cleanup.policy": "compact"}))
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("clicks"))
	fatal.If(t, err)
	t.Cleanup(cl.Close)
	const n, batch = 1200, 10 // the last batch, and the newest record of a key before it, stay
	var want []uint64
	for i := 0; i < n; i += batch {
		var all []*kgo.Record
		for k := i; k < i+batch; k++ {
			key := "hot"
			if k%7 == 0 && k%400 < 200 { // then a long gap
				key = fmt.Sprint(k)
			}
			if key != "hot" || k >= n-batch-1 {
				want = append(want, uint64(k))
			}
			all = append(all, &kgo.Record{Key: []byte(key), Value: fmt.Appendf(nil, "%d,0,%d", k, k%2)})
		}
		fatal.If(t, cl.ProduceSync(t.Context(), all...).FirstErr())
	}
	c.Compact()
	for _, l := range []limits{tiny, {minGroup, maxHeld}} {
		d, fit := prepareWithin(t, l, numberedSource(), numberedSchema(), 2, "kafka://"+c.ListenAddrs()[0]+"/clicks")
		e := newEncoder(t, fit)
		for _, start := range []int64{0, 1, 37, int64(len(want)) - 1} {
			for _, shuffle := range []bool{false, true} {
				var rows []uint64
				for _, b := range readAll(t, d, e, ReaderConfig{Seed: 3, GlobalBatch: 16, Size: 1, Shuffle: shuffle, Start: start}) {
					rows = append(rows, b.Sparse[0].Values...)
				}
				slices.Sort(rows)
				if !shuffle && !slices.Equal(rows, want[start:]) || len(rows) != len(want)-int(start) || len(slices.Compact(rows)) != len(want)-int(start) {
					t.Errorf("from %d on, shuffled %v: %d", start, shuffle, rows)
				}
			}
		}
	}
}

// TestRangeOfATopic: a name with offsets is a finite part, and faults are named by
// their offset.
func TestRangeOfATopic(t *testing.T) {
	address := topic(t, []string{"0,1,0", "2,2,0", "x,y", "1,4,1", "2,5,0"})
	d, fit := prepare(t, numberedSource(), numberedSchema(), 2, address+"#0:0-1", address+"#0:3-5")
	if got := rowsOf(t, readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 9})); len(got) != 3 {
		t.Errorf("rows %v", got)
	}
	whole, err := Open(numberedSource(), numberedSchema(), []string{address})
	fatal.If(t, err)
	_, err = whole.Scan(context.Background(), 0, 1, nil, nil)
	if want := address + "#0:0-5: offset 2: the record has 2 fields, expected 3"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// TestTopicOfExamples: a value is a tf.Example, without a frame.
func TestTopicOfExamples(t *testing.T) {
	var records []string
	for i := range 20 {
		label, site := value.List{}, value.List{}
		label.Begin(value.Int)
		label.Ints = append(label.Ints, int64(i%2))
		site.SetText(fmt.Appendf(nil, "s%d", i%3))
		records = append(records, string(tfrecord.AppendExample(nil, []string{"y", "site"}, []value.List{label, site})))
	}
	address := topic(t, records)
	f, err := record.OpenFiles(schema.Source{Format: "tfrecord"}, []string{address})
	fatal.If(t, err)
	if got := fmt.Sprint(f.Fields()); got != "[site y]" {
		t.Errorf("fields %s", got)
	}
	if in, err := inspect.First(address, 0); err != nil || in.Format != "tfrecord" || in.Label != "y" {
		t.Errorf("%+v: %v", in, err)
	}
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "site", Encode: "vocabulary"}}}
	d, fit := prepare(t, schema.Source{Format: "tfrecord"}, s, 1, address)
	if e := newEncoder(t, fit); d.Rows(All) != 20 || e.Sparse()[0].Vocabulary != 3 {
		t.Errorf("%d rows, %d sites", d.Rows(All), e.Sparse()[0].Vocabulary)
	}
}

// TestTopicOfObjects: a value is a JSON object, on one line or several. The members
// of an object in it are fields. A value that is not an object is reported by its offset.
func TestTopicOfObjects(t *testing.T) {
	records := []string{"", " \n"}
	for i := range 2000 {
		records = append(records, fmt.Sprintf("{\n \"y\": %v, \"site\": \"s%d\",\r\n \"user\": {\"y\": 1}, \"n\": %d}\r\n", i%2 == 1, i%3, i))
	}
	records[1500] = `{"y": 1, "site": "seldom", "late": 1}`
	address := topic(t, records[:500], records[500:])
	in, err := inspect.First(address, 0)
	if err != nil || in.Format != "jsonl" || in.Label != "y" || len(in.Columns) != 4 {
		t.Errorf("%+v: %v", in, err)
	}
	src := schema.Source{Format: "jsonl"}
	f, err := record.OpenFiles(src, []string{address})
	fatal.If(t, err)
	if got := fmt.Sprint(f.Fields()); got != "[y site user.y n]" {
		t.Errorf("fields %s", got)
	}
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "site", Encode: "vocabulary"}, {Field: "late", Encode: "id"}, {Field: "n", Encode: "raw"}}}
	d, fit := prepare(t, src, s, 2, address)
	if e := newEncoder(t, fit); d.Rows(All) != 2000 || e.Sparse()[0].Vocabulary != 4 {
		t.Errorf("%d rows, %d sites", d.Rows(All), e.Sparse()[0].Vocabulary)
	}
	s.Features = append(s.Features, schema.Feature{Field: "sit", Encode: "id"}, schema.Feature{Field: "ziel", Encode: "raw"})
	for _, size := range []int{1, 3} {
		d, _ := prepare(t, src, s, size, address)
		if got := fmt.Sprintf("%q %q", d.Absent(), d.First()); got != `["sit" "ziel"] ["site" "user.y" "n"]` {
			t.Errorf("%d ranks: absent, and there: %s", size, got)
		}
	}
	bad := topic(t, []string{records[2], `{"y": 1`, `[1]`, records[3]})
	if d, err = Open(src, s, []string{bad}); err != nil {
		t.Fatal(err)
	}
	_, err = d.Scan(context.Background(), 0, 1, nil, nil)
	for _, want := range []string{"#0:0-4: offset 1: the record is not a JSON object: byte 7: it ends here", "#0:0-4: offset 2: the record is not a JSON object: byte 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// TestTopicOfSVM: a value is a line of LibSVM or LibFFM.
func TestTopicOfSVM(t *testing.T) {
	for _, x := range []struct{ format, line, site, fields string }{
		{"libsvm", "%d 1:0.5 %d:1 # a comment\r\n", "features", "[label features values]"},
		{"libffm", "%d 2:9:0.5 7:%d:1", "7", "[label 2 7 2_values 7_values]"},
	} {
		lines := []string{"# none", "", " "}
		for i := range 20 {
			lines = append(lines, fmt.Sprintf(x.line, i%2, 10+i%3))
		}
		address := topic(t, lines[:5], lines[5:])
		f, err := record.OpenFiles(schema.Source{Format: x.format}, []string{address})
		fatal.If(t, err)
		if got := fmt.Sprint(f.Fields()); got != x.fields {
			t.Errorf("%s: fields %s", x.format, got)
		}
		s := schema.Schema{Label: schema.Label{Field: "label"}, Features: []schema.Feature{{Field: x.site, Encode: "vocabulary"}}}
		d, fit := prepare(t, schema.Source{Format: x.format}, s, 1, address)
		want := map[string]int{"libsvm": 4, "libffm": 3}[x.format] // index 1, and three more
		if e := newEncoder(t, fit); d.Rows(All) != 20 || e.Sparse()[0].Vocabulary != want {
			t.Errorf("%s: %d rows, %d sites", x.format, d.Rows(All), e.Sparse()[0].Vocabulary)
		}
	}
}

func TestTopicsRefused(t *testing.T) {
	address := topic(t, []string{"1,1,1"}, nil)
	headed := schema.Source{Header: true}
	for _, x := range []struct {
		src   schema.Source
		names []string
		want  string
	}{
		{headed, []string{address}, "have no header"},
		{schema.Source{Format: "parquet"}, []string{address}, "cannot be parquet"},
		{numberedSource(), []string{address, datatest.Write(t, "a.csv", "1,1,1\n")}, "cannot be read together"},
		{numberedSource(), []string{address + "#0:0-1", address + "#0:0-1"}, "named twice"},
		{numberedSource(), []string{"kafka://a/b"}, "not HOST:PORT"},
		{numberedSource(), []string{strings.Replace(address, "/clicks", "/none", 1)}, "no such topic"},
	} {
		if _, err := Open(x.src, numberedSchema(), x.names); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v, want %q", x.names, err, x.want)
		}
	}
	if _, err := inspect.First(address, 0); err == nil || !strings.Contains(err.Error(), "-config FILE") {
		t.Error(err)
	}
	empty := topic(t, nil)
	if _, err := Open(numberedSource(), numberedSchema(), []string{empty}); err == nil || !strings.Contains(err.Error(), "holds no record") {
		t.Error(err)
	}
}
