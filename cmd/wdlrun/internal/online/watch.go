package online

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/join"
)

const lookEvery = 500 * time.Millisecond

// loopState is what the parts of an online loop report.
type loopState struct {
	Samples  int64            `json:"samples"`
	Open     int              `json:"open"`
	Rejected int64            `json:"rejected"`
	BadFiles int64            `json:"bad_files,omitempty"` // of the rejected ones
	Step     int64            `json:"step"`
	Trained  int64            `json:"trained"` // samples
	Version  int64            `json:"version"` // newest that was published
	Served   int64            `json:"served"`
	Pins     map[string]int64 `json:"pins,omitempty"`
	Hold     string           `json:"hold,omitempty"`
	Failed   *failedVersion   `json:"failed,omitempty"`
	Versions []export.Listed  `json:"versions,omitempty"` // the newest first
	Sources  []join.Source    `json:"sources,omitempty"`  // of the join
}

// failedVersion is the newest version that the server cannot load or refuses, while it is newer than the one that is served.
type failedVersion struct {
	Version int64  `json:"version"`
	Error   string `json:"error"`
}

// shownVersions is the number of versions in the state.
const shownVersions = 20

// loopWatch reads what the parts of an online loop write: the status of the join, the log of the training,
// the folder of versions, and the state of the model in the server. What cannot be read now is read at
// the next look.
type loopWatch struct {
	dir, joined, metrics, versions string
	metricsAt, tokenFile, model    string    // of the server; the address is a URL
	statusAt                       string    // URL of the model's status; "": the server has none
	apart                          []string  // parts that do not read what the part before writes
	read                           int64     // of metrics
	logged                         time.Time // time of the last step in metrics
	state                          loopState
	fresh                          freshness
	answered                       *answered // nil: no version
	client                         http.Client
}

func newLoopWatch(c onlineConfig, run string) *loopWatch {
	out := valueOf(c.Join, "out", "")
	w := &loopWatch{dir: c.Dir, joined: filepath.Join(valueOf(c.Join, "state", join.StateOf(out)), join.StatusFile), metrics: filepath.Join(run, rundir.FileMetrics)}
	w.client.Timeout = lookEvery
	models := valuesOf(c.Serve, "model")
	if len(models) > 0 {
		w.model, _, _ = strings.Cut(models[0], "=")
	}
	if t, err := trainConfig(c.Train); err == nil { // otherwise the training reports it
		w.versions = t.Train.Export.Dir
		w.model = cmp.Or(modelOf("", models, w.versions), w.model)
		w.apart = apart("", t, out, models)
	}
	if s, err := w.joinStatus(); err == nil {
		w.fresh.before = s.Samples
	}
	rest, metrics := addressesOf(c.Serve)
	w.metricsAt, w.tokenFile = "http://"+metrics+"/metrics", valueOf(c.Serve, "admin-token-file", "")
	if !strings.HasSuffix(rest, ":0") {
		w.statusAt = "http://" + rest + "/v1/models/" + url.PathEscape(w.model)
	}
	return w
}

// addressesOf returns the addresses at which a server with these flags answers REST requests and has its metrics.
func addressesOf(serve yaml.MapSlice) (rest, metrics string) {
	join := func(host, port string) string {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		return net.JoinHostPort(host, port)
	}
	rest = join(valueOf(serve, "host", "127.0.0.1"), valueOf(serve, "rest-port", valueOf(serve, "rest_api_port", "8501")))
	if host, port, err := net.SplitHostPort(valueOf(serve, "admin", "")); err == nil {
		return rest, join(host, port)
	}
	return rest, rest
}

// rejected describes the records and files that the join rejects; "" if there are none.
func (w *loopWatch) rejected() string {
	n, files := w.state.Rejected, w.state.BadFiles
	if n == 0 {
		return ""
	}
	text := plural.Of(int(n-files), "record")
	if files > 0 {
		text += " and " + plural.Of(int(files), "whole file")
	}
	return fmt.Sprintf("%s rejected: see %s", text, filepath.Join(filepath.Dir(w.joined), "rejected"))
}

// update reads what is new.
func (w *loopWatch) update(ctx context.Context) {
	if s, err := w.joinStatus(); err == nil {
		w.state.Samples, w.state.Open, w.state.Rejected, w.state.Sources = s.Samples, s.Open, s.Rejected(), s.Sources
		w.state.BadFiles = s.BadFiles
		if s.Newest != nil {
			w.fresh.join(joinedAt{s.Samples, *s.Newest, s.Time})
		}
	}
	w.readMetrics()
	w.readResult()
	page, err := w.get(ctx, w.metricsAt)
	now := time.Now()
	versions := w.list() // after it, so that it has the version
	w.advance(versions)
	if err != nil {
		return
	}
	if served, since, err := w.serving(page, now); err == nil {
		w.state.Served = served
		w.fresh.load(w.published(served, versions), since)
	}
	if status, err := w.get(ctx, w.statusAt); w.statusAt != "" && err == nil {
		w.state.Failed = failedOf(status, w.state.Served, versions)
	}
}

