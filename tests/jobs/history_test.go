package jobs

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// written writes n run directories without training.
func written(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		run := filepath.Join(dir, fmt.Sprintf("20261123-1400%02d", i))
		config := fmt.Sprintf("model: {kind: %s}\ntrain: {epochs: 5, seed: %d}\n", []string{"wide_deep", "dcn_v2"}[i%2], i)
		files := map[string]string{"config.yaml": config, "run.json": fmt.Sprintf(`{"note":"<b>note %d</b>","tags":["t%d"]}`, i, i%3)}
		for s := range 40 {
			files["metrics.jsonl"] += fmt.Sprintf(`{"event":"train","time":"2026-11-23T14:00:%02dZ","step":%d,"logloss":%g,"samples_per_second":%d}`+"\n", s, 20*s+1, .3+.4/float64(s+1+i), 1000*(i+1)+s)
			if s%10 == 9 {
				files["metrics.jsonl"] += fmt.Sprintf(`{"event":"valid","time":"2026-11-23T14:00:%02dZ","step":%d,"logloss":0.%d,"metrics":{"auc":0.%d,"logloss":0.%d}}`+"\n", s, 20*s+1, 400-s-i, 700+s+i, 400-s-i)
			}
		}
		if i > 0 {
			files["result.json"] = fmt.Sprintf(`{"world_size":2,"steps":781,"seconds":%d,"train_logloss":0.3,"valid":{"auc":0.%d,"logloss":0.3}}`, 10+i, 740+i)
		}
		fatal.If(t, os.MkdirAll(run, 0o755))
		for name, text := range files {
			fatal.If(t, os.WriteFile(filepath.Join(run, name), []byte(text), 0o644))
		}
	}
}

// historyPage starts `wdlrun runs -web` and returns its address.
func historyPage(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := command(t, dir, append([]string{"runs", "-web", "127.0.0.1:0"}, args...)...)
	out, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	fatal.If(t, err)
	cmd.Stderr = out
	fatal.If(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		out.Close()
	})
	address := ""
	eventually(t, "the address", func() bool {
		text, _ := os.ReadFile(out.Name())
		if m := regexp.MustCompile(`page: (http://\S+)`).FindSubmatch(text); m != nil {
			address = string(m[1])
		}
		return address != ""
	})
	return address
}

// TestHistoryPage: the page lists the runs, sorts and filters them, and draws the curves of the
// selected ones.
func TestHistoryPage(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	b := browse(t)
	dir := t.TempDir()
	written(t, filepath.Join(dir, "runs"), 9)
	page := historyPage(t, dir)
	b.open(page)
	names := func() string {
		return b.eval("[...document.querySelectorAll('#runs tbody tr td:nth-child(2)')].map(e => e.textContent.slice(-1)).join('')")
	}
	eventually(t, "the runs, latest first", func() bool { return names() == "876543210" })
	if text := b.text("#runs tbody"); !strings.Contains(text, "<b>note 3</b>") || !strings.Contains(text, "killed") || !strings.Contains(text, "dcn_v2") {
		t.Errorf("the table is %q", text)
	}
	b.eval("[...document.querySelectorAll('#runs th button')].find(e => e.title === 'logloss').click()")
	b.eval("[...document.querySelectorAll('#runs th button')].find(e => e.title === 'auc').click()")
	b.eval("(w => { w.value = 'model.kind=dcn_v2 auc>.741'; w.dispatchEvent(new Event('input')) })(document.querySelector('#where'))")
	eventually(t, "the best of one kind", func() bool { return names() == "753" })
	b.eval("(w => { w.value = ''; w.dispatchEvent(new Event('input')) })(document.querySelector('#where'))")
	eventually(t, "the best run first", func() bool { return strings.HasPrefix(names(), "8765") })
	for range 3 {
		b.eval("document.querySelector('#runs tbody input:not(:checked)').click()")
	}
	eventually(t, "three curves", func() bool { return b.eval("document.querySelectorAll('#auc path').length") == "3" })
	if text := b.text("#settings"); !strings.Contains(text, "train.seed") || strings.Contains(text, "train.epochs") {
		t.Errorf("the settings of the selected runs are %q", text)
	}
	b.shoot("history.png", 1300, false)
	b.shoot("history-dark.png", 1300, true)
	b.shoot("history-phone.png", 390, false)
	b.resize(1280, false)
	wide := b.eval("(() => { table.rows.forEach(r => { for (let i = 0; i < 12; i++) r.settings.push('value ' + i) }); for (let i = 0; i < 12; i++) table.differ.push('train.optimizer.deep.long_name_' + i); rows(); const e = document.querySelector('#runs').parentElement; return e.scrollWidth - e.clientWidth + ' ' + document.querySelector('#runs thead').textContent })()")
	if !strings.HasPrefix(wide, "0 ") || !strings.Contains(wide, "more settings differ") || !strings.Contains(wide, "auc") {
		t.Errorf("pixels beyond 1280, and the columns: %q", wide)
	}
	b.eval("(w => { w.value = 'model.knd=x'; w.dispatchEvent(new Event('input')) })(document.querySelector('#where'))")
	eventually(t, "what is wrong with the condition", func() bool { return strings.Contains(b.text("#state"), "did you mean model.kind?") })
	b.mu.Lock()
	b.console = nil // the browser logs the rejected condition
	b.mu.Unlock()
	b.clean(page)
}

// TestWhoMayReadTheHistory: with -web-token a request needs the token. Without it, requests for
// another host name are rejected.
func TestWhoMayReadTheHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	written(t, filepath.Join(dir, "runs"), 1)
	fatal.If(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("0123456789abcdef0123"), 0o600))
	for _, c := range []struct {
		args        []string
		path, host  string
		code        int
		body, field string
	}{
		{nil, "/list", "", 200, `"found":1`, ""},
		{nil, "/list", "evil.example", 403, "only to this machine", ""},
		{[]string{"-web-token", "secret"}, "/curves?run=20261123-140000", "", 401, "token", ""},
		{[]string{"-web-token", "secret"}, "/curves?run=20261123-140000", "", 200, `"name":"20261123-140000"`, "Bearer 0123456789abcdef0123"},
		{nil, "/curves?run=../runs/20261123-140000", "", 200, `"runs":[]`, ""},
	} {
		url := strings.TrimSuffix(historyPage(t, dir, c.args...), "/")
		r, err := http.NewRequest("GET", url+c.path, nil)
		fatal.If(t, err)
		if c.host != "" {
			r.Host = c.host
		}
		r.Header.Set("Authorization", c.field)
		resp, err := http.DefaultClient.Do(r)
		fatal.If(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.code || !strings.Contains(string(body), c.body) || resp.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%v %s: %d, %v\n%.300s", c.args, c.path, resp.StatusCode, err, body)
		}
	}
}
