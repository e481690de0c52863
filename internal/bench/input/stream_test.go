package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// The records of BenchmarkStream, and the parts (files or partitions) that contain them.
const (
	streamed    = 200_000
	streamParts = 16
)

// streamedLines are the records of each part, in Criteo's layout.
func streamedLines() (parts [streamParts][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range parts {
		var b bytes.Buffer
		for range streamed / streamParts {
			fmt.Fprintf(&b, "%d", rng.IntN(2))
			for range 13 {
				fmt.Fprintf(&b, "\t%d", rng.IntN(1<<rng.IntN(12)))
			}
			for range 26 {
				fmt.Fprintf(&b, "\t%08x", rng.Uint32N(1<<rng.IntN(20)))
			}
			b.WriteByte('\n')
		}
		parts[i] = b.Bytes()
	}
	return parts
}

// streamSchema needs no statistics.
func streamSchema() (s schema.Schema) {
	s.Label.Field = "label"
	for _, f := range schema.CriteoFields()[1:] {
		s.Features = append(s.Features, schema.Feature{Field: f, Encode: map[byte]string{'I': "log", 'C': "hash"}[f[0]]})
	}
	return s
}

// readSpan does with files, or ranges, what a rank of a training does: it scans them, and
// reads them shuffled.
func readSpan(b *testing.B, src schema.Source, e *encode.Encoder, names []string) (n int64) {
	d, err := data.Open(src, streamSchema(), names)
	fatal.If(b, err)
	counts, err := d.Scan(context.Background(), 0, 1, nil, nil)
	if err == nil {
		err = d.Use(counts)
	}
	fatal.If(b, err)
	r, err := data.NewReader(d, e, data.ReaderConfig{GlobalBatch: 1024, Seed: 1, Shuffle: true, Select: data.All})
	fatal.If(b, err)
	defer r.Close()
	for {
		batch, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return n
		}
		fatal.If(b, err)
		n += int64(batch.Rows)
		r.Recycle(batch)
	}
}

// follow reads a stream to its end.
func follow(b *testing.B, src schema.Source, e *encode.Encoder) (n int64) {
	var at stream.Position
	f, err := data.NewFeed(src, at)
	fatal.If(b, err)
	defer f.Close()
	for at.Ended == "" {
		v, err := f.Next(context.Background(), &at, time.Hour)
		fatal.If(b, err)
		if len(v.Span) > 0 {
			n += readSpan(b, src, e, v.Span)
		}
	}
	return n
}

// topicOf makes a topic of an in-process broker, a part a partition.
func topicOf(b *testing.B, parts [streamParts][]byte) string {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(streamParts, "clicks"))
	fatal.If(b, err)
	b.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("clicks"))
	fatal.If(b, err)
	defer cl.Close()
	for p, part := range parts {
		var all []*kgo.Record
		for line := range bytes.Lines(part) {
			all = append(all, &kgo.Record{Partition: int32(p), Value: line})
		}
		fatal.If(b, cl.ProduceSync(context.Background(), all...).FirstErr())
	}
	return "kafka://" + strings.Join(c.ListenAddrs(), ",") + "/clicks"
}

// BenchmarkStream reads the same records as files that are all there, from a folder that
// grows, and from a topic of a broker in this process, which takes its share of the
// cores. All are scanned and then read shuffled, as in training; a span of the streams is
// a quarter of the records.
func BenchmarkStream(b *testing.B) {
	parts, dir := streamedLines(), b.TempDir()
	for i, part := range parts {
		fatal.If(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("part-%02d.tsv", i)), part, 0o644))
	}
	fatal.If(b, os.WriteFile(filepath.Join(dir, "_SUCCESS"), nil, 0o644))
	e, err := encode.NewEncoder(encode.NewFit(streamSchema()))
	fatal.If(b, err)
	for _, x := range []struct{ name, train string }{{"files", dir}, {"folder", dir}, {"topic", topicOf(b, parts)}} {
		b.Run(x.name, func(b *testing.B) {
			src := schema.Source{Format: "criteo", Train: []string{x.train}, Follow: schema.Follow{On: true, Files: streamParts / 4, Rows: streamed / streamParts / 4, Idle: 1}}
			b.ReportAllocs()
			n := int64(0)
			for b.Loop() {
				if x.name == "files" {
					n += readSpan(b, src, e, src.Train)
				} else {
					n += follow(b, src, e)
				}
			}
			if n != streamed*int64(b.N) {
				b.Fatalf("%d records in %d rounds", n, b.N)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
