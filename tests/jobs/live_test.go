package jobs

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// watched starts a training of two ranks, one of them slow, that serves its live page and its
// metrics. It returns their addresses.
func watched(t *testing.T, args ...string) (cmd *exec.Cmd, out *os.File, page, metrics string) {
	t.Helper()
	dir := t.TempDir()
	args = append([]string{"-np", "2", "train", "-web", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-chaos", "slow:20x@1", "-set", "train.global_batch=1024"}, args...)
	cmd = command(t, dir, args...)
	out, err := os.Create(filepath.Join(dir, "stderr"))
	fatal.If(t, err)
	t.Cleanup(func() { out.Close() })
	cmd.Stderr = out
	fatal.If(t, cmd.Start())
	address := regexp.MustCompile(`(live page|metrics): (http://\S+)`)
	eventually(t, "the addresses", func() bool {
		text, _ := os.ReadFile(out.Name())
		for _, m := range address.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "metrics" {
				metrics = m[2]
			} else {
				page = m[2]
			}
		}
		return page != "" && metrics != ""
	})
	return cmd, out, page, metrics
}

// TestLivePage: the page shows the steps of a real training, keeps its contents after the job
// ends, and sends no request to other hosts.
func TestLivePage(t *testing.T) {
	t.Parallel()
	b := browse(t)
	cmd, _, page, _ := watched(t, "-set", "train.epochs=1000")
	b.open(page)
	step := func() int {
		n, _ := strconv.Atoi(regexp.MustCompile(`\D`).ReplaceAllString(b.eval("data.status.step || 0"), ""))
		return n
	}
	eventually(t, "a first step on the page", func() bool { return step() > 0 })
	first := step()
	eventually(t, "a later step on the page", func() bool { return step() > first })
	eventually(t, "the times of two ranks", func() bool {
		return strings.Count(b.text("#ranks tbody"), "compute") > 0 && strings.Contains(b.text("#ranks tbody"), "\n1")
	})
	if text := b.text("#tables tbody"); !strings.Contains(text, "education") {
		t.Errorf("the tables are %q", text)
	}
	eventually(t, "the slow rank", func() bool { return strings.Contains(b.text("#slow"), "rank 1") })
	b.shoot("live.png", 1200, false)
	if text := b.eval("(data.ranks.slow = [], ranks(), document.querySelector('#slow').textContent)"); !regexp.MustCompile(`^no rank stands out now; until \d\d:\d\d:\d\d, rank 1 on host \S+ was [0-9.]+× slower in compute than`).MatchString(text) {
		t.Errorf("the verdict on slow ranks is %q", text)
	}
	b.resize(390, true)
	eventually(t, "the time of each rank on a phone", func() bool {
		return b.eval("document.querySelectorAll('#ranks .parts').length + ' ' + [...document.querySelectorAll('#ranks .parts')].every(e => e.getBoundingClientRect().right <= innerWidth) + ' ' + (document.documentElement.scrollWidth <= innerWidth)") == "2 true true"
	})
	eventually(t, "an epoch in the log", func() bool { return strings.Contains(b.text("#log"), "epoch 1 of 1000") })
	fatal.If(t, cmd.Process.Signal(syscall.SIGTERM))
	cmd.Wait()
	eventually(t, "the end on the page", func() bool { return strings.Contains(b.text("#state"), "ended: stopped after step") })
	if n := b.eval("document.querySelectorAll('#loss path').length"); n != "2" || !strings.Contains(b.text("#log"), "epoch 1 of 1000") {
		t.Errorf("after the end: %s curves of the loss, log %q", n, b.text("#log"))
	}
	b.shoot("live-end-dark.png", 1200, true)
	b.shoot("live-phone.png", 390, false)
	b.clean(page)
}

// TestPrometheusScrapesATraining: Prometheus scrapes the metrics and answers a query about them.
func TestPrometheusScrapesATraining(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	prometheus, err := exec.LookPath("prometheus")
	if err != nil || testing.Short() {
		t.Skip("needs Debian's prometheus")
	}
	cmd, _, _, metrics := watched(t, "-set", "train.epochs=1000")
	dir := t.TempDir()
	target := strings.TrimSuffix(strings.TrimPrefix(metrics, "http://"), "/metrics")
	config := "scrape_configs:\n- job_name: wdlrun\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n  static_configs:\n  - targets: ['" + target + "']\n"
	fatal.If(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	at := ln.Addr().String()
	ln.Close()
	server := exec.CommandContext(t.Context(), prometheus, "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+at)
	fatal.If(t, server.Start())
	query := "http://" + at + "/api/v1/query?query=sum%20by%20(rank)%20(wdlrun_phase_seconds_total{phase=%22compute%22})"
	answer := ""
	eventually(t, "an answer of Prometheus", func() bool {
		resp, err := http.Get(query)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		answer = string(b)
		return strings.Contains(answer, `"rank":"0"`) && strings.Contains(answer, `"rank":"1"`)
	})
	if !strings.Contains(answer, `"status":"success"`) {
		t.Errorf("Prometheus answers %s", answer)
	}
	for _, p := range []*exec.Cmd{server, cmd} {
		p.Process.Signal(syscall.SIGTERM)
		p.Wait()
	}
}

// TestLiveFlags: invalid flags are rejected. If the port is in use, the training continues
// without the page.
func TestLiveFlags(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	fatal.If(t, os.WriteFile(short, []byte("abc\n"), 0o600))
	for _, c := range []struct{ args, says string }{
		{"-web 0.0.0.0:6060", "give -web-token FILE"},
		{"-web 6060", "give HOST:PORT"},
		{"-metrics nowhere", "give HOST:PORT"},
		{"-web-token x", "give -web ADDRESS too"},
		{"-web 127.0.0.1:0 -web-token " + short, "fewer than 16 bytes"},
	} {
		if o := run(t, dir, append([]string{"train"}, strings.Fields(c.args)...)...); o.code != 1 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: exit code %d, no %q in\n%s", c.args, o.code, c.says, o.stderr)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer ln.Close()
	o := run(t, dir, append([]string{"train", "-web", ln.Addr().String()}, few(t)...)...)
	if o.code != 0 || !strings.Contains(o.stderr, "live page not served, and training continues") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
}

// TestEventFiles: a training writes the events of each series and rank. report -tensorboard
// writes the same events afterwards.
func TestEventFiles(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	o := run(t, dir, append([]string{"-np", "2", "train", "-tensorboard", "-set", "data.valid_fraction=0.2"}, few(t)...)...)
	if o.code != 0 || !strings.Contains(o.stdout, "tensorboard --logdir runs/") {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	during := summaries(t, filepath.Join(dir, "runs", "2*", "tb"))
	found, err := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	if o = run(t, dir, "report", "-tensorboard", "after", found[0]); o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	after := summaries(t, filepath.Join(dir, "after", "*"))
	for _, folder := range []string{"train", "valid", "test", "progress", "rank-0", "rank-1"} {
		if len(during[folder]) == 0 || !maps.Equal(during[folder], after[folder]) {
			t.Errorf("%s: the %d events of the training differ from the %d events of report", folder, len(during[folder]), len(after[folder]))
		}
	}
}

// summaries returns the events with a summary from the files under a folder.
func summaries(t *testing.T, folder string) map[string]map[string]bool {
	t.Helper()
	var paths []string
	for _, below := range []string{"*", "model/*"} {
		found, err := filepath.Glob(filepath.Join(folder, below, "events.out.tfevents.*"))
		fatal.If(t, err)
		paths = append(paths, found...)
	}
	all := map[string]map[string]bool{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		fatal.If(t, err)
		series := map[string]bool{}
		for len(b) > 0 {
			n := 16 + binary.LittleEndian.Uint64(b)
			// An event consists of a time, a step of at most two bytes, and the summary, which
			// is field 5 of wire type 2.
			if event := string(b[12 : n-4]); len(event) > 12 && (event[11] == 5<<3|2 || event[12] == 5<<3|2) {
				series[event] = true
			}
			b = b[n:]
		}
		all[filepath.Base(filepath.Dir(path))] = series
	}
	return all
}

// TestLogRecords: every line of stderr is a record, even after a failure. Each rank writes its
// records to the run directory.
func TestLogRecords(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	levels := func(text string) map[string]int {
		n := map[string]int{}
		for line := range strings.Lines(text) {
			var r struct{ Time, Level, Msg string }
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Time == "" || r.Msg == "" {
				t.Errorf("%v in %q", err, line)
			}
			n[r.Level]++
		}
		return n
	}
	o := run(t, dir, "-np", "2", "train", "-log-format", "json", "-chaos", "kill:1@step100", "-set", "train.epochs=2")
	if n := levels(o.stderr); o.code == 0 || n["INFO"] == 0 || n["WARN"] < 2 || !strings.Contains(o.stderr, `"rank":0,"host":"`) || !strings.Contains(o.stderr, "to resume from the last checkpoint") && !strings.Contains(o.stderr, "no checkpoint yet") {
		t.Errorf("exit code %d, %v\n%s", o.code, n, o.stderr)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, "runs", "2*", "log-0000.jsonl"))
	if len(kept) != 1 {
		t.Fatalf("files of log records: %q", kept)
	}
	if b, err := os.ReadFile(kept[0]); err != nil || !strings.Contains(string(b), "learning rates") || levels(string(b))["INFO"] == 0 {
		t.Errorf("the log file of rank 0: %v, %s", err, b)
	}
	o = run(t, dir, append([]string{"train", "-log-level", "warn"}, few(t)...)...)
	if o.code != 0 || strings.Contains(o.stderr, "epoch 1 of") { // a line of progress may contain the epoch
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
	for _, bad := range []string{"-log-format=xml", "-log-level=loud"} {
		if o := run(t, dir, "train", bad); o.code != 1 || !strings.Contains(o.stderr, "give ") {
			t.Errorf("%s: exit code %d\n%s", bad, o.code, o.stderr)
		}
	}
}
