package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

const onlineYAML = `
web: 127.0.0.1:%d
join: {impressions: shown, feedback: clicks, out: samples, key: id, time: ts, window: 2s, poll: 20ms}
train: {config: ctr.yaml}
serve: {model: ctr=models/ctr, port: 0, rest-port: %d, file_system_poll_wait_seconds: 0.1}
`

const onlineTrainYAML = `
data: {train: [samples], format: jsonl, follow: {on: true, poll: 0.05}}
label: {field: label}
features: [{field: site, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 32, checkpoint: {every_steps: 10}, export: {dir: models/ctr, every_seconds: 1}}
`

// onlineStatus is status.json of a loop.
type onlineStatus struct {
	Parts []struct {
		Name, State, Error string
		Process, Restarts  int
	}
	Freshness struct {
		Version int64
		Total   float64 `json:"event_to_loaded"`
	}
	Loop struct {
		Samples, Served, Version int64
		Trained                  int64
		Step                     int
		Failed                   struct {
			Version int64
			Error   string
		}
	}
}

// loop is a running wdlrun online.
type loop struct {
	t     *testing.T
	dir   string
	want  map[string]int // label by impression
	cmd   *exec.Cmd
	said  *notes
	rest  string // of the server
	page  int
	files int // of impressions
}

// startLoop starts a loop and waits for an answer.
func startLoop(t *testing.T) *loop {
	t.Helper()
	port := freePort(t)
	l := &loop{t: t, dir: t.TempDir(), want: map[string]int{}, said: &notes{}, rest: fmt.Sprintf("http://127.0.0.1:%d", port), page: freePort(t)}
	write(t, l.dir, "online.yaml", fmt.Sprintf(onlineYAML, l.page, port))
	write(t, l.dir, "ctr.yaml", onlineTrainYAML)
	l.log(10)
	l.cmd = command(t, l.dir, "online", "-config", "online.yaml")
	l.cmd.Stderr = l.said
	fatal.If(t, l.cmd.Start())
	eventually(t, "an answer", func() bool {
		if strings.Contains(l.said.String(), "has ended") {
			t.Fatal(l.said)
		}
		return askLoop(l.rest) == nil
	})
	return l
}

// log writes further files of impressions and clicks.
func (l *loop) log(n int) {
	l.t.Helper()
	joinLog(l.t, l.dir, l.files, n, l.want)
	l.files += n
}

// status reads status.json.
func (l *loop) status() (s onlineStatus) {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, "online", "status.json"))
	if err == nil {
		fatal.If(l.t, json.Unmarshal(b, &s))
	}
	return s
}

// kill kills a part.
func (l *loop) kill(part int) {
	l.t.Helper()
	fatal.If(l.t, syscall.Kill(l.process(part), syscall.SIGKILL))
}

// finish ends the input, and waits until the training has ended and its last version is served.
func (l *loop) finish() {
	l.t.Helper()
	for _, folder := range []string{"shown", "clicks"} {
		write(l.t, filepath.Join(l.dir, folder), "_SUCCESS", "")
	}
	eventually(l.t, "the end of the training", func() bool { return strings.Contains(l.said.String(), "online: train has finished") })
	eventually(l.t, "the last version", func() bool {
		s := l.status()
		return s.Loop.Step == trainedOnAll(l.t, l.dir, l.want) && s.Loop.Served == s.Loop.Version && s.Freshness.Total > 0
	})
}

// badAnswer is the answer of a server that has no score.
type badAnswer string

func (b badAnswer) Error() string { return string(b) }

