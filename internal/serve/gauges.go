package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// versionGauges reports the latest version of each model.
type versionGauges struct {
	registry *versions.Registry[*servable]
	panics   *panics
}

var (
	versionDesc = prometheus.NewDesc("wdlrun_serve_version", "Latest version that is available.", []string{"model"}, nil)
	lagDesc     = prometheus.NewDesc("wdlrun_serve_delta_lag_seconds", "Time since the training had done the step of that version, if the training published it.", []string{"model"}, nil)
	ageDesc     = prometheus.NewDesc("wdlrun_serve_version_age_seconds", "Time since that version became available.", []string{"model"}, nil)
)

func (g *versionGauges) Describe(to chan<- *prometheus.Desc) {
	to <- versionDesc
	to <- ageDesc
	to <- lagDesc
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
	if v, err := g.registry.Acquire(versions.Want{Model: name}); err == nil {
		defer v.Release()
		to <- prometheus.MustNewConstMetric(versionDesc, prometheus.GaugeValue, float64(v.Number), name)
		to <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, time.Since(v.Since).Seconds(), name)
		if m, ok := v.Model.Model.(published); ok && !m.Taken().IsZero() {
			to <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, time.Since(m.Taken()).Seconds(), name)
		}
	}
}
