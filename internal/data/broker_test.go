package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// realBroker is the environment variable with the address of an Apache Kafka broker, which
// tests/kafka/broker starts.
const realBroker = "WDLRUN_TEST_KAFKA"

// onBrokers runs a test on a broker in this process and, if there is one, on a real one.
func onBrokers(t *testing.T, test func(t *testing.T, b *liveTopic)) {
	t.Helper()
	t.Run("kfake", func(t *testing.T) {
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		fatal.If(t, err)
		t.Cleanup(c.Close)
		test(t, newLiveTopic(t, c.ListenAddrs()[0]))
	})
	t.Run("apache", func(t *testing.T) {
		address := os.Getenv(realBroker)
		if address == "" {
			t.Skip("there is no broker: set " + realBroker + " to the address that tests/kafka/broker prints")
		}
		test(t, newLiveTopic(t, address))
	})
}

// liveTopic is a topic that a test changes.
type liveTopic struct {
	t       *testing.T
	name    string
	broker  string
	address string // of the topic
	admin   *kadm.Client
	at      stream.Position
	reports []string // of all spans
}

func newLiveTopic(t *testing.T, broker string) *liveTopic {
	name := fmt.Sprintf("%s.%d", strings.ReplaceAll(t.Name(), "/", "."), time.Now().UnixNano())
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(10*time.Millisecond))
	fatal.If(t, err)
	l := &liveTopic{t: t, name: name, broker: broker, address: "kafka://" + broker + "/" + name, admin: kadm.NewClient(cl)}
	t.Cleanup(func() {
		l.admin.DeleteTopic(context.Background(), name)
		cl.Close()
	})
	return l
}

// create creates the topic, which may have been deleted a moment ago.
func (l *liveTopic) create(partitions int32) {
	l.t.Helper()
	eventually(l.t, func() error {
		_, err := l.admin.CreateTopic(context.Background(), partitions, 1, nil, l.name)
		return err
	})
}

func (l *liveTopic) delete() {
	l.t.Helper()
	_, err := l.admin.DeleteTopic(context.Background(), l.name)
	fatal.If(l.t, err)
}

// send writes records from, from+1, … to a partition, through a new client, because
// a client remembers the id of a topic.
func (l *liveTopic) send(partition int32, from, n int) {
	l.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(100))
	fatal.If(l.t, err)
	defer cl.Close()
	var all []*kgo.Record
	for i := range n {
		all = append(all, &kgo.Record{Topic: l.name, Partition: partition, Value: fmt.Appendf(nil, "%d,%d,%d", from+i, i%5, i%2)})
	}
	fatal.If(l.t, cl.ProduceSync(context.Background(), all...).FirstErr())
}

// source follows the topic, with the query of its address.
func (l *liveTopic) source(query string, lost string) schema.Source {
	src := numberedSource()
	src.Train, src.Follow = []string{l.address + query}, schema.Follow{On: true, Lost: lost}
	return src
}

// read follows the topic as a new job does that resumes at the position of the last one, until a
// look finds nothing new. It returns the numbers of the records, sorted.
func (l *liveTopic) read(query, lost string) (rows []uint64, err error) {
	l.t.Helper()
	src := l.source(query, lost)
	f, err := NewFeed(src, l.at)
	fatal.If(l.t, err)
	defer f.Close()
	for {
		at := l.at.Clone()
		v, err := f.Next(context.Background(), &at, 0)
		if err != nil {
			return rows, err
		}
		l.at, l.reports = at, append(l.reports, v.Reports...)
		if len(v.Span) == 0 {
			slices.Sort(rows)
			return rows, nil
		}
		some, err := l.span(src)
		if err != nil {
			return rows, err
		}
		rows = append(rows, some...)
	}
}

// span reads the current span: the numbers of its records.
func (l *liveTopic) span(src schema.Source) (rows []uint64, err error) {
	l.t.Helper()
	d, err := OpenSpan(src, numberedSchema(), l.at)
	fatal.If(l.t, err)
	fit := encode.NewFit(numberedSchema())
	c, err := d.Scan(context.Background(), 0, 1, fit, nil)
	if err != nil {
		return nil, err
	}
	fatal.If(l.t, d.Use(c))
	for _, b := range readAll(l.t, d, newEncoder(l.t, fit), ReaderConfig{GlobalBatch: 64}) {
		rows = append(rows, b.Sparse[0].Values...)
	}
	return rows, nil
}

// want reads on and compares the numbers of the records with ranges LO, HI.
func (l *liveTopic) want(query, lost string, ranges ...uint64) {
	l.t.Helper()
	var want []uint64
	for ; len(ranges) > 0; ranges = ranges[2:] {
		for i := ranges[0]; i < ranges[1]; i++ {
			want = append(want, i)
		}
	}
	slices.Sort(want)
	if got, err := l.read(query, lost); err != nil || !slices.Equal(got, want) {
		l.t.Fatalf("%d records %v: %v, want %d: %v", len(got), got, err, len(want), want)
	}
}

// fails reads on and wants an error with all of some parts, and no records.
func (l *liveTopic) fails(query, lost string, parts ...string) {
	l.t.Helper()
	got, err := l.read(query, lost)
	for _, part := range parts {
		if err == nil || len(got) > 0 || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
			l.t.Fatalf("%d records: %v, want one line with %q", len(got), err, part)
		}
	}
}

