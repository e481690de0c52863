package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wdlrun/wdlrun/internal/data/stream"
)

const (
	tryTimeout   = 2 * time.Second // of one attempt, so that the cause of the last is known
	leaderMaxAge = 30 * time.Second
	minFetch     = 128 << 10
	maxFetch     = 4 << 20
	maxAnswer    = 80 << 20 // bytes of any answer
	maxKept      = 64 << 20
)

// Record is one record of a partition.
type Record struct {
	Offset int64
	Value  []byte // must not be changed, as the others; nil for a tombstone

	Key     []byte // nil: none
	Millis  int64  // since 1970; −1: none
	Headers []kgo.RecordHeader
}

// Log is a topic on its brokers. Its connections live while a user has it open. The last
// 64 MiB fetched are kept, so that a span that is scanned and then read is fetched once.
type Log struct {
	address  Address
	patience time.Duration
	most     int32 // bytes of an answer

	mu     sync.Mutex
	id     string      // of the topic whose records are read; "": not known yet
	client *kgo.Client // nil if not open
	users  int
	kept   []*chunk // fetched last, the oldest first; kept after Close
	bytes  int      // in kept

	advertised advertised

	waits func(cause error, lasted time.Duration) // called while From waits; nil: From has the patience of the log
	stop  context.Context                         // ends the waiting

	records recordPool
}

// chunk is the result of a fetch: all records of offsets [lo, hi).
type chunk struct {
	partition int32
	lo, hi    int64
	records   []Record
	bytes     int
}

// NewLog returns the topic of an address. Open connects.
func NewLog(a Address) *Log {
	id := a.ID
	a.Range, a.ID = nil, ""
	return &Log{address: a, id: id, patience: cmp.Or(a.Timeout, patience), most: maxAnswer}
}

// Wait makes From wait until the broker answers or ctx ends. notify is called about every second
// while it waits, with the cause. Call Wait before the log is used.
func (l *Log) Wait(ctx context.Context, notify func(cause error, lasted time.Duration)) {
	l.stop, l.waits = ctx, notify
	l.SetPatience(time.Second)
}

// SetPatience limits the time for which Marks waits for an answer to d.
func (l *Log) SetPatience(d time.Duration) { l.patience = min(l.patience, d) }

// away is a failure that may be over when the broker is back.
type away struct{ error }

func (e away) Unwrap() error { return e.error }

// IsAway reports whether an error is an answer that did not come in time, or that a topic does not
// exist, which may be temporary for a topic that did.
func IsAway(err error) bool {
	var a away
	return errors.As(err, &a)
}

// Address returns the address of the topic.
func (l *Log) Address() Address { return l.address }

// Pin makes From read only the topic with an id. Without Pin, this is the topic that the first
// From finds. The kept records are therefore always those of one topic.
func (l *Log) Pin(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == "" {
		l.id = id
	}
	if id != "" && id != l.id {
		return final{fmt.Errorf("the topic was deleted and created again: the records to read are of the topic with id %s, and the id is %s now. A training that follows the topic can resume with data.follow.lost: skip", l.id, id)}
	}
	return nil
}

// Open connects, or adds a user of the connections. Each Open needs a Close.
func (l *Log) Open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil {
		options := []kgo.Opt{
			kgo.SeedBrokers(l.address.Brokers...), kgo.ClientID("wdlrun"), kgo.RetryTimeout(tryTimeout), kgo.DialTimeout(tryTimeout),
			kgo.BrokerMaxReadBytes(l.most), kgo.FetchMaxBytes(minFetch), kgo.MetadataMinAge(250 * time.Millisecond), kgo.WithHooks(&l.advertised),
		}
		secure, err := l.address.security()
		if err != nil {
			return l.fault("open", err)
		}
		options = append(options, secure...)
		c, err := kgo.NewClient(options...)
		if err != nil {
			return l.fault("open", err)
		}
		l.client = c
	}
	l.users++
	return nil
}

// Close removes a user; the last one closes the connections.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 {
		l.client.Close()
		l.client = nil
	}
	return nil
}

