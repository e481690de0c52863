package live

import (
	"math"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/wdlrun/wdlrun/trace"
)

// metric is one exported metric.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc("wdlrun_"+name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc("wdlrun_"+name, help, labels, nil), prometheus.GaugeValue}
}

// The metrics of a job, in addition to wdlrun_step_seconds.
var (
	buildInfo      = gauge("build_info", "1, with the versions of wdlrun and Go.", "version", "goversion")
	runInfo        = gauge("run_info", "1, with the run directory.", "run")
	rankCount      = gauge("ranks", "Ranks of the job.")
	samplesTotal   = counter("samples_total", "Samples trained on in this job.")
	stepsTotal     = counter("steps_total", "Steps of this job.")
	samplesNow     = gauge("samples", "Samples trained on since the training began, earlier jobs included.")
	stepNow        = gauge("step", "Current step of the training, counted from its beginning, earlier jobs included.")
	stepsPlanned   = gauge("steps_planned", "Steps of the whole training; absent if their number is not known.")
	epoch          = gauge("epoch", "Current epoch, from 1.")
	loss           = gauge("training_loss", "Mean training loss of the last logged step.")
	rateFactor     = gauge("learning_rate_factor", "Factor of the learning rates.")
	validationLoss = gauge("validation_loss", "Log-loss, or another loss that is trained, of the last evaluation of the validation data.")
	validationAUC  = gauge("validation_auc", "AUC of the last evaluation of the validation data.")
	phaseSeconds   = counter("phase_seconds_total", "Time of a rank in each phase since its job began; pull, push, sync and wait include waiting for other ranks.", "rank", "phase")
	cpuSeconds     = counter("rank_cpu_seconds_total", "CPU time of a rank since its first step.", "rank")
	slowRatio      = gauge("rank_slow_ratio", "How many times slower than the median of the ranks a rank is; absent while it is not slow.", "rank", "cause")
	tableRows      = gauge("table_rows", "Rows of a table, all ranks together.", "table")
	tableBytes     = gauge("table_bytes", "Memory of rows and index, all ranks together.", "table")
	tableInserted  = counter("table_inserted_rows_total", "Keys that got a row in this job.", "table")
	tableEvicted   = counter("table_evicted_rows_total", "Rows evicted in this job.", "table")
	tableSent      = counter("table_sent_bytes_total", "Keys, rows and gradients sent in steps of this job.", "table")
	badTotal       = counter("input_bad_total", "Records that could not be used and were left out.")
	badFilesTotal  = counter("stream_bad_files_total", "Files of a stream that could not be used and were left out in this job.")
	lostTotal      = counter("stream_lost_total", "Records of a stream that no longer existed when they were to be read in this job.")
	publishedTotal = counter("published_total", "Versions of the model that this job published or not, by outcome: changes, complete, repaired (complete because an earlier version is damaged), skipped, held, guarded (train.export.guard found the predictions bad).", "outcome")
	lagRecords     = gauge("stream_lag_records", "Records of a partition of a topic that wait to be trained on, since the last look.", "topic", "partition")
	waitingSeconds = gauge("waiting_seconds", "How long the training has been waiting for the broker, folder or object store of its stream to be there again; 0: it is there.")
	guardBad       = gauge("guard_bad", "1 while train.export.guard finds the predictions bad, by check: finite, logloss, auc, calibration, rate (of positive labels), feed (the last version is bad on the new samples too), logits (of the next version), hold (of an earlier job).", "check")
	checkpointStep = gauge("checkpoint_step", "Step of the last checkpoint.")
	checkpointTime = gauge("checkpoint_timestamp_seconds", "Time of the last checkpoint, in seconds since 1970.")
)

var exported = []metric{buildInfo, runInfo, rankCount, samplesTotal, stepsTotal, samplesNow, stepNow, stepsPlanned, epoch, loss, rateFactor, validationLoss, validationAUC, phaseSeconds, cpuSeconds, slowRatio,
	tableRows, tableBytes, tableInserted, tableEvicted, tableSent, badTotal, badFilesTotal, lostTotal, publishedTotal, lagRecords, waitingSeconds, guardBad, checkpointStep, checkpointTime}

