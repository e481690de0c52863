package serve

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// firstAnswers holds the newest version of each model that has answered a request.
type firstAnswers struct {
	mu     sync.Mutex
	models map[string]firstAnswer
}

type firstAnswer struct {
	version int64
	since   time.Time // when it became available
	after   time.Duration
}

// note records the first answer of a version. A request that names no version gets the newest one.
func (f *firstAnswers) note(spec *tfs.ModelSpec, a firstAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.models == nil {
		f.models = map[string]firstAnswer{}
	}
	known := f.models[spec.Name]
	if named := spec.HasVersion || spec.Label != ""; a.since.After(known.since) && (!named || a.version > known.version) {
		f.models[spec.Name] = a
	}
}

func (f *firstAnswers) of(model string) (a firstAnswer, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok = f.models[model]
	return a, ok
}

// versionGauges reports the latest version of each model.
type versionGauges struct {
	registry *versions.Registry[*servable]
	firsts   *firstAnswers
	panics   *panics
}

var (
	versionDesc = prometheus.NewDesc("wdlrun_serve_version", "Latest version that is available.", []string{"model"}, nil)
	lagDesc     = prometheus.NewDesc("wdlrun_serve_delta_lag_seconds", "Time since the training had done the step of that version, if the training published it.", []string{"model"}, nil)
	ageDesc     = prometheus.NewDesc("wdlrun_serve_version_age_seconds", "Time since that version became available.", []string{"model"}, nil)

	answeredDesc = prometheus.NewDesc("wdlrun_serve_answered_version", "Newest version that has answered a request.", []string{"model"}, nil)
	firstDesc    = prometheus.NewDesc("wdlrun_serve_first_answer_seconds", "Time from the moment that version became available to its first answer.", []string{"model"}, nil)
)

func (g *versionGauges) Describe(to chan<- *prometheus.Desc) {
	to <- versionDesc
	to <- ageDesc
	to <- lagDesc
	to <- answeredDesc
	to <- firstDesc
}

// Collect runs in a goroutine of the metrics page.
func (g *versionGauges) Collect(to chan<- prometheus.Metric) {
	for _, name := range g.registry.Models() {
		_ = g.panics.rescue("metrics", func() error {
			g.collect(name, to)
			return nil
		})
	}
}

func (g *versionGauges) collect(name string, to chan<- prometheus.Metric) {
	if a, ok := g.firsts.of(name); ok {
		to <- prometheus.MustNewConstMetric(answeredDesc, prometheus.GaugeValue, float64(a.version), name)
		to <- prometheus.MustNewConstMetric(firstDesc, prometheus.GaugeValue, a.after.Seconds(), name)
	}
	if v, err := g.registry.Acquire(versions.Want{Model: name}); err == nil {
		defer v.Release()
		to <- prometheus.MustNewConstMetric(versionDesc, prometheus.GaugeValue, float64(v.Number), name)
		to <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, time.Since(v.Since).Seconds(), name)
		if m, ok := v.Model.Model.(published); ok && !m.Taken().IsZero() {
			to <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, time.Since(m.Taken()).Seconds(), name)
		}
	}
}