// fault returns an error that names topic and brokers, with advice for known causes.
func (l *Log) fault(what string, err error) error {
	return fmt.Errorf("kafka: %s: topic %s at %s: %w", what, l.address.Topic, strings.Join(l.address.Brokers, ","), l.address.advise(err))
}

// retry calls do until it succeeds, fails permanently, or the patience ends. tries is the
// number of earlier calls.
func (l *Log) retry(ctx context.Context, what string, do func(ctx context.Context, tries int) error) error {
	limit, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	if l.stop != nil {
		defer context.AfterFunc(l.stop, cancel)()
	}
	pause := 10 * time.Millisecond
	var last error
	for tries := 0; ; tries++ {
		err := do(limit, tries)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return l.fault(what, context.Cause(ctx))
		case !isTemporary(err):
			return l.fault(what, err)
		case last == nil || limit.Err() == nil:
			last = err
		}
		select {
		case <-limit.Done():
			return l.fault(what, away{fmt.Errorf("given up after %v: %w%s", l.patience, last, l.advertised.unreachable(l.address.Brokers))})
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

// advertised remembers brokers to which the last connection failed, by the address that they advertise.
// It is a hook of the client.
type advertised struct {
	mu     sync.Mutex
	failed map[string]string // address: broker and cause
}

// OnBrokerConnect implements the client's hook.
func (a *advertised) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port)))
	if err == nil {
		delete(a.failed, at)
		return
	}
	if a.failed == nil || len(a.failed) == maxFailed {
		a.failed = map[string]string{}
	}
	a.failed[at] = fmt.Sprintf("broker %d advertises the address %s (advertised.listeners), which cannot be reached from here: %v", meta.NodeID, at, err)
}

const maxFailed = 1 << 10 // brokers

// unreachable describes a broker whose advertised address is not one of these, and cannot be reached; "" if
// there is none.
func (a *advertised) unreachable(seeds []string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range slices.Sorted(maps.Keys(a.failed)) {
		if !slices.Contains(seeds, at) {
			return "; " + a.failed[at]
		}
	}
	return ""
}

// isTemporary reports whether an error may be temporary: of the network, or of a broker that
// is being replaced.
func isTemporary(err error) bool {
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Retriable
	}
	var f final
	return !errors.As(err, &f) && !aboutTLS(err)
}

// final is a permanent error.
type final struct{ error }

func (e final) Unwrap() error { return e.error }

// Marks returns the offsets that the broker holds of each partition, and where a new
// stream begins: at the offset of the group, if it has one, otherwise before the oldest or
// after the newest record, as the address specifies.
func (l *Log) Marks(ctx context.Context) (marks []stream.Mark, err error) {
	err = l.retry(ctx, "look", func(ctx context.Context, _ int) (err error) {
		marks, err = l.marks(ctx)
		return err
	})
	return marks, err
}

func (l *Log) marks(ctx context.Context) (marks []stream.Mark, err error) {
	topic, err := l.metadata(ctx, time.Millisecond)
	if err != nil {
		return nil, noTopic(err)
	}
	admin, id := kadm.NewClient(l.client), topic.TopicID
	low, err := admin.ListStartOffsets(ctx, l.address.Topic)
	if err = errors.Join(err, low.Error()); err != nil {
		return nil, noTopic(err)
	}
	written, err := admin.ListEndOffsets(ctx, l.address.Topic) // before the others, so that what is written meanwhile is no transaction
	if err = errors.Join(err, written.Error()); err != nil {
		return nil, noTopic(err)
	}
	high, err := admin.ListCommittedOffsets(ctx, l.address.Topic)
	if err = errors.Join(err, high.Error()); err != nil {
		return nil, noTopic(err)
	}
	for _, h := range high[l.address.Topic] {
		m := stream.Mark{Topic: l.address.Topic, ID: idOf(id), Number: h.Partition, High: h.Offset}
		if x, ok := low.Lookup(l.address.Topic, h.Partition); ok {
			m.Low = x.Offset
		}
		if x, ok := written.Lookup(l.address.Topic, h.Partition); ok {
			m.Written = x.Offset
		}
		if m.Begin = m.Low; l.address.Latest {
			m.Begin = m.High
		}
		marks = append(marks, m)
	}
	if err := l.committed(ctx, admin, marks); err != nil {
		return nil, err
	}
	if topic, err = l.metadata(ctx, time.Millisecond); err != nil {
		return nil, noTopic(err)
	}
	if topic.TopicID != id || len(marks) < len(topic.Partitions) {
		return nil, fmt.Errorf("the topic changes: its id was %s with %d partitions, and is %s with %d", idOf(id), len(marks), idOf(topic.TopicID), len(topic.Partitions))
	}
	slices.SortFunc(marks, func(a, b stream.Mark) int { return int(a.Number) - int(b.Number) })
	return marks, nil
}