// askLoop asks a server for a score.
func askLoop(rest string) error {
	a, err := http.Post(rest+"/v1/models/ctr:predict", "application/json", strings.NewReader(`{"instances": [{"site": "s1"}]}`))
	if err != nil {
		return err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err == nil && (a.StatusCode != http.StatusOK || !bytes.Contains(b, []byte("score"))) {
		err = badAnswer(fmt.Sprintf("%s: %s", a.Status, b))
	}
	return err
}

// TestOnline: events become answers. A part that is killed is named and started again, while the server answers
// all requests, and each impression becomes one sample. SIGTERM ends the parts in their order.
func TestOnline(t *testing.T) {
	t.Parallel()
	l := startLoop(t)
	for round, name := range []string{"join", "train", "serve"} {
		served := l.status().Loop.Served
		l.kill(round)
		l.log(10)
		eventually(t, name+" to continue", func() bool {
			if err := askLoop(l.rest); name != "serve" { // its clients need another server meanwhile
				fatal.If(t, err)
			}
			s := l.status()
			return s.Parts[round].Restarts == 1 && s.Parts[round].State == "running" && s.Loop.Served > served
		})
		if !strings.Contains(l.said.String(), "online: "+name+" ended: signal: killed") {
			t.Errorf("%s is not named:\n%s", name, l.said)
		}
	}
	causeIsNamed(t, l.status)
	onlinePage(t, l.page)
	l.finish()
	fatal.If(t, askLoop(l.rest))
	fatal.If(t, l.cmd.Process.Signal(syscall.SIGTERM))
	if err := l.cmd.Wait(); err != nil || !strings.Contains(l.said.String(), "online: serve has ended") {
		t.Errorf("%v\n%s", err, l.said)
	}
	checkSamples(t, l.dir, l.want)
	onlineAgain(t, l)
}

// causeIsNamed kills the rank of the training: its error is the verdict.
func causeIsNamed(t *testing.T, status func() onlineStatus) {
	t.Helper()
	fatal.If(t, syscall.Kill(rankOf(t, status().Parts[1].Process), syscall.SIGKILL))
	eventually(t, "the cause", func() bool {
		x := status().Parts[1]
		return x.Restarts == 2 && x.State == "running" && containsAll(x.Error, "rank 0", "was killed by signal 9")
	})
}

// rankOf returns the process of the rank that a launcher has started.
func rankOf(t *testing.T, launcher int) int {
	t.Helper()
	var children []string
	eventually(t, "a rank", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", launcher)) // the pattern is well-formed
		for _, path := range threads {
			b, err := os.ReadFile(path)
			fatal.If(t, err)
			for _, child := range strings.Fields(string(b)) {
				if text, err := os.ReadFile("/proc/" + child + "/cmdline"); err == nil && bytes.Contains(text, []byte("-into=")) {
					children = append(children, child)
				}
			}
		}
		return len(children) > 0
	})
	pid, err := strconv.Atoi(children[0])
	fatal.If(t, err)
	return pid
}

// onlinePage reads the page: it has the sources, the versions and the freshness of the loop.
func onlinePage(t *testing.T, port int) {
	t.Helper()
	get := func(path string) []byte {
		a, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		fatal.If(t, err)
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		fatal.If(t, err)
		return b
	}
	for path, want := range map[string]string{"/": `id="guard"`, "/online.js": "/status.json", "/live.css": "body"} {
		if b := get(path); !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s has no %s:\n%s", path, want, b)
		}
	}
	var s struct {
		Freshness struct{ Version int64 }
		Loop      struct {
			Sources  []struct{ Name string }
			Versions []struct{ State string }
		}
	}
	eventually(t, "the status", func() bool {
		fatal.If(t, json.Unmarshal(get("/status.json"), &s))
		return s.Freshness.Version > 0 && len(s.Loop.Sources) == 2 && len(s.Loop.Versions) > 0 && s.Loop.Versions[0].State == "ok"
	})
}

// onlineAgain starts a loop that had ended again: it says so, and joins and trains on what came since. A
// training that reads other samples than those of the join is named.
func onlineAgain(t *testing.T, l *loop) {
	t.Helper()
	for _, folder := range []string{"shown", "clicks"} {
		fatal.If(t, os.Remove(filepath.Join(l.dir, folder, "_SUCCESS")))
	}
	l.log(5)
	cmd := command(t, l.dir, "online", "-config", "online.yaml")
	said := &notes{}
	cmd.Stderr = said
	fatal.If(t, cmd.Start())
	for _, folder := range []string{"shown", "clicks"} {
		write(t, filepath.Join(l.dir, folder), "_SUCCESS", "")
	}
	eventually(t, "the end of the training", func() bool { return strings.Contains(said.String(), "online: train has finished") })
	fatal.If(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "the join had ended in an earlier run") || strings.Contains(said.String(), "make data.train") {
		t.Errorf("%v\n%s", err, said)
	}
	checkSamples(t, l.dir, l.want)
	trainedOnAll(t, l.dir, l.want)
}

// process returns the process of a part, once it has one: 0 would be the group of this test.
func (l *loop) process(part int) (process int) {
	l.t.Helper()
	eventually(l.t, "a process", func() bool {
		if s := l.status(); part < len(s.Parts) {
			process = s.Parts[part].Process
		}
		return process > 0
	})
	return process
}