// TestTopicIsCreatedAgain: none of 150 records is missed when a topic of 100 is deleted and
// created again.
func TestTopicIsCreatedAgain(t *testing.T) {
	onBrokers(t, func(t *testing.T, l *liveTopic) {
		l.create(1)
		l.send(0, 0, 100)
		l.want("", "", 0, 100)
		was := l.at.Partitions[0].ID
		l.delete()
		eventually(t, func() error { // it is away, which may pass
			_, err := l.read("", "")
			if err != nil && !IsAway(err) {
				t.Fatalf("a topic that is away: %v", err)
			}
			if err == nil {
				return errors.New("the topic is still there")
			}
			return nil
		})
		l.create(1)
		l.send(0, 1000, 150)
		l.fails("", "", "deleted and created again", was, "data.follow.lost: skip")
		if len(l.reports) > 0 {
			t.Errorf("reports %q", l.reports)
		}
		l.want("", schema.LostSkip, 1000, 1150)
		if is := l.at.Partitions[0].ID; is == was || len(l.reports) != 1 || !strings.Contains(l.reports[0], was) || !strings.Contains(l.reports[0], is) {
			t.Errorf("ids %s and %s, reports %q", was, is, l.reports)
		}
		l.send(0, 2000, 5)
		l.want("", "", 2000, 2005)
	})
}

// TestSpanOfADeletedTopic: a span that was decided before its topic was created again does not
// read the offsets of the new one.
func TestSpanOfADeletedTopic(t *testing.T) {
	onBrokers(t, func(t *testing.T, l *liveTopic) {
		l.create(1)
		l.send(0, 0, 100)
		src := l.source("", "")
		f, err := NewFeed(src, l.at)
		fatal.If(t, err)
		defer f.Close()
		_, err = f.Next(context.Background(), &l.at, 0)
		fatal.If(t, err)
		l.delete()
		l.create(1)
		l.send(0, 1000, 150)
		if rows, err := l.span(src); err == nil || !strings.Contains(err.Error(), "deleted and created again") || !strings.Contains(err.Error(), l.at.Partitions[0].ID) {
			t.Errorf("%d records: %v", len(rows), err)
		}
	})
}

// TestPartitionsAreAdded: start=latest is about the partitions of the first look.
func TestPartitionsAreAdded(t *testing.T) {
	onBrokers(t, func(t *testing.T, l *liveTopic) {
		l.create(2)
		l.send(0, 0, 7)
		l.want("?start=latest", "")
		l.send(0, 100, 30)
		_, err := l.admin.UpdatePartitions(context.Background(), 3, l.name)
		fatal.If(t, err)
		l.send(2, 200, 30)
		l.send(1, 300, 30)
		l.want("?start=latest", "", 100, 130, 200, 230, 300, 330)
		if len(l.reports) != 1 || !strings.Contains(l.reports[0], "new partition, 2: it is read from its beginning, offset 0") {
			t.Errorf("reports %q", l.reports)
		}
	})
}

// TestGroupOutsideTheLog: the offset of a group is not bent in silence.
func TestGroupOutsideTheLog(t *testing.T) {
	onBrokers(t, func(t *testing.T, l *liveTopic) {
		l.create(1)
		l.send(0, 0, 230)
		group := l.name + "-group"
		_, err := l.admin.DeleteRecords(context.Background(), offsets(l.name, 0, 200))
		fatal.If(t, err)
		commit := func(at int64) {
			t.Helper()
			eventually(t, func() error { // the group's coordinator may still be starting
				all, err := l.admin.CommitOffsets(context.Background(), group, offsets(l.name, 0, at))
				return errors.Join(err, all.Error())
			})
		}
		for _, x := range []struct {
			at     int64
			lo, hi uint64 // what reset=earliest reads
		}{{70, 200, 230}, {360, 200, 230}} {
			commit(x.at)
			l.at, l.reports = stream.Position{}, nil
			query := "?group=" + group
			l.fails(query, "", fmt.Sprintf("offset %d that group %s committed is outside the log, which begins at offset 200 and ends at 230", x.at, group))
			l.fails(query+"&reset=fail", "", "reset=earliest or reset=latest")
			l.want(query+"&reset=latest", "")
			if len(l.reports) != 1 || !strings.Contains(l.reports[0], "reading begins at 230 (reset=latest)") {
				t.Errorf("reports %q", l.reports)
			}
			l.at, l.reports = stream.Position{}, nil
			l.want(query+"&reset=earliest", "", x.lo, x.hi)
			if len(l.reports) != 1 || !strings.Contains(l.reports[0], fmt.Sprintf("offset %d", x.at)) || !strings.Contains(l.reports[0], "reading begins at 200") {
				t.Errorf("reports %q", l.reports)
			}
		}
		commit(210)
		l.at, l.reports = stream.Position{}, nil
		l.want("?group="+group, "", 210, 230)
		if len(l.reports) > 0 {
			t.Errorf("reports %q", l.reports)
		}
	})
}

// TestRecordsAreDeletedBeforeTheyAreRead: retention and DeleteRecords end a training that does not
// permit it, and are counted otherwise.
func TestRecordsAreDeletedBeforeTheyAreRead(t *testing.T) {
	onBrokers(t, func(t *testing.T, l *liveTopic) {
		l.create(1)
		l.send(0, 0, 50)
		l.want("", "", 0, 50)
		l.send(0, 50, 50)
		_, err := l.admin.DeleteRecords(context.Background(), offsets(l.name, 0, 80))
		fatal.If(t, err)
		l.fails("", "", "the records 50 to 79 were deleted before they were read", "data.follow.lost: skip to continue at offset 80")
		l.want("", schema.LostSkip, 80, 100)
		if l.at.Lost != 30 || len(l.reports) != 1 {
			t.Errorf("lost %d, reports %q", l.at.Lost, l.reports)
		}
	})
}

func offsets(topic string, partition int32, at int64) kadm.Offsets {
	o := kadm.Offsets{}
	o.AddOffset(topic, partition, at, -1)
	return o
}

// eventually calls do until it succeeds.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	end := time.Now().Add(patient.Longest)
	for {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