// noTopic makes the error about an unknown topic permanent.
func noTopic(err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return final{away{errors.New("there is no such topic")}}
	}
	return err
}

// idKey precedes the id of the topic in the metadata of a committed offset.
const idKey = "topic-id="

// committed sets the beginnings that the group of the address has committed.
func (l *Log) committed(ctx context.Context, admin *kadm.Client, marks []stream.Mark) error {
	if l.address.Group == "" {
		return nil
	}
	all, err := admin.FetchOffsets(ctx, l.address.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("group %s: %w", l.address.Group, err)
	}
	offset := func(m stream.Mark) (kadm.OffsetResponse, bool) {
		x, ok := all.Lookup(m.Topic, m.Number)
		return x, ok && x.At >= 0
	}
	if !slices.ContainsFunc(marks, func(m stream.Mark) bool { _, ok := offset(m); return ok }) {
		return nil
	}
	for i := range marks {
		m := &marks[i]
		x, ok := offset(*m)
		if m.Group, m.Reset, m.Begin = l.address.Group, l.address.Reset, -1; ok {
			m.Begin = x.At
			m.GroupID, _ = strings.CutPrefix(x.Metadata, idKey)
		}
	}
	return nil
}

// Commit commits the offsets of the group in the address; without a group it does nothing.
func (l *Log) Commit(ctx context.Context, at []stream.Partition) error {
	offsets := kadm.Offsets{}
	for _, p := range at {
		if p.Topic == l.address.Topic {
			offsets.Add(kadm.Offset{Topic: p.Topic, Partition: p.Number, At: p.Next, LeaderEpoch: -1, Metadata: idKey + p.ID})
		}
	}
	if l.address.Group == "" || len(offsets) == 0 {
		return nil
	}
	return l.retry(ctx, "commit to group "+l.address.Group, func(ctx context.Context, _ int) error {
		all, err := kadm.NewClient(l.client).CommitOffsets(ctx, l.address.Group, offsets)
		return errors.Join(err, all.Error())
	})
}

// From returns the records from an offset on, as many as one fetch of about the given
// bytes contains, and the offset after them. The broker must hold the offset.
func (l *Log) From(ctx context.Context, partition int32, offset int64, bytes int) (records []Record, next int64, err error) {
	c := l.chunkAt(partition, offset)
	if c == nil {
		what := fmt.Sprintf("read partition %d at offset %d", partition, offset)
		begin := time.Now()
		for again := true; again; {
			err = l.retry(ctx, what, func(ctx context.Context, tries int) (err error) {
				c, err = l.fetch(ctx, partition, offset, bytes, tries > 0)
				return err
			})
			if again = err != nil && l.waits != nil && IsAway(err) && l.stop.Err() == nil; again {
				l.waits(err, time.Since(begin))
			}
		}
		if err != nil {
			return nil, 0, err
		}
		l.addChunk(c)
	}
	i, _ := slices.BinarySearchFunc(c.records, offset, func(r Record, o int64) int { return cmp.Compare(r.Offset, o) })
	return c.records[i:], c.hi, nil
}