// trainedOnAll compares the samples of the result of the training with the impressions, and returns its steps.
func trainedOnAll(t *testing.T, dir string, want map[string]int) int {
	t.Helper()
	var result struct{ Samples, Steps int }
	fatal.If(t, json.Unmarshal([]byte(readText(t, filepath.Join(dir, "online", "run", "result.json"))), &result))
	if result.Samples != len(want) {
		t.Errorf("the training had %d samples of %d", result.Samples, len(want))
	}
	return result.Steps
}

// TestOnlineEndsInOrder: SIGTERM ends the join, then the training, then the server. A part whose flags are wrong
// ends the loop with its error.
func TestOnlineEndsInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	yaml := fmt.Sprintf(onlineYAML, freePort(t), freePort(t))
	write(t, dir, "online.yaml", yaml)
	write(t, dir, "ctr.yaml", onlineTrainYAML)
	joinLog(t, dir, 0, 10, map[string]int{})
	cmd := command(t, dir, "online", "-config", "online.yaml")
	said := &notes{}
	cmd.Stderr = said
	fatal.If(t, cmd.Start())
	eventually(t, "a version", func() bool {
		if strings.Contains(said.String(), "has ended") {
			t.Fatal(said)
		}
		found, _ := filepath.Glob(filepath.Join(dir, "models", "ctr", "*", "MANIFEST.json"))
		return len(found) > 0
	})
	if o := run(t, dir, "online", "-config", "online.yaml"); o.code == 0 || !containsAll(o.stderr, "another wdlrun online uses online (pid ", "end it first") {
		t.Errorf("a second loop: %+v", o)
	}
	fatal.If(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "online: join has ended\nonline: train has ended\nonline: serve has ended\n") {
		t.Errorf("%v\n%s", err, said)
	}
	var ended onlineStatus
	fatal.If(t, json.Unmarshal([]byte(readText(t, filepath.Join(dir, "online", "status.json"))), &ended))
	for _, x := range ended.Parts {
		if x.State != "ended" || x.Error != "" || x.Process != 0 {
			t.Errorf("after the end: %+v", x)
		}
	}
	var last struct{ Step int }
	fatal.If(t, json.Unmarshal([]byte(readText(t, filepath.Join(dir, "models", "ctr", fmt.Sprint(ended.Loop.Version), "MANIFEST.json"))), &last))
	if found, _ := filepath.Glob(filepath.Join(dir, "models", "ctr", fmt.Sprint(ended.Loop.Version+1))); len(found) > 0 || last.Step == 0 || ended.Loop.Step != last.Step || ended.Loop.Trained == 0 {
		t.Errorf("after the end: %+v; the last version is of step %d; newer: %q", ended.Loop, last.Step, found)
	}
	write(t, dir, "other.yaml", strings.Replace(onlineTrainYAML, "[samples]", "[shown]", 1))
	write(t, dir, "wrong.yaml", strings.NewReplacer("key: id", "keys: id", "ctr.yaml", "other.yaml").Replace(yaml))
	o := run(t, dir, "online", "-config", "wrong.yaml")
	if o.code == 0 || !containsAll(o.stderr, "online: join: ", `did you mean -key`, "online/join.log") || !containsAll(o.stderr, "the training reads shown: make data.train") || strings.Contains(o.stderr, "join: join:") {
		t.Errorf("a wrong flag: %+v", o)
	}
	write(t, dir, "wrong.yaml", "join: {out: x}\ntrian: {}\n")
	if o := run(t, dir, "online", "-config", "wrong.yaml"); o.code == 0 || !strings.Contains(o.stderr, `unknown field "trian"`) {
		t.Errorf("a wrong section: %+v", o)
	}
}

// TestOnlineEndsAtOnce: a second signal ends the loop, although a part does not end, and the status says so.
func TestOnlineEndsAtOnce(t *testing.T) {
	t.Parallel()
	l := startLoop(t)
	server := l.process(2)
	fatal.If(t, syscall.Kill(server, syscall.SIGSTOP))
	fatal.If(t, l.cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "the other parts", func() bool { return strings.Contains(l.said.String(), "online: train has ended") })
	fatal.If(t, l.cmd.Process.Signal(syscall.SIGTERM))
	_ = l.cmd.Wait() // its code is checked
	if code := l.cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) || !strings.Contains(l.said.String(), "wdlrun: online: interrupted by SIGTERM again: the parts are killed") {
		t.Errorf("code %d\n%s", code, l.said)
	}
	for _, x := range l.status().Parts {
		if x.State != "ended" || x.Process != 0 || (x.Error == "killed by a second signal") != (x.Name == "serve") {
			t.Errorf("after the end: %+v", x)
		}
	}
	eventually(t, "the end of the server", func() bool { return syscall.Kill(server, 0) != nil })
}
