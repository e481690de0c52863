package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/trace"
)

// brokers runs brokers in this process.
type brokers struct {
	*kfake.Cluster
	client *kgo.Client
}

func newBrokers(t testing.TB, partitions int32) *brokers {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "clicks"))
	fatal.If(t, err)
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("clicks"))
	fatal.If(t, err)
	t.Cleanup(cl.Close)
	return &brokers{c, cl}
}

// send writes n records to a partition.
func (b *brokers) send(t testing.TB, partition int32, n int) {
	t.Helper()
	for i := range n {
		r := &kgo.Record{Partition: partition, Value: fmt.Appendf(nil, "%d,site%d", i*7%5/4, i%11)}
		fatal.If(t, b.client.ProduceSync(context.Background(), r).FirstErr())
	}
}

// committed returns the values of the committed records.
func (b *brokers) committed(t testing.TB) (all []string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...), kgo.ConsumeTopics("clicks"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	fatal.If(t, err)
	defer c.Close()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		f := c.PollFetches(ctx)
		cancel()
		if f.NumRecords() == 0 {
			return all
		}
		f.EachRecord(func(r *kgo.Record) { all = append(all, string(r.Value)) })
	}
}

func (b *brokers) config(t testing.TB, query, follow string) *config.Config {
	t.Helper()
	address := "kafka://" + strings.Join(b.ListenAddrs(), ",") + "/clicks" + query
	c := streamConfig(t, address, follow, "")
	c.Data.Header, c.Data.Fields = false, []string{"click", "site"}
	return c
}

// TestStreamOfATopic: every record is trained on once on any number of ranks, a training
// resumed from any step has the bytes of the uninterrupted one, and positions are committed
// to the broker with each checkpoint.
func TestStreamOfATopic(t *testing.T) {
	t.Parallel()
	b := newBrokers(t, 3)
	b.send(t, 0, 90)
	b.send(t, 2, 40)
	opt := Options{Config: b.config(t, "?group=ctr", ", rows: 30, idle: 0.05"), Set: []string{"train.checkpoint.every_steps=100"}}
	want := last(t, runJob(t, 2, opt))
	opt.Set = nil
	opt.Config = b.config(t, "?start=earliest", ", rows: 30, idle: 0.05")
	whole := runJob(t, 2, opt)
	if whole.Samples != 130 || whole.Spans != 3 {
		t.Fatalf("%+v", whole)
	}
	offsets, err := kadm.NewClient(b.client).FetchOffsets(context.Background(), "ctr")
	if err != nil || offsets["clicks"][0].At != 90 || offsets["clicks"][2].At != 40 {
		t.Errorf("the group is at %v: %v", offsets, err)
	}
	for step := int64(1); step <= whole.Steps; step++ {
		from := checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), step)
		set := []string{"train.checkpoint.every_steps=100", "data.train=[\"" + opt.Config.Data.Train[0] + "\"]"}
		set[1] = strings.Replace(set[1], "?start=earliest", "?group=ctr", 1)
		again := runJob(t, 2, Options{Resume: from, Set: set})
		if again.Samples != 130 || !reflect.DeepEqual(last(t, again), want) {
			t.Errorf("from step %d: %+v, uninterrupted %+v", step, again, whole)
		}
	}
	b.send(t, 1, 20)
	b.send(t, 0, 5)
	more := runJob(t, 3, Options{Resume: whole.RunDir})
	if more.Samples != 155 || more.Spans != 4 {
		t.Errorf("the records since then: %+v", more)
	}
	fresh := runJob(t, 1, Options{Config: b.config(t, "?group=ctr", ", idle: 0.05")})
	if fresh.Samples != 25 {
		t.Errorf("a new training of the group: %+v", fresh)
	}
}

// TestStreamOfObjects: JSON objects give the same bits as the same records in lines, from a
// topic and from a folder, even if a field appears late.
func TestStreamOfObjects(t *testing.T) {
	t.Parallel()
	const n = 120
	site := []string{"data.format=jsonl", "data.header=false"}
	lines, objects, dir := newBrokers(t, 1), newBrokers(t, 1), t.TempDir()
	lines.send(t, 0, n)
	var file strings.Builder
	for i := range n {
		record := fmt.Sprintf(`{"click": %d, "site": "site%d", "more": {"n": [%d]}}`, i*7%5/4, i%11, i)
		fatal.If(t, objects.client.ProduceSync(context.Background(), &kgo.Record{Value: []byte(record)}).FirstErr())
		file.WriteString(record + "\n")
	}
	for i, text := range []string{`{"click": 1}` + "\n", file.String()} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.jsonl", i)), []byte(text), 0o644))
	}
	mark(t, dir)
	want := runJob(t, 2, Options{Config: lines.config(t, "", ", rows: 50, idle: 0.05")})
	c := streamConfig(t, "kafka://"+strings.Join(objects.ListenAddrs(), ",")+"/clicks", ", rows: 50, idle: 0.05", "")
	got := runJob(t, 2, Options{Config: c, Set: site})
	if got.Samples != n || got.Spans != 3 || got.TrainLogLoss != want.TrainLogLoss {
		t.Errorf("a topic of objects: %+v\na topic of lines: %+v", got, want)
	}
	folder := runJob(t, 2, Options{Config: streamConfig(t, dir, ", files: 1", ""), Set: site})
	if folder.Samples != n+1 || folder.Spans != 2 {
		t.Errorf("a folder of objects: %+v", folder)
	}
}

