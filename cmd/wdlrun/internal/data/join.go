package data

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/runs/live"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/join"
)

func JoinCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "join",
		Usage:     "make samples of impressions and the feedback about them, as they arrive",
		UsageText: "wdlrun join -impressions DIR -feedback DIR -out DIR -key FIELD [flags]",
		Description: `An impression and its feedback, such as a click, have the same key. Feedback counts if its time is at
most -window after the impression's. A sample is the impression with the field -label: 0, or 1 if there was
feedback. Samples are JSON lines in files of -out, which a training can follow (data.follow).

DIR is a folder or a glob, to which complete files are moved under ascending names, or a topic
(kafka://HOST:PORT/TOPIC). Samples are written to a topic in transactions: consumers must read committed records
(isolation.level=read_committed), as wdlrun does. All formats of wdlrun data are read. Samples of JSON objects have
all their members; from other formats they have all fields.

Times are those in the records. A sample is written when no source (folder or partition) can have earlier
feedback: when the greatest time of each, less -delay, has passed the end of the window. Without -follow,
all samples are written at the end. Records that are not used are counted, and written to STATE/rejected
with the reason: late, without open impression, or unusable. STATE/status.json has the counts.

A join that was killed, or has ended, continues with the same command. Each impression becomes one sample.

Examples:
   wdlrun join -impressions shown/ -feedback clicks/ -out samples/ -key request_id
   wdlrun join -follow -impressions shown/ -feedback clicks/ -out samples/ -key request,item -window 30m -delay 10s
   wdlrun join -follow -impressions kafka://host:9092/shown -feedback kafka://host:9092/clicks -out samples/ -key id -time _time`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "impressions", Usage: "read impressions from `DIR`; may be repeated"},
			&cli.StringSliceFlag{Name: "feedback", Usage: "read feedback from `DIR`; may be repeated"},
			&cli.StringFlag{Name: "out", Usage: "write samples to `DIR`: a folder or a topic"},
			&cli.StringFlag{Name: "late", Usage: "write late feedback, and feedback without open impression, to `DIR`: a folder or a topic", DefaultText: "STATE/rejected"},
			&cli.StringFlag{Name: "state", Usage: "keep open impressions in the folder `DIR`", DefaultText: "the name of -out or its topic, and .state"},
			&cli.StringFlag{Name: "key", Usage: "join by `FIELDS`, separated by commas; SHOWN=CLICKED if feedback has another name for a field"},
			&cli.StringFlag{Name: "time", Value: "time", Usage: "take the time from `FIELD`, or SHOWN=CLICKED: ISO 8601 or a Unix time"},
			&cli.StringFlag{Name: "label", Value: "label", Usage: "write the label as `FIELD`"},
			&cli.StringFlag{Name: "value", Usage: "take the label from `FIELD` of the feedback, such as seconds watched", DefaultText: "1"},
			&cli.DurationFlag{Name: "window", Value: 30 * time.Minute, Usage: "wait `TIME` for feedback"},
			&cli.DurationFlag{Name: "delay", Usage: "expect records of a source to be out of order by at most `TIME`"},
			&cli.StringFlag{Name: "emit", Value: "window", Usage: "write samples after the `window`, or early: at once as negatives, and again as positives with their feedback"},
			&cli.BoolFlag{Name: "follow", Usage: "wait for new records, until each folder has a file _SUCCESS"},
			&cli.DurationFlag{Name: "poll", Value: time.Second, Usage: "look for new records every `TIME`"},
			&cli.DurationFlag{Name: "idle", Value: 5 * time.Minute, Usage: "with -follow, let no source hold up the others that has had no records for `TIME`; 0: all wait"},
			&cli.DurationFlag{Name: "ahead", Value: 10 * time.Minute, Usage: "reject records whose time is more than `TIME` in the future"},
			&cli.StringFlag{Name: "lost", Value: schema.LostStop, Usage: "if records of a topic no longer exist, stop or skip them"},
			&cli.StringFlag{Name: "metrics", Usage: "serve metrics for Prometheus at `ADDRESS`, path /metrics"},
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := runJoin(p, c); err != nil {
				return fmt.Errorf("join: %w", err)
			}
			return nil
		},
	}
}

// bothSides splits FIELD or SHOWN=CLICKED.
func bothSides(text string) (shown, clicked string) {
	shown, clicked, two := strings.Cut(text, "=")
	if !two {
		clicked = shown
	}
	return shown, clicked
}