// fetch asks the leader of a partition once. again makes it look up the leader again.
func (l *Log) fetch(ctx context.Context, partition int32, offset int64, bytes int, again bool) (*chunk, error) {
	id, leader, err := l.leader(ctx, partition, again)
	if err != nil {
		return nil, err
	}
	if err := l.Pin(idOf(id)); err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 500, 1, l.most, 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = l.address.Topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, int32(min(max(bytes, minFetch), maxFetch))
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := l.client.Broker(int(leader)).Request(ctx, req)
	if err != nil && strings.Contains(err.Error(), tooLarge) {
		return nil, final{fmt.Errorf("the batch of records there has more than %d bytes, which is the limit (%w): write smaller records or batches, and begin after this one, with the offset of a group or a range", l.most, err)}
	}
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	c := &chunk{partition: partition, lo: offset, hi: offset}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errNothing
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{ // the answer includes the beginning of the first batch, before offset
		IsolationLevel: kgo.ReadCommitted(), Topic: l.address.Topic, Partition: partition, Pools: []kgo.Pool{&l.records},
	}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	switch {
	case errors.Is(got.Err, kerr.OffsetOutOfRange):
		return nil, final{errors.New("the broker does not hold it; were records deleted before they were read? keep them longer (retention.ms). A training that follows the topic can resume with data.follow.lost: skip")}
	case got.Err != nil && next <= offset:
		return nil, got.Err
	case next <= offset:
		return nil, errNothing
	}
	c.hi, c.records = next, make([]Record, len(got.Records))
	for i, r := range got.Records {
		c.records[i] = Record{r.Offset, r.Value, r.Key, r.Timestamp.UnixMilli(), r.Headers}
		c.bytes += len(r.Value) + len(r.Key) + 128
		for _, h := range r.Headers {
			c.bytes += len(h.Key) + len(h.Value) + 40
		}
		r.Recycle()
	}
	if len(c.records) > 0 {
		c.lo = min(offset, c.records[0].Offset)
	}
	return c, nil
}

// recordPool reuses the client's records: only offset and value of them are kept.
type recordPool struct{ sync.Pool }

// GetRecords implements the client's pool.
func (p *recordPool) GetRecords(n int) []kgo.Record {
	if r, ok := p.Get().(*[]kgo.Record); ok && cap(*r) >= n {
		return (*r)[:n]
	}
	return make([]kgo.Record, n)
}

// PutRecords implements the client's pool.
func (p *recordPool) PutRecords(r []kgo.Record) { p.Put(&r) }

// tooLarge is in the client's error for an answer that has more bytes than the limit.
const tooLarge = "response exceeds BrokerMaxReadBytes"

// errNothing is an answer without records although the broker holds some.
var errNothing = errors.New("the broker answers with no record")

// metadata returns the state of the topic, of at most some age.
func (l *Log) metadata(ctx context.Context, age time.Duration) (topic kmsg.MetadataResponseTopic, err error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(l.address.Topic)
	req.Topics = append(req.Topics, t)
	resp, err := l.client.RequestCachedMetadata(ctx, req, age)
	if err != nil {
		return topic, err
	}
	for _, t := range resp.Topics {
		if t.Topic != nil && *t.Topic == l.address.Topic {
			return t, kerr.ErrorForCode(t.ErrorCode)
		}
	}
	return topic, kerr.UnknownTopicOrPartition
}

// leader returns the broker that leads a partition, and the topic's id.
func (l *Log) leader(ctx context.Context, partition int32, again bool) (id [16]byte, broker int32, err error) {
	age := leaderMaxAge
	if again {
		age = time.Millisecond
	}
	t, err := l.metadata(ctx, age)
	if err != nil {
		return id, 0, err
	}
	for _, p := range t.Partitions {
		if p.Partition == partition {
			return t.TopicID, p.Leader, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return id, 0, final{errors.New("there is no such partition")}
}

// chunkAt returns the chunk that contains an offset, nil if none does.
func (l *Log) chunkAt(partition int32, offset int64) *chunk {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.kept {
		if c.partition == partition && c.lo <= offset && offset < c.hi {
			return c
		}
	}
	return nil
}

func (l *Log) addChunk(c *chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept, l.bytes = append(l.kept, c), l.bytes+c.bytes
	for l.bytes > maxKept && len(l.kept) > 1 {
		l.bytes -= l.kept[0].bytes
		l.kept = slices.Delete(l.kept, 0, 1)
	}
}