// failedOf returns the newest version that a server cannot load, by the status of the model. A version that is gone, or
// older than the one that is served, does not count.
func failedOf(status []byte, served int64, versions []export.Listed) *failedVersion {
	var x struct {
		All []struct {
			Version int64 `json:"version,string"`
			Status  struct {
				Message string `json:"error_message"`
			}
		} `json:"model_version_status"`
	}
	if json.Unmarshal(status, &x) != nil {
		return nil
	}
	var failed *failedVersion
	for _, v := range x.All {
		there := slices.ContainsFunc(versions, func(l export.Listed) bool { return l.Version == v.Version })
		if v.Status.Message != "" && there && v.Version > served && (failed == nil || v.Version > failed.Version) {
			failed = &failedVersion{v.Version, command.Clean(v.Status.Message, longestFault)}
		}
	}
	return failed
}

// advance sets the step to that of the newest version, if the log of the training has no later line.
func (w *loopWatch) advance(versions []export.Listed) {
	for _, v := range slices.Backward(versions) {
		if v.Rollback != nil {
			continue
		}
		if !w.logged.IsZero() && time.Unix(0, v.Taken).After(w.logged) && v.Step > w.state.Step {
			w.state.Step, w.state.Trained = v.Step, max(w.state.Trained, w.fresh.samplesAt(v.Step))
		}
		return
	}
}

// joinStatus reads the status of the join.
func (w *loopWatch) joinStatus() (s join.Status, err error) {
	const most = 1 << 20
	b, err := regular.ReadFile(w.joined, most)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// readMetrics reads the lines that the training has appended.
func (w *loopWatch) readMetrics() {
	f, err := regular.Open(w.metrics)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	if info.Size() < w.read {
		w.read = 0 // a resumed training has removed lines
	}
	r := bufio.NewReader(io.NewSectionReader(f, w.read, info.Size()-w.read))
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		w.read += int64(len(line))
		var x struct {
			Event         string
			Time          time.Time
			Step, Samples int64
		}
		if json.Unmarshal(line, &x) == nil && x.Event == "train" {
			w.fresh.train(trainedAt{x.Step, x.Samples})
			w.state.Step, w.state.Trained, w.logged = x.Step, x.Samples, x.Time
		}
	}
}

// readResult reads the last step of a training that has ended, which its log may lack.
func (w *loopWatch) readResult() {
	const most = 64 << 20
	var x struct{ Steps, Samples int64 }
	b, err := regular.ReadFile(filepath.Join(filepath.Dir(w.metrics), rundir.FileResult), most)
	if err == nil && json.Unmarshal(b, &x) == nil && x.Steps > w.state.Step {
		w.state.Step, w.state.Trained = x.Steps, x.Samples
	}
}

// list reads the folder of versions.
func (w *loopWatch) list() []export.Listed {
	if w.versions == "" {
		return nil
	}
	l, err := export.List(w.versions, false)
	if err != nil {
		return nil
	}
	w.state.Pins, w.state.Hold = l.Pins, ""
	if l.Hold != nil {
		w.state.Hold = l.Hold.String()
	}
	w.state.Versions = slices.Clone(l.Versions[max(0, len(l.Versions)-shownVersions):])
	slices.Reverse(w.state.Versions)
	if len(l.Versions) > 0 {
		w.state.Version = w.state.Versions[0].Version
	}
	return l.Versions
}

// published returns what the folder says about a version: only its number if it says nothing.
func (w *loopWatch) published(number int64, versions []export.Listed) publishedAt {
	for _, x := range versions {
		if x.Version != number || x.Taken == 0 {
			continue
		}
		if info, err := os.Stat(filepath.Join(w.versions, strconv.FormatInt(number, 10))); err == nil {
			return publishedAt{number, x.Step, time.Unix(0, x.Taken), info.ModTime(), x.Rollback}
		}
	}
	return publishedAt{number: number}
}

// serving reads metrics: the newest version that the server answers with, when it became available, and which
// version has answered.
func (w *loopWatch) serving(page []byte, now time.Time) (version int64, since time.Time, err error) {
	suffix := fmt.Appendf(nil, "{model=%q} ", w.model)
	values := map[string]float64{}
	for line := range bytes.Lines(page) {
		name, value, ok := bytes.Cut(line, suffix)
		if !ok {
			continue
		}
		if values[string(name)], err = strconv.ParseFloat(string(bytes.TrimSpace(value)), 64); err != nil {
			return 0, since, err
		}
	}
	if n, ok := values["wdlrun_serve_answered_version"]; ok {
		w.answered = &answered{int64(n), values["wdlrun_serve_first_answer_seconds"]}
	}
	age := time.Duration(values["wdlrun_serve_version_age_seconds"] * float64(time.Second))
	return int64(values["wdlrun_serve_version"]), now.Add(-age), nil
}

// get returns what the server has at a URL.
func (w *loopWatch) get(ctx context.Context, at string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if w.tokenFile != "" && at == w.metricsAt {
		const most = 4 << 10
		token, err := regular.ReadFile(w.tokenFile, most)
		if err != nil {
			return nil, err
		}
		q.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	}
	a, err := w.client.Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", at, a.Status)
	}
	const most = 16 << 20
	return io.ReadAll(io.LimitReader(a.Body, most))
}

func (f *failedVersion) line() string {
	return fmt.Sprintf("version %d cannot be served: %s", f.Version, f.Error)
}

// longestFault limits the error of a part or a version.
const longestFault = 300
