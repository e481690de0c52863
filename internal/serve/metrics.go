package serve

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/serve/rows"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// counters are the metrics of a server.
type counters struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // method, code
	seconds  *prometheus.HistogramVec // method
	stages   *prometheus.HistogramVec // stage
	rows     *prometheus.CounterVec   // model
	missing  *prometheus.CounterVec   // model, input
	invalid  *prometheus.CounterVec   // model, input
	undated  *prometheus.CounterVec   // model, input
	ignored  *prometheus.CounterVec   // model
	members  *prometheus.CounterVec   // model
	unknown  *prometheus.CounterVec   // model, feature
	why      *prometheus.CounterVec   // model, feature, why
	loads    *prometheus.CounterVec   // model, result
	loading  *prometheus.HistogramVec // model
	panics   *prometheus.CounterVec   // in

	queue, decode, features, lookup, compute, encode prometheus.Observer // the stages
}

// buckets are bounds from 50 µs to 3 s, about a factor of √2 apart below 20 ms.
var buckets = []float64{
	50e-6, 71e-6, 100e-6, 141e-6, 200e-6, 283e-6, 400e-6, 566e-6, 800e-6, 1.13e-3, 1.6e-3, 2.26e-3, 3.2e-3, 4.5e-3,
	6.4e-3, 9e-3, 12.8e-3, 18e-3, 36e-3, 72e-3, .15, .3, .75, 3,
}

// newCounters returns the metrics. They report the requests that wait at g, and the memory of bodies and of in.
func newCounters(g *gate, bodies *budget, in *inflow) *counters {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wdlrun_serve_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "wdlrun_serve_" + name, Help: help, Buckets: buckets}, labels)
	}
	c := &counters{
		registry: prometheus.NewRegistry(),
		requests: counter("requests_total", "Requests by method and code.", "method", "code"),
		panics:   counter("panics_total", "Panics of requests and of versions being opened or closed. The log has the stack of each place once.", "in"),
		seconds:  histogram("request_seconds", "Time from a decoded frame to the encoded answer, by method.", "method"),
		stages:   histogram("stage_seconds", "Time of one stage of a request: queue, decode, features (inputs to batch), lookup (rows of tables), compute (network) or encode.", "stage"),
		rows:     counter("rows_total", "Rows scored.", "model"),
		missing:  counter("missing_values_total", "Rows that had no value of an input.", "model", "input"),
		invalid:  counter("invalid_values_total", "Numbers that are NaN, infinite or beyond 32 bits and count as missing, once for each feature that uses them.", "model", "input"),
		undated:  counter("undated_values_total", "Values that are no dates in the format of the input and count as missing, once for each feature that uses them.", "model", "input"),
		ignored:  counter("ignored_inputs_total", "Inputs of requests that the model does not have.", "model"),
		members:  counter("ignored_members_total", "Members of the bodies of REST requests that have no meaning.", "model"),
		unknown:  counter("unknown_keys_total", "Keys without a row in the model's tables, by feature.", "model", "feature"),
		why:      counter("unknown_values_total", "Values that the model does not know, by feature and reason: rare (in the training data, but too rarely for the vocabulary), newer (than the model) or other_format (a form that no value of the vocabulary has).", "model", "feature", "why"),
		loads:    counter("loads_total", "Versions that were opened, by result.", "model", "result"),
		loading:  histogram("load_seconds", "Time to open, verify and warm up a version.", "model"),
	}
	for name, stage := range map[string]*prometheus.Observer{"queue": &c.queue, "decode": &c.decode, "features": &c.features, "lookup": &c.lookup, "compute": &c.compute, "encode": &c.encode} {
		*stage = c.stages.WithLabelValues(name)
	}
	c.registry.MustRegister(c.requests, c.seconds, c.stages, c.rows, c.missing, c.invalid, c.undated, c.ignored, c.members, c.unknown, c.why, c.loads, c.loading, c.panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "wdlrun_serve_waiting_requests", Help: "Requests that wait for a thread."},
			func() float64 { return float64(g.waiting.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "wdlrun_serve_body_bytes", Help: "Memory of the bodies of REST requests."},
			func() float64 { return float64(bodies.held.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "wdlrun_serve_message_bytes", Help: "Memory of gRPC messages that have arrived in part."},
			func() float64 { n, _ := in.held(); return float64(n) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "wdlrun_serve_stalled_connections_total", Help: "gRPC connections that were closed because their clients stalled and others needed the memory."},
			func() float64 { _, n := in.held(); return float64(n) }))
	return c
}