// joinConfig returns the join that flags describe.
func joinConfig(c *cli.Context) (j join.Config, err error) {
	j = join.Config{
		Impressions: c.StringSlice("impressions"), Feedback: c.StringSlice("feedback"), Out: command.PathOf(c, "out"), State: command.PathOf(c, "state"), Late: command.PathOf(c, "late"),
		Window: c.Duration("window"), Delay: c.Duration("delay"), Early: c.String("emit") == "early",
		Follow: c.Bool("follow"), Poll: c.Duration("poll"), Idle: c.Duration("idle"), Ahead: c.Duration("ahead"), Lost: c.String("lost"),
	}
	for _, f := range []string{"impressions", "feedback", "out", "key"} {
		if !c.IsSet(f) {
			return j, fmt.Errorf("give -%s; see: wdlrun join --help", f)
		}
	}
	if j.State == "" {
		j.State = join.StateOf(j.Out)
	}
	j.On[0].Time, j.On[1].Time = bothSides(c.String("time"))
	j.On[0].Label, j.On[1].Value = c.String("label"), c.String("value")
	for _, key := range strings.Split(c.String("key"), ",") {
		shown, clicked := bothSides(key)
		j.On[0].Key, j.On[1].Key = append(j.On[0].Key, shown), append(j.On[1].Key, clicked)
	}
	empty := slices.Contains(slices.Concat(j.On[0].Key, j.On[1].Key, []string{j.On[0].Time, j.On[1].Time, j.On[0].Label}), "")
	switch {
	case c.Args().Present():
		return j, fmt.Errorf("%q is not a flag: name the folders with -impressions and -feedback", c.Args().First())
	case empty:
		return j, errors.New("-key, -time and -label take names of fields: one is empty")
	case c.String("emit") != "window" && !j.Early:
		return j, fmt.Errorf("-emit %s: there are window and early", c.String("emit"))
	case j.Lost != schema.LostStop && j.Lost != schema.LostSkip:
		return j, fmt.Errorf("-lost %s: there are stop and skip", j.Lost)
	case j.Late != "" && filepath.Clean(j.Late) == filepath.Clean(j.Out):
		return j, errors.New("-late is the same as -out: give another one")
	case j.Window < 0 || j.Delay < 0 || j.Idle < 0 || j.Ahead < 0 || j.Poll < time.Millisecond:
		return j, errors.New("-window, -delay, -idle and -ahead must not be negative, and -poll must be at least 1ms")
	}
	for _, in := range slices.Concat(j.Impressions, j.Feedback) {
		if filepath.Clean(record.LocalPath(in)) == filepath.Clean(j.Out) {
			return j, fmt.Errorf("%s is an input and the folder of samples: give another -out", in)
		}
		if filepath.Clean(record.LocalPath(in)) == filepath.Clean(j.Late) {
			return j, fmt.Errorf("%s is an input and the folder of late feedback: give another -late", in)
		}
	}
	return j, nil
}

// CheckJoin returns the fault of the parsed flags of join.
func CheckJoin(c *cli.Context) error {
	_, err := joinConfig(c)
	return err
}

// joinReport shows the progress of a join.
type joinReport struct {
	p     *command.Program
	quiet bool

	mu    sync.Mutex
	last  join.Status
	shown time.Time
}

// committed takes the status after a commit, and prints a line from time to time.
func (r *joinReport) committed(s join.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const often = 10 * time.Second
	if r.last = s; time.Since(r.shown) < often {
		return
	}
	r.shown = time.Now()
	fmt.Fprintln(r.p.Stderr, "join: "+joinLine(s))
}

// joinLine describes a status.
func joinLine(s join.Status) string {
	line := fmt.Sprintf("%s, %d feedback: %s, %d with feedback; %s", plural.Of(int(s.Impressions), "impression"), s.Feedback, plural.Of(int(s.Samples), "sample"), s.Positives, plural.Are(s.Open, "impression", "open"))
	if s.Watermark != nil {
		line += ", watermark " + s.Watermark.Format(time.RFC3339)
	}
	for _, x := range []struct {
		n         int64
		one, many string
	}{
		{s.Duplicates, "duplicate", "duplicates"}, {s.Repeated, "repeated feedback", "repeated feedback"},
		{s.LateImpressions, "late impression", "late impressions"}, {s.LateFeedback, "late feedback", "late feedback"},
		{s.Unmatched, "feedback without open impression", "feedback without open impression"},
		{s.Bad, "unusable record besides", "unusable records besides"}, {s.BadFiles, "unusable file", "unusable files"},
	} {
		switch {
		case x.n == 1:
			line += "; 1 " + x.one
		case x.n > 1:
			line += fmt.Sprintf("; %d %s", x.n, x.many)
		}
	}
	return line
}

