package history

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/live"
)

// Limits of a response.
const (
	maxRows   = 2000
	maxDiffer = 20   // settings of the table
	maxCurves = 12   // runs of one response
	maxPoints = 1000 // of a curve
	maxFaults = 5    // of a run
	longest   = 300  // characters of a text
	fresh     = time.Second
)

//go:embed page
var files embed.FS

// Server answers requests about the runs of a folder. Its methods are safe for concurrent
// use.
type Server struct {
	dir      string
	progress func(done, of int) // of a listing

	mu    sync.Mutex
	all   []*runs.Summary
	until time.Time // time until which all is valid
}

// Serve serves the page on a listener until ctx ends. token protects it; "" is for
// loopback addresses. progress is called during a listing, see runs.List.
func Serve(ctx context.Context, ln net.Listener, dir, token string, progress func(done, of int)) error {
	s := &Server{dir: dir, progress: progress}
	go s.now() // for the first request, and the index; errors are reported by the request
	server := live.NewServer(ctx, live.Guarded(token, s.handler()))
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(ln); ctx.Err() == nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	live.Common(mux)
	mux.HandleFunc("GET /{$}", live.File(files, "page/runs.html"))
	mux.HandleFunc("GET /runs.js", live.File(files, "page/runs.js"))
	mux.HandleFunc("GET /runs.css", live.File(files, "page/runs.css"))
	mux.HandleFunc("GET /list", s.list)
	mux.HandleFunc("GET /curves", s.curves)
	return mux
}

// now returns the runs. It lists them at most once a second and for at most a tenth of the
// time.
func (s *Server) now() ([]*runs.Summary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	if began.Before(s.until) {
		return s.all, nil
	}
	all, err := runs.List(s.dir, s.progress)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	s.all, s.until = all, time.Now().Add(max(fresh, 9*took))
	return all, nil
}

// table is the response to /list.
type table struct {
	Dir     string   `json:"dir"`
	Found   int      `json:"found"`
	Met     int      `json:"met"` // runs that meet the conditions
	Metrics []string `json:"metrics"`
	Differ  []string `json:"differ"` // settings
	More    int      `json:"more"`   // settings that differ too
	Rows    []row    `json:"rows"`
}

// row is a run.
type row struct {
	Name     string             `json:"name"`
	State    runs.State         `json:"state"`
	Began    *time.Time         `json:"began"`
	On       string             `json:"on"`              // test or valid
	Group    int                `json:"group,omitempty"` // metrics of one group can be compared; 0: no evaluation
	Rejected string             `json:"rejected,omitempty"`
	Note     string             `json:"note,omitempty"`
	Tags     []string           `json:"tags,omitempty"`
	Metrics  map[string]float64 `json:"metrics"`
	Settings []string           `json:"settings"`
	Faults   []string           `json:"faults,omitempty"`
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	all, err := s.now()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	q := r.URL.Query()
	some, err := runs.Select(slices.Clone(all), q.Get("where"), cmp.Or(q.Get("sort"), "name"), q.Get("reverse") != "")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t := table{Dir: s.dir, Found: len(all), Met: len(some), Metrics: []string{}, Rows: []row{}, Differ: runs.Differing(some)}
	n := min(len(t.Differ), maxDiffer)
	t.Differ, t.More = append([]string{}, t.Differ[:n]...), len(t.Differ)-n
	for _, name := range runs.Names() {
		if slices.ContainsFunc(some, func(r *runs.Summary) bool { _, has := r.Numbers[name]; return has }) {
			t.Metrics = append(t.Metrics, name)
		}
	}
	most, err := strconv.Atoi(q.Get("most"))
	if err != nil || most < 1 {
		most = 100
	}
	group, _ := runs.Groups(some)
	for i, r := range some[:min(len(some), most, maxRows)] {
		x := newRow(r, t.Differ)
		x.Group, x.Rejected = group[i]+1, short(r.Rejected)
		t.Rows = append(t.Rows, x)
	}
	answer(w, t)
}

func newRow(r *runs.Summary, differ []string) row {
	x := row{Name: r.Name, State: r.State, On: r.EvaluatedOn, Note: short(r.About.Note), Metrics: r.Numbers, Settings: []string{}}
	if !r.Began.IsZero() {
		x.Began = &r.Began
	}
	for _, tag := range r.About.Tags[:min(len(r.About.Tags), 32)] {
		x.Tags = append(x.Tags, short(tag))
	}
	for _, key := range differ {
		x.Settings = append(x.Settings, short(r.Config.Of(key)))
	}
	for _, f := range r.Faults[:min(len(r.Faults), maxFaults)] {
		x.Faults = append(x.Faults, short(f))
	}
	return x
}

func short(text string) string {
	n := 0
	for i := range text {
		if n++; n > longest {
			return text[:i] + "…"
		}
	}
	return text
}

// selection is the response to /curves.
type selection struct {
	Runs   []curves   `json:"runs"`
	Differ []string   `json:"differ"`
	Values [][]string `json:"values"` // of each setting, by run
}

// curves are the curves of a run. A point is the step and the value, null if it is not a
// number.
type curves struct {
	Name  string  `json:"name"`
	Train []point `json:"train"` // loss
	Speed []point `json:"speed"`
	Loss  []point `json:"loss"` // of evaluations of validation data, or else of test data
	AUC   []point `json:"auc"`
}

type point [2]*float64

func (s *Server) curves(w http.ResponseWriter, r *http.Request) {
	all, err := s.now()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answered, some := selection{Runs: []curves{}, Differ: []string{}, Values: [][]string{}}, []*runs.Summary{}
	for _, name := range r.URL.Query()["run"] {
		i := slices.IndexFunc(all, func(r *runs.Summary) bool { return r.Name == name })
		if i < 0 {
			continue // removed meanwhile
		}
		if len(some) == maxCurves {
			http.Error(w, fmt.Sprintf("curves of at most %d runs are shown at once", maxCurves), http.StatusBadRequest)
			return
		}
		if run, err := runs.Read(all[i].Dir); err == nil {
			some = append(some, &run.Summary)
			answered.Runs = append(answered.Runs, newCurves(run))
		}
	}
	differ := runs.Differing(some)
	for _, key := range differ[:min(len(differ), 4*maxDiffer)] {
		var values []string
		for _, r := range some {
			values = append(values, short(r.Config.Of(key)))
		}
		answered.Differ, answered.Values = append(answered.Differ, key), append(answered.Values, values)
	}
	answer(w, answered)
}

func newCurves(r *runs.Run) curves {
	c := curves{Name: r.Name}
	of := func(points []runs.Point, value func(runs.Point) float64) []point {
		series := runs.Series[point]{Most: maxPoints}
		for _, p := range points {
			step := float64(p.Step)
			at := point{&step}
			if x := value(p); !math.IsNaN(x) && !math.IsInf(x, 0) {
				at[1] = &x
			}
			series.Add(at)
		}
		return append([]point{}, series.Points()...)
	}
	evaluated := r.Valid
	if len(evaluated) == 0 {
		evaluated = r.Test
	}
	loss := func(p runs.Point) float64 { return p.LogLoss }
	c.Train, c.Loss = of(r.Train, loss), of(evaluated, loss)
	speeds := r.Speeds()
	c.Speed = of(r.Train, func(p runs.Point) float64 { x := speeds[0]; speeds = speeds[1:]; return x })
	c.AUC = of(evaluated, func(p runs.Point) float64 {
		if p.Metrics == nil {
			return math.NaN()
		}
		return runs.Value(p.Metrics.AUC)
	})
	return c
}

func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(b)
}
