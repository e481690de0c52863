package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

// broker starts brokers inside this process that have the topic clicks.
func broker(t testing.TB, partitions int, options ...kfake.Opt) (*kfake.Cluster, Address) {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(2), kfake.SeedTopics(int32(partitions), "clicks"))...)
	fatal.If(t, err)
	t.Cleanup(c.Close)
	return c, Address{Brokers: c.ListenAddrs(), Topic: "clicks"}
}

// produce writes records p-n to partitions.
func produce(t testing.TB, a Address, partition int32, from, n int, options ...kgo.Opt) {
	t.Helper()
	cl, err := kgo.NewClient(append(options, kgo.SeedBrokers(a.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(a.Topic))...)
	fatal.If(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patient.Longest)
	defer cancel()
	for i := range n {
		r := &kgo.Record{Partition: partition, Value: fmt.Appendf(nil, "%d-%d", partition, from+i)}
		fatal.If(t, cl.ProduceSync(ctx, r).FirstErr())
	}
}

func open(t testing.TB, a Address) *Log {
	t.Helper()
	l := NewLog(a)
	fatal.If(t, l.Open())
	t.Cleanup(func() { l.Close() })
	return l
}

// readRange reads all records of a range.
func readRange(t testing.TB, l *Log, r Range) (all []string) {
	t.Helper()
	for at := r.Lo; at < r.Hi; {
		records, next, err := l.From(context.Background(), r.Partition, at, 0)
		fatal.If(t, err)
		for _, x := range records {
			if x.Offset < at {
				t.Fatalf("offset %d from %d on", x.Offset, at)
			}
			if x.Offset < r.Hi {
				all = append(all, string(x.Value))
			}
		}
		at = next
	}
	return all
}

func TestRangesOfATopic(t *testing.T) {
	_, a := broker(t, 3)
	for p := range int32(2) {
		produce(t, a, p, 0, 30)
	}
	l := open(t, a)
	marks, err := l.Marks(context.Background())
	fatal.If(t, err)
	id := marks[0].ID
	if got, want := strings.ReplaceAll(fmt.Sprint(marks), id, "ID"), "[{clicks ID 0 0 30 30 0   } {clicks ID 1 0 30 30 0   } {clicks ID 2 0 0 0 0   }]"; got != want || checkID(id) != nil {
		t.Errorf("marks %s, want %s", got, want)
	}
	for range 2 { // the second time from the kept chunks
		for _, r := range []Range{{0, 0, 30}, {1, 7, 12}, {0, 29, 30}} {
			got := readRange(t, l, r)
			if len(got) != int(r.Hi-r.Lo) || got[0] != fmt.Sprintf("%d-%d", r.Partition, r.Lo) {
				t.Errorf("range %+v: %v", r, got)
			}
		}
	}
}

// produceBatch writes records 0-n to partition 0 in one batch.
func produceBatch(t testing.TB, a Address, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.Brokers...), kgo.DefaultProduceTopic(a.Topic), kgo.ManualFlushing(), kgo.MaxBufferedRecords(n))
	fatal.If(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patient.Longest)
	defer cancel()
	for i := range n {
		cl.Produce(ctx, &kgo.Record{Value: fmt.Appendf(nil, "0-%d", i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	fatal.If(t, cl.Flush(ctx))
}

// TestABatchIsFetchedOnce: if records are requested from the middle of a batch, those
// before are kept too, also for later users of the topic.
func TestABatchIsFetchedOnce(t *testing.T) {
	c, a := broker(t, 1)
	produceBatch(t, a, 50)
	l := open(t, a)
	if got := readRange(t, l, Range{0, 20, 50}); len(got) != 30 || got[0] != "0-20" {
		t.Fatalf("%v", got)
	}
	c.Close()
	again := func() {
		t.Helper()
		if got := readRange(t, l, Range{0, 0, 50}); len(got) != 50 || got[0] != "0-0" || got[49] != "0-49" {
			t.Errorf("%v", got)
		}
	}
	again()
	l.Close()
	fatal.If(t, l.Open())
	again()
}

// TestRecordsAreNotAllocatedOneByOne includes the allocations of the broker in this
// process.
func TestRecordsAreNotAllocatedOneByOne(t *testing.T) {
	_, a := broker(t, 1)
	const n = 20_000
	produceBatch(t, a, n)
	l := open(t, a)
	readRange(t, l, Range{0, 0, 1})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 {
		l.kept = nil
		if _, next, err := l.From(context.Background(), 0, 0, 0); err != nil || next != n {
			t.Fatalf("next is %d, %v", next, err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := float64(after.Mallocs-before.Mallocs) / (3 * n); each > .1 {
		t.Errorf("%.3f allocations a record", each)
	}
}

// TestLeadersMove: reading continues when another broker leads the partition.
func TestLeadersMove(t *testing.T) {
	c, a := broker(t, 1)
	produce(t, a, 0, 0, 5)
	l := open(t, a)
	readRange(t, l, Range{0, 0, 5})
	fatal.If(t, c.MoveTopicPartition("clicks", 0, 1-c.LeaderFor("clicks", 0)))
	produce(t, a, 0, 5, 5)
	if got := readRange(t, l, Range{0, 5, 10}); len(got) != 5 || got[4] != "0-9" {
		t.Errorf("%v", got)
	}
}

// TestAbortedTransactions are not records, and offsets end at the last stable one.
func TestAbortedTransactions(t *testing.T) {
	_, a := broker(t, 1)
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.Brokers...), kgo.TransactionalID("t"), kgo.DefaultProduceTopic(a.Topic))
	fatal.If(t, err)
	defer cl.Close()
	for i, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		fatal.If(t, cl.BeginTransaction())
		for range 3 {
			fatal.If(t, cl.ProduceSync(context.Background(), kgo.StringRecord(fmt.Sprint("in ", i))).FirstErr())
		}
		fatal.If(t, cl.EndTransaction(context.Background(), end))
	}
	l := open(t, a)
	marks, err := l.Marks(context.Background())
	fatal.If(t, err)
	if got := readRange(t, l, Range{0, 0, marks[0].High}); strings.Join(got, ",") != "in 1,in 1,in 1" {
		t.Errorf("%v", got)
	}
}

// TestCompactedTopic: the offsets that compaction has removed, at the beginning, within batches and over whole ranges,
// have no records, and the others are read once, however the topic is divided.
func TestCompactedTopic(t *testing.T) {
	c, _ := broker(t, 1)
	fatal.If(t, c.CreateTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"}))
	a := Address{Brokers: c.ListenAddrs(), Topic: "compacted"}
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.Brokers...), kgo.DefaultProduceTopic(a.Topic))
	fatal.If(t, err)
	defer cl.Close()
	var want []string
	const batches, each = 40, 5
	last := map[string]string{}
	for i := range batches {
		var batch []*kgo.Record
		for j := range each {
			key := fmt.Sprint((i*i + 3*j) % 17)
			if i%10 > 6 {
				key = "hot" // whole batches are removed
			}
			value := fmt.Sprint(each*i + j)
			if i < batches-1 { // the last batch is not compacted
				last[key] = value
			}
			batch = append(batch, &kgo.Record{Key: []byte(key), Value: []byte(value)})
		}
		fatal.If(t, cl.ProduceSync(t.Context(), batch...).FirstErr())
	}
	for offset := range batches * each {
		if text := fmt.Sprint(offset); offset >= (batches-1)*each || slices.Contains(slices.Collect(maps.Values(last)), text) {
			want = append(want, text)
		}
	}
	c.Compact()
	marks, err := open(t, a).Marks(t.Context())
	fatal.If(t, err)
	if high := marks[0].High; high != batches*each || len(want) > batches*each/2 {
		t.Fatalf("%d records of %d", len(want), high)
	}
	for _, size := range []int64{1, 3, 7, 64, batches * each} {
		l, got := open(t, a), []string(nil)
		for lo := marks[0].Low; lo < batches*each; lo += size {
			got = append(got, readRange(t, l, Range{0, lo, min(lo+size, batches*each)})...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("in ranges of %d: %v, want %v", size, got, want)
		}
	}
}

// TestLargeRecords: a record is read if it is larger than a fetch. One that is larger than an answer may be is an error with
// the limit, and is not asked for again.
func TestLargeRecords(t *testing.T) {
	_, a := broker(t, 1, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "16777216"}))
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.Brokers...), kgo.DefaultProduceTopic(a.Topic), kgo.ProducerBatchMaxBytes(16<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	fatal.If(t, err)
	defer cl.Close()
	sizes := []int{1, maxFetch + 1<<20, 1, minFetch + 1, 1}
	for _, n := range sizes {
		fatal.If(t, cl.ProduceSync(t.Context(), kgo.SliceRecord(make([]byte, n))).FirstErr())
	}
	for i, x := range readRange(t, open(t, a), Range{0, 0, int64(len(sizes))}) {
		if len(x) != sizes[i] {
			t.Errorf("record %d has %d bytes, want %d", i, len(x), sizes[i])
		}
	}
	l := NewLog(a)
	l.most = maxFetch
	fatal.If(t, l.Open())
	defer l.Close()
	l.patience = patient.Longest
	if _, next, err := l.From(t.Context(), 0, 0, 0); err != nil || next != 1 {
		t.Errorf("the record before: next %d, %v", next, err)
	}
	_, _, err = l.From(t.Context(), 0, 1, 0)
	if err == nil || IsAway(err) || !strings.Contains(err.Error(), "read partition 0 at offset 1") || !strings.Contains(err.Error(), "more than 4194304 bytes, which is the limit") {
		t.Error(err)
	}
}

func TestCommitFollows(t *testing.T) {
	_, a := broker(t, 2)
	produce(t, a, 0, 0, 9)
	a.Group = "ctr"
	l := open(t, a)
	at := []stream.Partition{{Topic: "clicks", Number: 0, Next: 4}, {Topic: "other", Number: 0, Next: 7}}
	fatal.If(t, l.Commit(context.Background(), at))
	offsets, err := kadm.NewClient(l.client).FetchOffsets(context.Background(), "ctr")
	if err != nil || len(offsets) != 1 || offsets["clicks"][0].At != 4 {
		t.Errorf("the broker has %v: %v", offsets, err)
	}
	marks, err := l.Marks(context.Background())
	if err != nil || marks[0].Begin != 4 || marks[0].Group != "ctr" || marks[1].Begin != -1 {
		t.Errorf("marks %v: %v", marks, err)
	}
	a.Group, a.Latest = "", true
	if marks, err := open(t, a).Marks(context.Background()); err != nil || marks[0].Begin != 9 {
		t.Errorf("latest: %v: %v", marks, err)
	}
}

// again deletes the topic and creates it again.
func again(t testing.TB, a Address, partitions int32) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.Brokers...))
	fatal.If(t, err)
	defer cl.Close()
	admin, ctx := kadm.NewClient(cl), context.Background()
	_, err = admin.DeleteTopic(ctx, a.Topic)
	fatal.If(t, err)
	_, err = admin.CreateTopic(ctx, partitions, 1, nil, a.Topic)
	fatal.If(t, err)
}