func runJoin(p *command.Program, c *cli.Context) error {
	j, err := joinConfig(c)
	if err != nil {
		return err
	}
	r := &joinReport{p: p, shown: time.Now()}
	j.Warn = func(line string) { fmt.Fprintln(p.Stderr, "wdlrun: join: "+line) }
	j.Commit = r.committed
	if addr := c.String("metrics"); addr != "" {
		if err := live.Check(addr, true); err != nil {
			return fmt.Errorf("-metrics: %w", err)
		}
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return fmt.Errorf("-metrics: %w", err)
		}
		server := live.NewServer(c.Context, r.handler())
		go server.Serve(ln)
		defer server.Close()
		fmt.Fprintf(p.Stderr, "join: metrics: http://%s/metrics\n", ln.Addr())
	}
	s, err := join.Run(c.Context, j)
	if err != nil {
		return err
	}
	if command.AsJSON(c) {
		return p.PrintJSON(s)
	}
	fmt.Fprintln(p.Stdout, joinLine(s))
	if n := s.Rejected(); n > 0 {
		were := "1 record was"
		if n > 1 {
			were = fmt.Sprintf("%d records were", n)
		}
		fmt.Fprintf(p.Stderr, "join: %s not used: files in %s\n", were, filepath.Join(j.State, "rejected"))
	}
	return nil
}

// handler serves the metrics.
func (r *joinReport) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(r)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}

var (
	joinRecords   = prometheus.NewDesc("wdlrun_join_records_total", "Records of a state, by side and result.", []string{"side", "result"}, nil)
	joinSamples   = prometheus.NewDesc("wdlrun_join_samples_total", "Samples that have been written, by label.", []string{"label"}, nil)
	joinOpen      = prometheus.NewDesc("wdlrun_join_open_impressions", "Impressions that wait for feedback.", nil, nil)
	joinWatermark = prometheus.NewDesc("wdlrun_join_watermark_seconds", "Time before which no record is expected.", nil, nil)
	joinBehind    = prometheus.NewDesc("wdlrun_join_lag_records", "Records of a partition that wait to be read, at the last commit.", []string{"source"}, nil)
	joinSource    = prometheus.NewDesc("wdlrun_join_source_seconds", "Greatest time of the records of a source.", []string{"source"}, nil)
)

// Describe implements prometheus.Collector.
func (r *joinReport) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{joinRecords, joinSamples, joinOpen, joinWatermark, joinBehind, joinSource} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (r *joinReport) Collect(to chan<- prometheus.Metric) {
	r.mu.Lock()
	s := r.last
	r.mu.Unlock()
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	count(joinRecords, s.Impressions-s.Duplicates-s.LateImpressions, "impressions", "used")
	count(joinRecords, s.Duplicates, "impressions", "duplicate")
	count(joinRecords, s.LateImpressions, "impressions", "late")
	count(joinRecords, s.Feedback-s.LateFeedback-s.Unmatched-s.Repeated, "feedback", "used")
	count(joinRecords, s.LateFeedback, "feedback", "late")
	count(joinRecords, s.Unmatched, "feedback", "unmatched")
	count(joinRecords, s.Repeated, "feedback", "repeated")
	count(joinRecords, s.Bad, "", "unusable")
	count(joinSamples, s.Samples-s.Positives, "negative")
	count(joinSamples, s.Positives, "positive")
	to <- prometheus.MustNewConstMetric(joinOpen, prometheus.GaugeValue, float64(s.Open))
	if s.Watermark != nil {
		to <- prometheus.MustNewConstMetric(joinWatermark, prometheus.GaugeValue, float64(s.Watermark.UnixMilli())/1e3)
	}
	for _, x := range s.Sources {
		to <- prometheus.MustNewConstMetric(joinBehind, prometheus.GaugeValue, float64(x.Behind), strings.ToValidUTF8(x.Name, "\ufffd"))
		if x.Time != nil {
			to <- prometheus.MustNewConstMetric(joinSource, prometheus.GaugeValue, float64(*x.Time)/1e3, strings.ToValidUTF8(x.Name, "\ufffd"))
		}
	}
}