// modelCounters are the metrics of one model.
type modelCounters struct {
	rows, ignored                      prometheus.Counter
	missing, invalid, undated, unknown []prometheus.Counter
	why                                []prometheus.Counter // by feature and reason
}

// ofModel returns the metrics of a model with these fields and sparse features.
func (c *counters) ofModel(name string, fields []string, features []encode.SparseColumn) (m modelCounters) {
	m.rows, m.ignored = c.rows.WithLabelValues(name), c.ignored.WithLabelValues(name)
	for _, f := range fields {
		f = strings.ToValidUTF8(f, "\ufffd")
		m.missing = append(m.missing, c.missing.WithLabelValues(name, f))
		m.invalid = append(m.invalid, c.invalid.WithLabelValues(name, f))
		m.undated = append(m.undated, c.undated.WithLabelValues(name, f))
	}
	for _, f := range features {
		of := strings.ToValidUTF8(f.Name, "\ufffd")
		m.unknown = append(m.unknown, c.unknown.WithLabelValues(name, of))
		for reason := range encode.Reasons {
			m.why = append(m.why, c.why.WithLabelValues(name, of, encode.ReasonName(reason)))
		}
	}
	return m
}

// stages are the durations of the parts of a response.
type stages struct{ features, lookup, compute time.Duration }

// computed counts the stages of a response.
func (c *counters) computed(took stages) {
	c.features.Observe(took.features.Seconds())
	c.lookup.Observe(took.lookup.Seconds())
	c.compute.Observe(took.compute.Seconds())
}

// scored counts a batch. unknown has, by feature, the number of keys without a row.
func (m *modelCounters) scored(counts *rows.Counts, unknown []int64) {
	m.rows.Add(float64(counts.Rows))
	m.ignored.Add(float64(counts.Ignored))
	for i, n := range counts.Missing {
		if n > 0 {
			m.missing[i].Add(float64(n))
		}
	}
	for i, n := range counts.Invalid {
		if n > 0 {
			m.invalid[i].Add(float64(n))
		}
	}
	for i, n := range counts.Undated {
		if n > 0 {
			m.undated[i].Add(float64(n))
		}
	}
	for i, n := range unknown {
		if n > 0 {
			m.unknown[i].Add(float64(n))
		}
		total := int64(0)
		for reason, values := range counts.Unknown[encode.Reasons*i:][:encode.Reasons] {
			m.why[encode.Reasons*i+reason].Add(float64(values))
			total += values
		}
		if n > total { // words of the vocabulary, and hashes, without a row
			m.why[encode.Reasons*i+encode.Newer].Add(float64(n - total))
		}
	}
}

// answered counts a request.
func (c *counters) answered(method string, code codes.Code, took time.Duration) {
	c.requests.WithLabelValues(method, code.String()).Inc()
	c.seconds.WithLabelValues(method).Observe(took.Seconds())
}

// changed counts a change of a version.
func (c *counters) changed(e versions.Event) {
	switch {
	case e.State == versions.Available:
		c.loads.WithLabelValues(e.Model, "ok").Inc()
		c.loading.WithLabelValues(e.Model).Observe(e.Took.Seconds())
	case e.State == versions.Ended && e.Err != nil:
		result := "failed"
		if _, is := errors.AsType[*Unlike](e.Err); is {
			result = "refused"
		}
		c.loads.WithLabelValues(e.Model, result).Inc()
	}
}

// page returns the handler of the metrics.
func (c *counters) page() http.Handler {
	return promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{})
}
