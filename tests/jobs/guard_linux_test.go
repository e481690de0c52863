package jobs

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

const guardYAML = `
data: {train: [feed], format: csv, header: true, follow: {on: true, poll: 0.05}}
label: {field: click}
features: [{field: site, encode: hash}, {field: user, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train:
  global_batch: 100
  checkpoint: {every_seconds: 1}
  export: {dir: models/ctr, every_seconds: 0.2, guard: {action: hold, window: 4000, logloss: 0.1, calibration: 0.3, auc_drop: 0.05}}
`

// likes is the probability of a click in the feed of TestGuardStorms.
func likes(site, user int) float64 {
	return 1 / (1 + math.Exp(-(float64(site%10)-4.5)/1.5-(float64(user%7)-3)/3+.8))
}

// feed writes files of clicks until stop is closed. storm names what is wrong with them.
type feed struct {
	dir   string
	storm atomic.Value // string
	stop  chan struct{}
	done  chan struct{}
}

func startFeed(t *testing.T, dir string) *feed {
	f := &feed{dir: dir, stop: make(chan struct{}), done: make(chan struct{})}
	f.storm.Store("")
	fatal.If(t, os.MkdirAll(dir, 0o755))
	go func() {
		defer close(f.done)
		rng := rand.New(rand.NewPCG(4, 0))
		for n := 0; ; n++ {
			select {
			case <-f.stop:
				return
			case <-time.After(60 * time.Millisecond):
			}
			tmp := filepath.Join(dir, ".part")
			err := os.WriteFile(tmp, []byte(records(rng, f.storm.Load().(string))), 0o644)
			if err == nil {
				err = os.Rename(tmp, filepath.Join(dir, fmt.Sprintf("%06d.csv", n)))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return f
}

func records(rng *rand.Rand, storm string) string {
	var b strings.Builder
	b.WriteString("click,site,user\n")
	for range 500 {
		site, user, click := rng.IntN(30), rng.IntN(21), 0
		if rng.Float64() < likes(site, user) {
			click = 1
		}
		switch storm {
		case "flipped labels":
			click = 1 - click
		case "constant column":
			site = 0
		case "no clicks":
			click = 0
		}
		fmt.Fprintf(&b, "%d,s%d,u%d\n", click, site, user)
	}
	return b.String()
}

// answers asks a server for the same pairs until it is stopped, and keeps how good the answers were.
type answers struct {
	mu     sync.Mutex
	count  int
	failed []string
	spread float64 // of the last answer: root of the mean squared difference from the probabilities
	worst  float64 // since good was set
	good   bool
	stop   chan struct{}
	done   chan struct{}
}

func startAnswers(url string) *answers {
	a := &answers{stop: make(chan struct{}), done: make(chan struct{})}
	var instances []string
	var want []float64
	for site := range 30 {
		for user := range 21 {
			instances = append(instances, fmt.Sprintf(`{"site": "s%d", "user": "u%d"}`, site, user))
			want = append(want, likes(site, user))
		}
	}
	body := `{"instances": [` + strings.Join(instances, ",") + `]}`
	go func() {
		defer close(a.done)
		for {
			select {
			case <-a.stop:
				return
			case <-time.After(30 * time.Millisecond):
			}
			a.ask(url, body, want)
		}
	}()
	return a
}

func (a *answers) ask(url, body string, want []float64) {
	var got struct {
		Predictions []struct{ Score float64 }
	}
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err == nil {
		err = json.NewDecoder(resp.Body).Decode(&got)
		resp.Body.Close()
	}
	if err == nil && len(got.Predictions) != len(want) {
		err = fmt.Errorf("%s: %d predictions", resp.Status, len(got.Predictions))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.failed = append(a.failed, err.Error())
		return
	}
	square := 0.
	for i, p := range got.Predictions {
		square += (p.Score - want[i]) * (p.Score - want[i]) / float64(len(want))
	}
	a.count++
	if a.spread = math.Sqrt(square); a.good {
		a.worst = max(a.worst, a.spread)
	}
}

func (a *answers) error() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spread
}

// TestGuardStorms: labels that are flipped, a column that is constant, clicks that stop and a learning rate that is a
// million times too large: no answer of the server is of a bad version, and after each storm of the feed versions are
// published again, without a hand. No request fails.
func TestGuardStorms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "ctr.yaml", guardYAML)
	models, port := filepath.Join(dir, "models", "ctr"), freePort(t)
	f := startFeed(t, filepath.Join(dir, "feed"))
	defer func() { close(f.stop); <-f.done }()
	fatal.If(t, os.Mkdir(filepath.Join(dir, "run"), 0o755))
	trainer := command(t, dir, "train", "-into", "run", "-config", "ctr.yaml")
	said := &notes{}
	trainer.Stderr = said
	fatal.If(t, trainer.Start())
	server := command(t, dir, "serve", "-wait", "-model", "ctr=models/ctr", "-port", "0", "-rest-port", fmt.Sprint(port), "-file_system_poll_wait_seconds", "0.05")
	refused := &notes{}
	server.Stderr = refused
	fatal.If(t, server.Start())
	await := func(what string, is func() bool) {
		t.Helper()
		eventually(t, what, func() bool {
			ended := func(line string) bool {
				return strings.Contains(line, "no version is available: ") && !strings.Contains(line, "; waiting for a version")
			}
			if strings.Contains(said.String(), "\nwdlrun: train") || slices.ContainsFunc(strings.Split(refused.String(), "\n"), ended) {
				t.Fatalf("before %s: %s\n%s", what, said, refused)
			}
			return is()
		})
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/v1/models/ctr:predict", port)
	await("an answer", func() bool { return answered(url) })
	a := startAnswers(url)
	const fine = .06 // error of a good answer
	await("a good model", func() bool { return a.error() > 0 && a.error() < fine })
	a.mu.Lock()
	a.good = true
	a.mu.Unlock()
	if h := held(models); h != "" || strings.Contains(said.String(), "guard") {
		t.Errorf("a training from scratch was held: %s\n%s", h, said)
	}
	for _, storm := range []string{"flipped labels", "constant column", "no clicks"} {
		f.storm.Store(storm)
		await(storm+": a hold", func() bool { return held(models) != "" })
		time.Sleep(3 * time.Second) // many windows: a model without a guard has learned it
		if held(models) == "" {
			t.Errorf("%s: the hold ended during the storm\n%s", storm, said)
		}
		at := newest(t, models)
		f.storm.Store("")
		last := a.error() // of the version before the storm, which is served until the hold ends
		await(storm+": new versions", func() bool { return held(models) == "" && newest(t, models) > at })
		await(storm+": a good model", func() bool { e := a.error(); return e != last && e < fine })
	}
	fatal.If(t, trainer.Process.Signal(syscall.SIGTERM))
	_ = trainer.Wait() // as requested
	diverged := divergence(t, dir, models)
	close(a.stop)
	<-a.done
	fatal.If(t, server.Process.Signal(syscall.SIGTERM))
	_ = server.Wait() // as requested
	if len(a.failed) > 0 || a.count < 100 || a.worst > admitted() {
		t.Errorf("%d answers, the worst error is %.3f, failed %q\n%s\n%s\n%s", a.count, a.worst, a.failed, said, diverged, refused)
	}
	t.Logf("%d answers, the worst error is %.3f", a.count, a.worst)
}

// admitted is the greatest error of a version that the guard's limit of the log-loss admits. That limit is .1 of the
// reference, and four standard errors of two windows of 4,000 samples, whose losses have a deviation of about .45. The
// log-loss above the entropy is at least twice the mean square error (Pinsker's inequality).
func admitted() float64 {
	entropy := 0.
	for site := range 30 {
		for user := range 21 {
			p := likes(site, user)
			entropy -= (p*math.Log(p) + (1-p)*math.Log(1-p)) / (30 * 21)
		}
	}
	return math.Sqrt((.1*entropy + 4*.45*math.Sqrt(2./4000)) / 2)
}

func answered(url string) bool {
	resp, err := http.Post(url, "application/json", strings.NewReader(`{"instances": [{"site": "s1", "user": "u1"}]}`))
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// divergence resumes the training with a rate that is far too large, and returns what it printed.
func divergence(t *testing.T, dir, models string) *notes {
	t.Helper()
	resumed := command(t, dir, "train", "-resume", "run", "-set", "train.optimizer.deep.learning_rate=1e5", "-set", "train.optimizer.dense.learning_rate=1e5", "-set", "train.optimizer.wide.learning_rate=1e5")
	diverged := &notes{}
	resumed.Stderr = diverged
	fatal.If(t, resumed.Start())
	eventually(t, "a hold, or the end", func() bool {
		return held(models) != "" || strings.Contains(diverged.String(), "diverge") || strings.Contains(diverged.String(), "not finite")
	})
	time.Sleep(2 * time.Second)
	_ = resumed.Process.Signal(syscall.SIGTERM)
	_ = resumed.Wait() // it may have ended because it diverges
	return diverged
}

// held returns the hold of a folder of versions.
func held(models string) string {
	b, err := os.ReadFile(filepath.Join(models, "hold.json"))
	if err != nil {
		return ""
	}
	return string(b)
}

// newest returns the highest number of a version.
func newest(t *testing.T, models string) (n int) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(models, "[0-9]*"))
	fatal.If(t, err)
	for _, dir := range all {
		x, err := strconv.Atoi(filepath.Base(dir))
		fatal.If(t, err)
		n = max(n, x)
	}
	return n
}
