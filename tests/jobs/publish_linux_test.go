package jobs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// publishedModel is a model that a training publishes and a server follows.
type publishedModel struct {
	t    *testing.T
	dir  string
	conn *grpc.ClientConn
}

// newest returns the highest version and checks that every version can be opened.
func (m *publishedModel) newest() (newest int64) {
	m.t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.dir, "models", "ctr"))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, e := range entries {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil {
			continue // a temporary folder of a killed process
		}
		v, err := export.Open(filepath.Join(m.dir, "models", "ctr", e.Name()))
		if err != nil {
			m.t.Fatal(err)
		}
		newest = max(newest, n)
		v.Close()
	}
	return newest
}

// answers compares the logits of the server with those written by predict.
func (m *publishedModel) answers(model string) {
	m.t.Helper()
	out := filepath.Join(m.dir, "want.csv")
	must(m.t, m.dir, "predict "+model+" -data builtin:adult.test -label -logit -columns age,workclass,education,occupation,sex,native_country,fnlwgt,education_num,marital_status,relationship,race,capital_gain,capital_loss,hours_per_week -out "+out)
	want := readScored(m.t, out)
	os.Remove(out)
	const rows = 500
	request := stringTensors("ctr", want.names, want.rows[:rows])
	var answer []byte
	if err := m.conn.Invoke(context.Background(), "/tensorflow.serving.PredictionService/Predict", &request, &answer, grpc.ForceCodecV2(bytesCodec{})); err != nil {
		m.t.Fatal(err)
	}
	sameLogits(m.t, model, logitsOf(m.t, answer), want.logits[:rows])
}

// TestPublishingSurvivesKills: a training of two processes publishes its model, loses a rank and
// resumes. Then all its processes are killed, and later an export. The server always answers
// from the last complete version, with the bits of the checkpoint of that step.
func TestPublishingSurvivesKills(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	publish := []string{"-set", "train.export.dir=models/ctr", "-set", "train.export.every_seconds=1"}
	_, r, dir := disturbed(t, 2, moment{lines: 11, victim: 1}, append(few(t), publish...), "-restarts", "3")
	m := publishedModel{t: t, dir: dir}
	if n := m.newest(); n != r.Steps {
		t.Fatalf("the newest version is %d after %d steps", n, r.Steps)
	}
	s := startServer(t, dir, "-model", "ctr=models/ctr", "-file_system_poll_wait_seconds", "0.05")
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal.If(t, err)
	defer conn.Close()
	m.conn = conn
	m.answers("-resume " + r.RunDir)
	follow := func(n int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("version %d", n), func() bool {
			return strings.Contains(statusOf(t, s), fmt.Sprintf(`"version": "%d", "state": "AVAILABLE"`, n))
		})
	}

	job := command(t, dir, "-np", "2", "train", "-resume", r.RunDir, "-set", "train.epochs=1000")
	fatal.If(t, job.Start())
	pids := waitRanks(t, job.Process.Pid, 2)
	eventually(t, "two more versions", func() bool {
		all, _ := filepath.Glob(filepath.Join(dir, "models", "ctr", "[0-9]*"))
		more := 0
		for _, path := range all {
			if n, _ := strconv.ParseInt(filepath.Base(path), 10, 64); n > r.Steps {
				more++
			}
		}
		return more > 1
	})
	kill(t, job.Process.Pid, syscall.SIGKILL)
	end(t, job)
	gone(t, pids)
	n := m.newest()
	follow(n)
	m.answers("-model models/ctr")

	for i := range 4 {
		version := n + int64(i) + 1
		e := command(t, dir, "export", "-resume", r.RunDir, "-out", "models", "-name", "ctr", "-version", fmt.Sprint(version))
		fatal.If(t, e.Start())
		time.Sleep(time.Duration(i) * 20 * time.Millisecond)
		kill(t, e.Process.Pid, syscall.SIGKILL)
		end(t, e)
	}
	follow(m.newest())
	m.answers("-model models/ctr")
	if o := s.stop(); o.code != 0 || o.stderr != "" && !strings.HasPrefix(o.stderr, "wdlrun: serve: interrupted") {
		t.Errorf("serve after SIGTERM: %+v", o)
	}
}

// TestPublishingWithoutASharedDisk: hosts that share no disk publish to a folder of the first
// host. A resumed training starts from a checkpoint whose parts are on both hosts. When a host
// is killed, the last complete version remains, and a server on the first host answers from it.
func TestPublishingWithoutASharedDisk(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir, client, homes := diskless(t)
	flags := append(few(t), "-set", "train.export.dir=models/ctr", "-set", "train.export.every_seconds=1")
	m := publishedModel{t: t, dir: filepath.Join(homes, "a")}
	half, _ := trainDiskless(t, dir, client, "a:1,b:2", append(flags, "-set", "train.epochs=1")...)
	if n := m.newest(); n != half.Steps {
		t.Errorf("the newest version is %d after %d steps", n, half.Steps)
	}
	whole, o := trainDiskless(t, dir, client, "a:1,b:1", "-resume", half.RunDir, "-set", "train.epochs=2")
	if n := m.newest(); n != whole.Steps || strings.Contains(o.stderr, "train.export") {
		t.Errorf("the newest version is %d after %d steps\n%s", n, whole.Steps, o.stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(homes, "b", "models*")); len(left) > 0 {
		t.Errorf("host b has %q, although versions belong to host a", left)
	}
	if o := runDiskless(t, dir, client, "a,b", "ckpt", "gather", half.RunDir); o.code != 0 {
		t.Errorf("gather: %+v", o)
	}
	s := startServer(t, m.dir, "-model", "ctr=models/ctr", "-file_system_poll_wait_seconds", "0.05")
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal.If(t, err)
	defer conn.Close()
	m.conn = conn
	m.answers("-resume " + half.RunDir)

	job := command(t, dir, "-H", "a:1,b:1", "-ssh", client, "train", "-resume", half.RunDir, "-set", "train.epochs=100000")
	fatal.If(t, job.Start())
	eventually(t, "a later version", func() bool {
		all, _ := filepath.Glob(filepath.Join(m.dir, "models", "ctr", "[0-9]*"))
		for _, path := range all {
			if n, _ := strconv.ParseInt(filepath.Base(path), 10, 64); n > whole.Steps {
				return true
			}
		}
		return false
	})
	for _, pid := range below(filepath.Join(homes, "b")) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if o := end(t, job); o.code == 0 || !strings.Contains(o.stderr, "host b (rank 1) was lost") {
		t.Errorf("training after the loss of host b: %+v", o)
	}
	n := m.newest()
	eventually(t, fmt.Sprintf("version %d", n), func() bool {
		return strings.Contains(statusOf(t, s), fmt.Sprintf(`"version": "%d", "state": "AVAILABLE"`, n))
	})
	m.answers("-model models/ctr")
	s.stop()
}