// TestTopicCreatedAgain: records of one topic are never mixed with those of another that has its
// name and offsets, not even if the first ones are kept. What a group has committed names its topic.
func TestTopicCreatedAgain(t *testing.T) {
	_, a := broker(t, 1)
	a.Group = "ctr"
	produce(t, a, 0, 0, 9)
	l := open(t, a)
	marks, err := l.Marks(context.Background())
	fatal.If(t, err)
	was := marks[0].ID
	readRange(t, l, Range{0, 0, 4})
	fatal.If(t, l.Commit(context.Background(), []stream.Partition{{Topic: "clicks", Number: 0, Next: 4, ID: was}}))
	pinned := open(t, a.Of(Range{0, 0, 4}, was))
	again(t, a, 1)
	produce(t, a, 0, 100, 12)

	other := open(t, a)
	marks, err = other.Marks(context.Background())
	fatal.If(t, err)
	if m := marks[0]; m.ID == was || m.High != 12 || m.Group != "" && m.GroupID != was {
		t.Errorf("mark %+v; the id was %s", m, was)
	}
	fatal.If(t, other.Commit(context.Background(), []stream.Partition{{Topic: "clicks", Number: 0, Next: 5, ID: was}}))
	if m, err := other.Marks(context.Background()); err != nil || m[0].Group != "ctr" || m[0].GroupID != was {
		t.Errorf("mark %+v, want a group that has committed an offset of %s: %v", m[0], was, err)
	}
	if got := readRange(t, other, Range{0, 0, 12}); len(got) != 12 || got[0] != "0-100" {
		t.Errorf("the new topic: %v", got)
	}
	if got := readRange(t, l, Range{0, 0, 9}); len(got) != 9 || got[8] != "0-8" {
		t.Errorf("the kept records of the deleted topic: %v", got)
	}
	for l, at := range map[*Log]int64{l: 9, pinned: 0} {
		_, _, err := l.From(context.Background(), 0, at, 0)
		for _, id := range []string{was, marks[0].ID} {
			if err == nil || !strings.Contains(err.Error(), id) {
				t.Errorf("offset %d of the deleted topic: %v, want an error with %s", at, err, id)
			}
		}
	}
}

