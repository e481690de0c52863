package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestWriter: each commit is in the topic once, with its number, when a writer is replaced before, in or after a
// commit. The writer of before cannot commit any more.
func TestWriter(t *testing.T) {
	cluster, a := broker(t, 1)
	ctx := t.Context()
	first, err := OpenWriter(ctx, a, "w")
	fatal.If(t, err)
	defer first.Close()
	fatal.If(t, first.Write(ctx, 1, strings.NewReader("a1\na2\n")))
	fatal.If(t, first.Write(ctx, 1, strings.NewReader("a1\na2\n"))) // again
	fatal.If(t, first.client.BeginTransaction())
	fatal.If(t, first.client.ProduceSync(ctx, kgo.StringRecord("killed")).FirstErr())
	second, err := OpenWriter(ctx, a, "w")
	fatal.If(t, err)
	defer func() { second.Close() }()
	if second.Last() != 1 {
		t.Errorf("the last commit is %d, want 1", second.Last())
	}
	if err := first.try(ctx, 2, strings.NewReader("of the former\n")); err == nil {
		t.Error("a writer that was replaced commits")
	}
	fatal.If(t, second.Write(ctx, 2, strings.NewReader("b\n")))
	// The connection is lost at the end of a transaction: the commit is not repeated.
	cluster.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("lost"), true })
	for err = second.Write(ctx, 3, strings.NewReader("c1\nc2\n")); err != nil; err = second.Write(ctx, 3, strings.NewReader("c1\nc2\n")) {
		if !IsAway(err) {
			t.Fatal(err)
		}
	}
	fatal.If(t, second.Write(ctx, 4, strings.NewReader("d\n")))
	l := open(t, a)
	marks, err := l.Marks(context.Background())
	fatal.If(t, err)
	if got := strings.Join(readRange(t, l, Range{0, 0, marks[0].High}), ","); got != "a1,a2,b,c1,c2,d" {
		t.Errorf("the topic has %s", got)
	}
	third, err := OpenWriter(ctx, a, "w")
	fatal.If(t, err)
	defer third.Close()
	if third.Last() != 4 {
		t.Errorf("the last commit is %d, want 4", third.Last())
	}
}

// TestWriterNamesItsFault: a topic that does not exist, and a broker that is not there.
func TestWriterNamesItsFault(t *testing.T) {
	cluster, a := broker(t, 1)
	missing := a
	missing.Topic, missing.Timeout = "absent", 200*time.Millisecond
	w, err := OpenWriter(t.Context(), missing, "w")
	w.Close()
	if err == nil || !strings.Contains(err.Error(), "topic absent at ") {
		t.Error(err)
	}
	cluster.Close()
	a.Timeout = 200 * time.Millisecond
	w, err = OpenWriter(t.Context(), a, "w")
	w.Close()
	if !IsAway(err) {
		t.Error(err)
	}
}
