package jobs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// streamYAML is the configuration of a training on a stream. %q stands for the growing data.
const streamYAML = `
data: {train: [%q], fields: [click, site], follow: {on: true, poll: 0.05}}
label: {field: click}
features: [{field: site, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 16, checkpoint: {every_steps: 2}}
`

// TestStreamOfProcesses: if its broker dies, a job waits longer than for a rank that stands still,
// without ending, reports it in one line, and trains on when the broker is back.
func TestStreamOfProcesses(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), 0
	c, err := startBroker(dir)
	fatal.If(t, err)
	fmt.Sscanf(c.ListenAddrs()[0], "127.0.0.1:%d", &port)
	sendClicks(t, c, 100)
	write(t, dir, "s.yaml", fmt.Sprintf(streamYAML, fmt.Sprintf("kafka://%s/clicks?timeout=1s", c.ListenAddrs()[0])))
	cmd := command(t, dir, "-np", "2", "-timeout", "3s", "train", "--json", "-config", "s.yaml", "-set", "data.follow.idle=4")
	said := &notes{}
	cmd.Stderr = said
	fatal.If(t, cmd.Start())
	eventually(t, "a checkpoint of the last step", func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "checkpoints", "step-000000006"))
		return len(found) > 0
	})
	c.Close()
	away := time.Now()
	eventually(t, "a line about the broker", func() bool { return strings.Contains(said.String(), "the training waits until it is there again") })
	time.Sleep(6 * time.Second) // longer than the time limits of ranks and of idle
	c, err = startBroker(dir, port)
	fatal.If(t, err)
	defer c.Close()
	sendClicks(t, c, 30)
	fatal.If(t, cmd.Wait())
	text := said.String()
	if !containsAll(text, "kafka: look: topic clicks at 127.0.0.1", "the stream can be read again after") || strings.Count(text, "the training waits") != 1 {
		t.Errorf("after %v:\n%s", time.Since(away), text)
	}
	if r := parseTrained(t, outcome{stdout: cmd.Stdout.(*bytes.Buffer).String()}); r.Samples != 130 {
		t.Errorf("%d samples, want the 130 that were sent\n%s", r.Samples, text)
	}
}

// notes is output that is read while it is written.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// startBroker starts a broker that stores its messages in dir.
func startBroker(dir string, ports ...int) (*kfake.Cluster, error) {
	return kfake.NewCluster(kfake.Ports(ports...), kfake.SeedTopics(2, "clicks"), kfake.NumBrokers(1), kfake.DataDir(filepath.Join(dir, "broker")))
}

func sendClicks(t *testing.T, c *kfake.Cluster, n int) {
	t.Helper()
	sendTo(t, c.ListenAddrs()[0], "clicks", n)
}

func sendTo(t *testing.T, broker, topic string, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(topic), kgo.UnknownTopicRetries(100))
	fatal.If(t, err)
	defer cl.Close()
	for i := range n {
		fatal.If(t, cl.ProduceSync(context.Background(), kgo.StringRecord(fmt.Sprintf("%d,s%d", i%2, i%9))).FirstErr())
	}
}

// TestStreamOfATopicCreatedAgain: a job that resumes on a topic that was deleted and created again
// ends with one line that has both ids, and trains on all of it with data.follow.lost. It runs on a
// broker in this process and on that of WDLRUN_TEST_KAFKA (tests/kafka/broker), if there is one.
func TestStreamOfATopicCreatedAgain(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	fatal.If(t, err)
	defer c.Close()
	brokers := c.ListenAddrs()
	if address := os.Getenv("WDLRUN_TEST_KAFKA"); address != "" {
		brokers = append(brokers, address)
	}
	for _, broker := range brokers {
		dir, topic := t.TempDir(), fmt.Sprintf("clicks.%d", time.Now().UnixNano())
		create := func() { eventually(t, "a topic", func() bool { return onBroker(t, broker, topic, kadmCreate) == nil }) }
		create()
		sendTo(t, broker, topic, 100)
		write(t, dir, "s.yaml", fmt.Sprintf(streamYAML, "kafka://"+broker+"/"+topic))
		o := run(t, dir, "train", "--json", "-config", "s.yaml", "-set", "data.follow.idle=0.3")
		if o.code != 0 || parseTrained(t, o).Samples != 100 {
			t.Fatalf("exit code %d: %s\n%s", o.code, o.stdout, o.stderr)
		}
		fatal.If(t, onBroker(t, broker, topic, kadmDelete))
		create()
		sendTo(t, broker, topic, 150)
		resume := []string{"train", "--json", "-resume", parseTrained(t, o).RunDir, "-set", "data.follow.idle=0.3"}
		o = run(t, dir, resume...)
		if o.code != 1 || !containsAll(o.stderr, "topic "+topic+" was deleted and created again: its id was", "resume with data.follow.lost: skip") {
			t.Errorf("exit code %d\n%s", o.code, o.stderr)
		}
		o = run(t, dir, append(resume, "-set", "data.follow.lost=skip")...)
		if o.code != 0 || !containsAll(o.stderr, "was deleted and created again") || parseTrained(t, o).Samples != 250 {
			t.Errorf("exit code %d, want 100 and 150 samples: %s\n%s", o.code, o.stdout, o.stderr)
		}
		fatal.If(t, onBroker(t, broker, topic, kadmDelete))
	}
}

func kadmCreate(admin *kadm.Client, topic string) error {
	_, err := admin.CreateTopic(context.Background(), 2, 1, nil, topic)
	return err
}

func kadmDelete(admin *kadm.Client, topic string) error {
	_, err := admin.DeleteTopic(context.Background(), topic)
	return err
}

func onBroker(t *testing.T, broker, topic string, do func(admin *kadm.Client, topic string) error) error {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	fatal.If(t, err)
	defer cl.Close()
	return do(kadm.NewClient(cl), topic)
}
