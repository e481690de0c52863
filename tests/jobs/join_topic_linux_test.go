package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// committed returns the values of the committed records of a topic.
func committed(t *testing.T, broker, topic string) (all []string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	fatal.If(t, err)
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(context.Background(), topic)
	fatal.If(t, err)
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		f := cl.PollFetches(ctx)
		cancel()
		f.EachRecord(func(r *kgo.Record) { all = append(all, string(r.Value)) })
		f.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) == 0 || p.Records[len(p.Records)-1].Offset+2 >= left[p.Partition] { // the last is the end of a transaction
				delete(left, p.Partition)
			}
		})
		if f.Empty() {
			break
		}
	}
	return all
}

// TestJoinIntoATopicIsKilled: a join whose samples and late feedback are written to topics is killed at any point
// (50 times with -whole). A consumer that reads committed records reads each sample once. It runs on a broker in this
// process and on that of WDLRUN_TEST_KAFKA (tests/kafka/broker), if there is one.
func TestJoinIntoATopicIsKilled(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	fatal.If(t, err)
	defer c.Close()
	brokers := c.ListenAddrs()
	if address := os.Getenv("WDLRUN_TEST_KAFKA"); address != "" {
		brokers = append(brokers, address)
	}
	for _, broker := range brokers {
		joinIntoATopic(t, broker, patient.Size(8, 50))
	}
}

func joinIntoATopic(t *testing.T, broker string, kills int) {
	t.Helper()
	dir, want := t.TempDir(), map[string]int{}
	samples, late := fmt.Sprintf("samples.%d", time.Now().UnixNano()), fmt.Sprintf("late.%d", time.Now().UnixNano())
	for _, topic := range []string{samples, late} {
		eventually(t, "a topic", func() bool { return onBroker(t, broker, topic, kadmCreate) == nil })
	}
	args := func(more ...string) []string {
		return append([]string{"join", "-impressions", "shown", "-feedback", "clicks", "-out", "kafka://" + broker + "/" + samples, "-late", "kafka://" + broker + "/" + late,
			"-key", "id", "-time", "ts", "-window", "10s", "-delay", "2s", "-poll", "5ms"}, more...)
	}
	r := rand.New(rand.NewPCG(2, 9))
	for i := range kills {
		joinLog(t, dir, i*4, 4, want)
		cmd := command(t, dir, args("-follow")...)
		fatal.If(t, cmd.Start())
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		fatal.If(t, cmd.Process.Kill())
		cmd.Wait() // killed
	}
	joinLog(t, dir, kills*4, 40, want)
	moved(t, dir, "clicks", "99999.json", []string{`{"id": "none", "ts": 1600000000000}`})
	for _, folder := range []string{"shown", "clicks"} {
		write(t, filepath.Join(dir, folder), "_SUCCESS", "")
	}
	if o := run(t, dir, args("-follow")...); o.code != 0 {
		t.Fatalf("the last run: %+v", o)
	}
	seen, wrong := map[string]bool{}, 0
	for _, line := range committed(t, broker, samples) {
		var s struct {
			ID    string
			Label int
		}
		fatal.If(t, json.Unmarshal([]byte(line), &s))
		if label, known := want[s.ID]; seen[s.ID] || !known || label != s.Label {
			wrong++
		}
		seen[s.ID] = true
	}
	if wrong > 0 || len(seen) != len(want) {
		t.Errorf("%s: %d samples of %d impressions; %d are wrong or repeated", broker, len(seen), len(want), wrong)
	}
	if got := committed(t, broker, late); len(got) != 1 || got[0] != `{"id": "none", "ts": 1600000000000}` {
		t.Errorf("%s: late feedback: %q", broker, got)
	}
}