// TestQuietTopicIsCommitted: positions are committed to the broker while no data arrives.
func TestQuietTopicIsCommitted(t *testing.T) {
	t.Parallel()
	b := newBrokers(t, 1)
	b.send(t, 0, 40)
	j := NewJob(single(), trace.New(10), Options{
		Config: b.config(t, "?group=ctr", ""), Out: t.TempDir(), Set: []string{"train.checkpoint.every_steps=100"},
	})
	var user sync.WaitGroup
	defer user.Wait()
	user.Go(func() {
		defer j.RequestStop()
		eventually(t, "the offset of all records", func() bool {
			offsets, err := kadm.NewClient(b.client).FetchOffsets(context.Background(), "ctr")
			return err == nil && offsets["clicks"][0].At == 40
		})
	})
	if r, err := j.Run(context.Background()); err != nil || r.Samples != 40 {
		t.Errorf("%+v: %v", r, err)
	}
}

// TestBrokerGoesAway: a job that needs records of a broker that is away waits, says so in a line that
// names the topic, the broker and the cause, and can be cancelled.
func TestBrokerGoesAway(t *testing.T) {
	t.Parallel()
	b := newBrokers(t, 1)
	b.send(t, 0, 30)
	res, err := NewJob(single(), trace.New(0), Options{Config: b.config(t, "", ""), Out: t.TempDir(), Set: []string{"data.follow.steps=1"}}).Run(context.Background())
	fatal.If(t, err)
	b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patient.Longest)
	defer cancel()
	var said string
	o := Options{Resume: res.RunDir, Set: []string{"data.follow.steps=0"}, Warn: func(line string) {
		if strings.Contains(line, "the training waits until it is there again") {
			said += line
			cancel()
		}
	}}
	if _, err := NewJob(single(), trace.New(0), o).Run(ctx); err == nil {
		t.Error("the job trained on records of a broker that is away")
	}
	for _, part := range []string{"topic clicks at 127.0.0.1:", "kafka: read partition 0", "connection refused"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q does not contain %q", said, part)
		}
	}
}

// TestRecordsOfASpanAreLost: a span that a checkpoint or the list of spans names is read as far as
// the topic still has it. Each record is trained on at most once, and the others are counted.
func TestRecordsOfASpanAreLost(t *testing.T) {
	t.Parallel()
	again := func(t *testing.T, b *brokers) { // the topic is created again, with 10 records
		admin := kadm.NewClient(b.client)
		_, err := admin.DeleteTopic(context.Background(), "clicks")
		fatal.If(t, err)
		_, err = admin.CreateTopic(context.Background(), 1, 1, nil, "clicks")
		fatal.If(t, err)
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...), kgo.DefaultProduceTopic("clicks"))
		fatal.If(t, err)
		defer cl.Close()
		(&brokers{b.Cluster, cl}).send(t, 0, 10)
	}
	retention := func(t *testing.T, b *brokers) { // the first 50 records are deleted
		to := kadm.Offsets{}
		to.AddOffset("clicks", 0, 50, -1)
		_, err := kadm.NewClient(b.client).DeleteRecords(context.Background(), to)
		fatal.If(t, err)
	}
	for _, x := range []struct {
		name          string
		step          int64 // of the checkpoint: spans 1, 2 and 3 have 32 records and end after the steps 2, 4 and 6
		lose          func(*testing.T, *brokers)
		samples, lost int64
	}{
		{"nothing", 3, func(*testing.T, *brokers) {}, 96, 0},
		{"retention before the second span", 2, retention, 96 - 18, 18},
		{"retention inside the second span", 3, retention, 96 - 16, 16},
		{"another topic before the second span", 2, again, 32 + 10, 64},
		{"another topic inside the second span", 3, again, 48 + 10, 48},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			b := newBrokers(t, 1)
			b.send(t, 0, 96)
			first := runJob(t, 2, Options{Config: b.config(t, "", ", rows: 32, idle: 0.05")})
			if first.Samples != 96 || first.Steps != 6 || first.Spans != 3 {
				t.Fatalf("%+v", first)
			}
			for step := x.step + 1; step <= first.Steps; step++ {
				fatal.If(t, os.RemoveAll(checkpoint.Dir(filepath.Join(first.RunDir, checkpoint.Folder), step)))
			}
			x.lose(t, b)
			var mu sync.Mutex
			var warned []string
			opt := Options{Resume: first.RunDir, Warn: func(line string) { mu.Lock(); warned = append(warned, line); mu.Unlock() }}
			if x.lost > 0 {
				if _, err := NewJob(single(), trace.New(0), opt).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "data.follow.lost: skip") || strings.Contains(err.Error(), "start again") {
					t.Errorf("without permission to skip: %v", err)
				}
			}
			warned = nil
			opt.Set = []string{"data.follow.lost=skip"}
			res := runJob(t, 2, opt)
			if res.Samples != x.samples || res.Input.Lost != x.lost {
				t.Errorf("%d samples, %d lost, want %d and %d: %q", res.Samples, res.Input.Lost, x.samples, x.lost, warned)
			}
			if named := strings.Count(strings.Join(warned, "\n"), "of the records 32 to 63, which were to be read, no longer exist"); named != int(min(x.lost, 1)) {
				t.Errorf("the span is named %d times: %q", named, warned)
			}
		})
	}
}
