package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// streamYAML is a job on a stream; %s is what grows.
const streamYAML = `
data: {train: [%q], fields: [click, site], follow: {on: true, poll: 0.05}}
label: {field: click}
features: [{field: site, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 16, checkpoint: {every_steps: 2}}
`

// TestStreamOfProcesses: a job whose broker dies ends with one line that names
// the rank, the topic and the cause; resumed, it reads on.
func TestStreamOfProcesses(t *testing.T) {
	dir, port := t.TempDir(), 0
	start := func(ports ...int) *kfake.Cluster {
		c, err := kfake.NewCluster(kfake.Ports(ports...), kfake.SeedTopics(2, "clicks"), kfake.NumBrokers(1), kfake.DataDir(filepath.Join(dir, "broker")))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := start()
	fmt.Sscanf(c.ListenAddrs()[0], "127.0.0.1:%d", &port)
	send := func(n int) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("clicks"))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for i := range n {
			if err := cl.ProduceSync(context.Background(), kgo.StringRecord(fmt.Sprintf("%d,s%d", i%2, i%9))).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(100)
	yaml := fmt.Sprintf(streamYAML, "kafka://"+c.ListenAddrs()[0]+"/clicks?timeout=5s")
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, dir, "-np", "2", "train", "-config", "s.yaml")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var run string
	eventually(t, "a checkpoint of the last step", func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "checkpoints", "step-000000006"))
		if len(found) > 0 {
			run = filepath.Dir(filepath.Dir(found[0]))
		}
		return len(found) > 0
	})
	c.Close()
	o := end(t, cmd)
	said := ""
	for line := range strings.Lines(o.stderr) {
		if strings.Contains(line, "topic clicks at 127.0.0.1") {
			said += line
		}
	}
	if o.code != 1 || !containsAll(said, "rank 0", "kafka: look", "given up after 5s") || strings.Count(said, "\n") != 1 {
		t.Errorf("exit code %d, about the broker:\n%s\nall:\n%s", o.code, said, o.stderr)
	}
	c = start(port)
	defer c.Close()
	send(30)
	if r := train(t, dir, 3, "-resume", run, "-set", "data.follow.idle=0.3"); r.Samples != 130 {
		t.Errorf("%d samples, 130 were sent", r.Samples)
	}
}
