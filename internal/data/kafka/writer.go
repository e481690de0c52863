package kafka

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Writer writes numbered commits to a topic, each in a transaction that also has the number, as the offset
// of a consumer group with the name of the writer. A consumer that reads committed records (read_committed)
// reads each commit once, also if the writer is killed. It belongs to one goroutine.
type Writer struct {
	log    *Log // address and patience
	name   string
	client *kgo.Client
	last   int64 // number of the last commit in the topic
}

// OpenWriter connects. Another writer of this name cannot commit any more. name is the transactional id. Last
// then has the number of the last commit, 0 if there is none.
func OpenWriter(ctx context.Context, a Address, name string) (*Writer, error) {
	w := &Writer{log: NewLog(a), name: name}
	return w, w.open(ctx)
}

// Last returns the number of the last commit in the topic.
func (w *Writer) Last() int64 { return w.last }

func (w *Writer) open(ctx context.Context) error {
	w.Close()
	a := w.log.address
	secure, err := a.security()
	if err != nil {
		return w.log.fault("write", err)
	}
	w.client, err = kgo.NewClient(append(secure,
		kgo.SeedBrokers(a.Brokers...), kgo.ClientID("wdlrun"), kgo.RetryTimeout(tryTimeout), kgo.DialTimeout(tryTimeout), kgo.WithHooks(&w.log.advertised),
		kgo.MaxVersions(kversion.V3_9_0()), // later versions add offsets to a transaction in another way
		kgo.TransactionalID(w.name), kgo.DefaultProduceTopic(a.Topic), kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.NoCompression()),
		kgo.RecordDeliveryTimeout(max(cmp.Or(a.Timeout, patience), time.Second)), kgo.TransactionTimeout(time.Minute))...)
	if err != nil {
		return w.log.fault("write", err)
	}
	return w.log.retry(ctx, "write", func(ctx context.Context, _ int) error {
		topics, err := kadm.NewClient(w.client).ListTopics(ctx, a.Topic)
		if err == nil {
			err = topics.Error()
		}
		if err != nil {
			return noTopic(err)
		}
		if _, _, err = w.client.ProducerID(ctx); err != nil { // this ends a transaction of before
			return err
		}
		all, err := kadm.NewClient(w.client).FetchOffsets(kadm.RequireStable(ctx), w.name)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return err
		}
		w.last = 0
		if at, ok := all.Lookup(a.Topic, 0); ok {
			if at.Err != nil {
				return at.Err
			}
			w.last = max(at.At, 0)
		}
		return nil
	})
}

// Close closes the connections.
func (w *Writer) Close() {
	if w != nil && w.client != nil {
		w.client.Close()
	}
}

// maxLine is the size of the longest line in bytes: brokers accept 1 MB by default.
const maxLine = 64 << 20

// Write writes the lines of a commit, each as a record, unless the topic has the commit. After an error the
// outcome is unknown: call Write again.
func (w *Writer) Write(ctx context.Context, commit int64, lines io.Reader) error {
	if commit <= w.last {
		return nil
	}
	err := w.try(ctx, commit, lines)
	if err == nil {
		w.last = commit
		return nil
	}
	if again := w.open(ctx); again != nil { // aborts the transaction, and finds out whether it was committed
		return errors.Join(w.log.fault("write", err), again)
	}
	if commit <= w.last {
		return nil
	}
	if isTemporary(err) {
		err = away{err}
	}
	return w.log.fault("write", err)
}

func (w *Writer) try(ctx context.Context, commit int64, lines io.Reader) error {
	if err := w.client.BeginTransaction(); err != nil {
		return err
	}
	var first kgo.FirstErrPromise
	in := bufio.NewScanner(lines)
	in.Buffer(make([]byte, 1<<16), maxLine)
	for in.Scan() {
		w.client.Produce(ctx, &kgo.Record{Value: bytes.Clone(in.Bytes())}, first.Promise())
	}
	err := in.Err()
	if err == nil {
		err = w.client.Flush(ctx)
	}
	if err = errors.Join(err, first.Err()); err == nil {
		err = w.number(ctx, commit)
	}
	return errors.Join(err, w.client.EndTransaction(ctx, kgo.TransactionEndTry(err == nil)))
}

// number adds the number of a commit to the transaction.
func (w *Writer) number(ctx context.Context, commit int64) error {
	id, epoch, err := w.client.ProducerID(ctx)
	if err != nil {
		return err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = w.name, id, epoch, w.name
	err = w.log.retry(ctx, "write", func(ctx context.Context, _ int) error {
		r, err := add.RequestWith(ctx, w.client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(r.ErrorCode)
	})
	if err != nil {
		return err
	}
	offset := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	offset.Offset = commit
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = w.log.address.Topic, append(topic.Partitions, offset)
	set := kmsg.NewPtrTxnOffsetCommitRequest()
	set.TransactionalID, set.ProducerID, set.ProducerEpoch, set.Group, set.Generation = w.name, id, epoch, w.name, -1
	set.Topics = append(set.Topics, topic)
	return w.log.retry(ctx, "write", func(ctx context.Context, _ int) error {
		r, err := set.RequestWith(ctx, w.client)
		if err != nil {
			return err
		}
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return fmt.Errorf("the group %s: an answer of %d topics", w.name, len(r.Topics))
		}
		return kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode)
	})
}

// IsTopic reports whether a name is the address of a topic.
func IsTopic(name string) bool { return strings.HasPrefix(name, Scheme) }