// TestBrokerGoesAway: one line names the topic, the brokers and the cause.
func TestBrokerGoesAway(t *testing.T) {
	c, a := broker(t, 1)
	produce(t, a, 0, 0, 3)
	l := open(t, a)
	a.Timeout = 300 * time.Millisecond
	short := open(t, a)
	readRange(t, l, Range{0, 0, 2})
	if _, _, err := l.From(context.Background(), 0, 99, 0); err == nil || !strings.Contains(err.Error(), "the broker does not hold it") {
		t.Errorf("an offset that is not there: %v", err)
	}
	if _, _, err := l.From(context.Background(), 7, 0, 0); err == nil || !strings.Contains(err.Error(), "no such partition") {
		t.Errorf("a partition that is not there: %v", err)
	}
	none := a
	none.Topic, none.Timeout = "none", 0
	if _, err := open(t, none).Marks(context.Background()); err == nil || !strings.Contains(err.Error(), "there is no such topic") {
		t.Errorf("a topic that is not there: %v", err)
	}
	c.Close()
	for _, do := range []func(context.Context) error{
		func(ctx context.Context) error { _, _, err := short.From(ctx, 0, 0, 0); return err },
		func(ctx context.Context) error { _, err := short.Marks(ctx); return err },
	} {
		err := do(context.Background())
		for _, part := range []string{"topic clicks at " + a.Brokers[0], "given up after 300ms", "127.0.0.1:"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v\nlacks %q", err, part)
			}
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than a line: %v", err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("the job ends"))
		if err := do(ctx); err == nil || !strings.Contains(err.Error(), "the job ends") {
			t.Errorf("cancelled: %v", err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, x := range []struct{ in, want string }{
		{"kafka://a:9092/clicks", "kafka://a:9092/clicks"},
		{"kafka://a:1,[::1]:2/c.l_i-cks?start=latest&group=g%26", "kafka://a:1,[::1]:2/c.l_i-cks?group=g%26&start=latest"},
		{"kafka://a:1/c?tls=true&group=g#3:5-9", "kafka://a:1/c?tls=true#3:5-9"},
		{"http://a:1/c", "does not begin with kafka://"},
		{"kafka://a:1", "names no topic"},
		{"kafka://a:1/", "names no topic"},
		{"kafka://a:1/b/c", "not a name of a topic"},
		{"kafka://a/c", "not HOST:PORT"},
		{"kafka://:1/c", "not HOST:PORT"},
		{"kafka://a:0/c", "not HOST:PORT"},
		{"kafka://a:1,/c", "not HOST:PORT"},
		{"kafka://a:1/c?start=now", "start=now has no meaning"},
		{"kafka://a:1/c?timeout=1500ms#0:1-2", "kafka://a:1/c?timeout=1.5s#0:1-2"},
		{"kafka://a:1/c?timeout=5", "timeout=5 is not a time"},
		{"kafka://a:1/c?timeout=1ms", "timeout=1ms is not a time"},
		{"kafka://a:1/c?x=%zz", "invalid URL escape"},
		{"kafka://a:1/c?ca=f.pem#3:5-9", "kafka://a:1/c?ca=f.pem&tls=true#3:5-9"},
		{"kafka://a:1/c?ca=f.pem&tls=false", "ca=FILE and cert=FILE are for TLS"},
		{"kafka://a:1/c?sasl=scram-sha-512&credentials=/k%40x/f", "kafka://a:1/c?credentials=%2Fk%40x%2Ff&sasl=scram-sha-512"},
		{"kafka://a:1/c?sasl=plain&credentials=f&tls=true", "kafka://a:1/c?credentials=f&sasl=plain&tls=true"},
		{"kafka://a:1/c?sasl=plain&credentials=f&tls=false", "kafka://a:1/c?credentials=f&sasl=plain&tls=false"},
		{"kafka://a:1/c?sasl=plain&credentials=f", "shows the password to anyone who listens"},
		{"kafka://a:1/c?sasl=gssapi&credentials=f", "sasl=gssapi has no meaning; it is plain or scram-sha-256 or scram-sha-512 or oauthbearer"},
		{"kafka://a:1/c?sasl=oauthbearer&credentials=f&tls=false", "kafka://a:1/c?credentials=f&sasl=oauthbearer&tls=false"},
		{"kafka://a:1/c?sasl=oauthbearer&credentials=f", "sasl=oauthbearer without TLS"},
		{"kafka://a:1/c?sasl=scram-sha-256", "needs credentials=FILE"},
		{"kafka://a:1/c?credentials=f", "credentials=FILE needs sasl="},
		{"kafka://a:1/c?cert=c.pem&key=k.pem", "kafka://a:1/c?cert=c.pem&key=k.pem&tls=true"},
		{"kafka://a:1/c?cert=c.pem", "needs both cert=FILE and key=FILE"},
		{"kafka://a:1/c?cert=c.pem&key=k.pem&tls=false", "are for TLS"},
		{"kafka://a:1/c?group=g&reset=latest", "kafka://a:1/c?group=g&reset=latest"},
		{"kafka://a:1/c?group=g&reset=none", "reset=none has no meaning; it is earliest or latest or fail"},
		{"kafka://a:1/c?reset=latest", "no group=G is given"},
		{"kafka://a:1/c?id=AAECAwQFBgcICQoLDA0ODw#0:1-2", "kafka://a:1/c?id=AAECAwQFBgcICQoLDA0ODw#0:1-2"},
		{"kafka://a:1/c?id=AAECAwQFBgcICQoLDA0ODw", "id= is for a range"},
		{"kafka://a:1/c?id=AAEC#0:1-2", "id=AAEC is not the id of a topic"},
		{"kafka://a:1/c#1:5-5", "not a range of offsets"},
		{"kafka://a:1/c#-1:5-6", "not a range of offsets"},
		{"kafka://a:1/c#1:6", "not a range of offsets"},
		{"kafka://a:1/c#1:6-99999999999999999999", "not a range of offsets"},
	} {
		a, err := ParseAddress(x.in)
		if err != nil {
			if !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s: %v, want %q", x.in, err, x.want)
			}
		} else if got := a.String(); got != x.want {
			t.Errorf("%s: %s, want %s", x.in, got, x.want)
		}
	}
}

// FuzzAddress: String of a parsed address parses to the same address.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"kafka://a:1,b:2/c?group=g&start=latest", "kafka://[::1]:9092/c?tls=true#3:100-200", "kafka://a:1/c?group=%00#", "kafka://a:1/c?sasl=plain&credentials=f&tls=false"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			return
		}
		b, err := ParseAddress(a.String())
		if err != nil || a.TLS != b.TLS || a.String() != b.String() || len(a.Brokers) != len(b.Brokers) {
			t.Fatalf("%q: %+v is written as %s, which reads as %+v: %v", s, a, a, b, err)
		}
	})
}