// guardChecks are the checks of train.export.guard; see package publish.
var guardChecks = []string{"finite", "logloss", "auc", "calibration", "rate", "feed", "logits", "hold"}

// registry returns the metrics of the board and of this process.
func (b *Board) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(b.steps, collector{b}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// collector reads the board for each scrape.
type collector struct{ *Board }

func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range exported {
		to <- m.desc
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	all := c.sampled()
	c.mu.Lock()
	add := func(m metric, value float64, labels ...string) {
		if !math.IsNaN(value) {
			all = append(all, prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...))
		}
	}
	if train := c.train.Points(); len(train) > 0 {
		last := train[len(train)-1]
		add(loss, last.loss)
		add(rateFactor, last.rate)
	}
	valid := c.valid.Points()
	for i := len(valid) - 1; i >= 0; i-- {
		if !valid[i].test {
			add(validationLoss, valid[i].logloss)
			add(validationAUC, valid[i].auc)
			break
		}
	}
	if len(c.checkpoints) > 0 {
		add(checkpointStep, float64(c.checkpoints[0]))
		add(checkpointTime, float64(c.saved.UnixMilli())/1e3)
	}
	u := &c.update
	for i, r := range u.Ranks {
		n := strconv.Itoa(i)
		for p, d := range r.Phases {
			add(phaseSeconds, d.Seconds(), n, trace.Phase(p).String())
		}
		add(cpuSeconds, r.CPU.Seconds(), n)
	}
	for _, s := range u.Slow {
		if s.Probable {
			continue
		}
		add(slowRatio, s.Factor, strconv.Itoa(s.Rank), s.Cause)
	}
	for _, t := range u.Tables {
		add(tableRows, float64(t.Rows), t.Name)
		add(tableBytes, float64(t.Bytes), t.Name)
		add(tableInserted, float64(t.Inserted), t.Name)
		add(tableEvicted, float64(t.Evicted), t.Name)
		add(tableSent, float64(t.Sent), t.Name)
	}
	add(badTotal, float64(u.Bad))
	add(badFilesTotal, float64(u.Files))
	add(lostTotal, float64(u.Lost))
	for outcome, n := range c.versions.published {
		add(publishedTotal, float64(n), outcome)
	}
	for _, x := range c.followed.behind {
		add(lagRecords, float64(x.Records), x.Topic, strconv.Itoa(int(x.Number)))
	}
	waited := 0.
	if !c.followed.away.IsZero() {
		waited = time.Since(c.followed.away).Seconds()
	}
	add(waitingSeconds, waited)
	c.versions.guard.collect(add)
	c.mu.Unlock()
	for _, m := range all {
		to <- m
	}
}

// collect adds which of the checks fails. g may be nil.
func (g *guarded) collect(add func(m metric, value float64, labels ...string)) {
	if g == nil {
		return
	}
	for _, check := range guardChecks {
		bad := 0.
		if check == g.check {
			bad = 1
		}
		add(guardBad, bad, check)
	}
}

// sampled returns the metrics of the job's status.
func (c collector) sampled() (all []prometheus.Metric) {
	s := c.now()
	add := func(m metric, value float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...))
	}
	add(buildInfo, 1, c.info.Version, runtime.Version())
	add(rankCount, float64(len(c.info.Hosts)))
	add(samplesTotal, float64(c.rows.Load()))
	add(stepsTotal, float64(c.taken.Load()))
	add(samplesNow, float64(s.Samples))
	add(stepNow, float64(s.Step))
	if s.RunDir != "" {
		add(runInfo, 1, s.RunDir)
	}
	if s.Steps > 0 {
		add(stepsPlanned, float64(s.Steps))
	}
	if s.Epoch > 0 {
		add(epoch, float64(s.Epoch))
	}
	return all
}