// TestOpenTransactions: Marks has the end of the records that can be read, and the end of all.
func TestOpenTransactions(t *testing.T) {
	_, a := broker(t, 1)
	produce(t, a, 0, 0, 5)
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.Brokers...), kgo.DefaultProduceTopic(a.Topic), kgo.TransactionalID("t"))
	fatal.If(t, err)
	defer cl.Close()
	fatal.If(t, cl.BeginTransaction())
	fatal.If(t, cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte("a")}, &kgo.Record{Value: []byte("b")}).FirstErr())
	l := open(t, a)
	marks, err := l.Marks(t.Context())
	if err != nil || marks[0].High != 5 || marks[0].Written != 7 {
		t.Errorf("%+v, %v", marks, err)
	}
	fatal.If(t, cl.EndTransaction(t.Context(), kgo.TryAbort))
	if marks, err = l.Marks(t.Context()); err != nil || marks[0].High != 8 || marks[0].Written != 8 {
		t.Errorf("after its end: %+v, %v", marks, err)
	}
}

// TestAdvertisedAddress: a broker that answers, and advertises an address that does not, is the most
// frequent fault of brokers in containers.
func TestAdvertisedAddress(t *testing.T) {
	c, a := broker(t, 1)
	a.Brokers, a.Timeout = a.Brokers[:1], time.Second
	c.ControlKey(kmsg.NewPtrMetadataRequest().Key(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := r.ResponseKind().(*kmsg.MetadataResponse)
		b, topic, p := kmsg.NewMetadataResponseBroker(), kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
		b.NodeID, b.Host, b.Port = 7, "kafka.invalid", 9092
		topic.Topic, p.Leader = kmsg.StringPtr(a.Topic), 7
		topic.Partitions = append(topic.Partitions, p)
		resp.Brokers, resp.Topics = append(resp.Brokers, b), append(resp.Topics, topic)
		return resp, nil, true
	})
	_, err := open(t, a).Marks(t.Context())
	if want := "broker 7 advertises the address kafka.invalid:9092 (advertised.listeners), which cannot be reached from here: "; err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v\nwant %s", err, want)
	}
	none := Address{Brokers: []string{"127.0.0.1:1"}, Topic: "clicks", Timeout: time.Second}
	if _, err := open(t, none).Marks(t.Context()); err == nil || strings.Contains(err.Error(), "advertises") {
		t.Errorf("no broker: %v", err)
	}
}
