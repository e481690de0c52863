package train

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/machine/cgroup"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// TestEstimateIsWhatJobsPlan: Estimate in one process computes the plan of a job of three ranks.
func TestEstimateIsWhatJobsPlan(t *testing.T) {
	const size = 3
	opt := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ""), Out: t.TempDir()}
	want, err := Estimate(context.Background(), opt, size, false)
	fatal.If(t, err)
	if want.WorldSize != size || len(want.Tables) != 4 || want.StepBytes == 0 || want.Steps == 0 {
		t.Errorf("%+v", want)
	}
	for i, r := range want.Ranks {
		var sum plan.Share
		for _, x := range want.Tables {
			sum.Rows, sum.MemoryBytes, sum.StepBytes = sum.Rows+x.Ranks[i].Rows, sum.MemoryBytes+x.Ranks[i].MemoryBytes, sum.StepBytes+x.Ranks[i].StepBytes
		}
		if sum != (plan.Share{Rows: r.Rows, MemoryBytes: r.MemoryBytes, StepBytes: r.WireBytes}) {
			t.Errorf("rank %d has %+v, the sum of its tables is %+v", i, r, sum)
		}
	}
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(100), opt)
		if _, err := j.Run(context.Background()); err != nil {
			return err
		}
		if !reflect.DeepEqual(j.planned, want) {
			t.Errorf("rank %d has planned\n%v\nplanned:\n%v", comm.Rank(), j.planned, want)
		}
		return nil
	})
	p, err := Estimate(context.Background(), opt, size, true)
	fatal.If(t, err)
	if why := p.Tables[0].Why; p.Tables[0].Strategy != sparse.Rows || !strings.Contains(why, "share memory") {
		t.Errorf("%v: %s", p.Tables[0].Strategy, why)
	}
}

// TestCopiesArePlanned: plans and measurements include the memory of copies.
func TestCopiesArePlanned(t *testing.T) {
	t.Parallel()
	const size = 3
	o := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 3000), "", ""), Out: t.TempDir()}
	results := map[int]report.Result{}
	for _, o.Replicas = range []int{1, 2} {
		traintest.OnRanks(t, size, func(comm *collective.Comm) error {
			r, err := NewJob(comm, trace.New(100), o).Run(t.Context())
			if comm.Rank() == 0 {
				results[o.Replicas] = r
			}
			return err
		})
	}
	for i, x := range results[2].Tables {
		alone := results[1].Tables[i]
		if got, want := float64(x.Sent), float64(x.Planned.Sent); got < want*0.9 || got > want*1.1 || x.Sent <= alone.Sent {
			t.Errorf("table %s: %.0f bytes sent, planned %.0f, without copies %d", x.Name, got, want, alone.Sent)
		}
		if x.Planned.Bytes != 2*alone.Planned.Bytes || float64(x.Bytes) < 1.9*float64(alone.Bytes) {
			t.Errorf("table %s: %d bytes of memory, planned %d; without copies %d and %d", x.Name, x.Bytes, x.Planned.Bytes, alone.Bytes, alone.Planned.Bytes)
		}
	}
}

// TestSightingsArePlanned: plans and measurements include the counters of keys that are not
// admitted yet, also for copies.
func TestSightingsArePlanned(t *testing.T) {
	t.Parallel()
	const size = 3
	const admits = "}\ntables: [{name: site_x_age, admit: {after: 255, counters: 1048576}}] #"
	o := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", admits), Out: t.TempDir()}
	for _, o.Replicas = range []int{1, 2} {
		traintest.OnRanks(t, size, func(comm *collective.Comm) error {
			r, err := NewJob(comm, trace.New(100), o).Run(t.Context())
			if err != nil || comm.Rank() != 0 {
				return err
			}
			for _, x := range r.Tables {
				if x.Name == "site_x_age" && (x.Rows != 0 || float64(x.Bytes) < 0.7*float64(x.Planned.Bytes) || float64(x.Bytes) > 1.1*float64(x.Planned.Bytes)) {
					t.Errorf("%d copies: table %s: %d rows and %d bytes of memory, planned %d", o.Replicas, x.Name, x.Rows, x.Bytes, x.Planned.Bytes)
				}
			}
			return nil
		})
	}
	p, err := Estimate(t.Context(), o, size, false)
	fatal.If(t, err)
	if p.Tables[3].SightingBytes == 0 || !strings.Contains(p.String(), "count occurrences of keys") {
		t.Errorf("the plan does not report the memory of admission counts:\n%v", p)
	}
}

// TestDenseNeeds: the dense part of a plan, which reads no records, equals the model's.
func TestDenseNeeds(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"", "model.kind=dcn_v2", "model.kind=xdeepfm", "model.batch_norm=true", "train.optimizer.dense={kind: adam}", "model.deep=false"} {
		o := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 600), "", ""), Out: t.TempDir()}
		if set != "" {
			o.Set = []string{set}
		}
		c, _, err := o.config(nil)
		fatal.If(t, err)
		got, err := denseNeeds(c, 3)
		fatal.If(t, err)
		traintest.OnRanks(t, 1, func(comm *collective.Comm) error {
			j := NewJob(comm, trace.New(100), o)
			res, err := j.Run(t.Context())
			if err != nil {
				return err
			}
			ck, _, err := checkpoint.Latest(filepath.Join(res.RunDir, checkpoint.Folder))
			if err != nil {
				return err
			}
			saved, err := save.Read(ck, "dense")
			if err != nil {
				return err
			}
			n := int64(j.trainer.Parameters())
			if most := int64(len(saved)); got.Parameters != n || got.GradientBytes < 4*n || got.ValueBytes+got.OptimizerBytes > most || got.ValueBytes+got.OptimizerBytes < most-4096 {
				t.Errorf("%s: planned %+v; the model has %d parameters, saved in %d bytes", set, got, n, most)
			}
			return nil
		})
		if got.StepBytes != 4*got.GradientBytes {
			t.Errorf("%s: 3 ranks send %d bytes of %d", set, got.StepBytes, got.GradientBytes)
		}
	}
}

// TestDensePartTooLarge: a model that is too large is rejected before any record is read.
func TestDensePartTooLarge(t *testing.T) {
	t.Parallel()
	o := Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 10), "", ""), Set: []string{"model.hidden=[65536, 65536]"}, Here: 2}
	if err := Check(t.Context(), o, 2); err == nil || !strings.Contains(err.Error(), "model.hidden [65536 65536]") || !strings.Contains(err.Error(), "65536×65536") {
		t.Errorf("65536 × 65536: %v", err)
	}
	o.Set = []string{"model.hidden=[4096, 4096]"}
	c, _, err := o.config(nil)
	fatal.If(t, err)
	d, err := denseNeeds(c, 2)
	fatal.If(t, err)
	if err := o.checkMemory(c, 2, cgroup.Memory{Available: 2 * d.MemoryBytes()}); err != nil {
		t.Error(err)
	}
	err = o.checkMemory(c, 2, cgroup.Memory{Available: 2*d.MemoryBytes() - 1})
	if err == nil || !strings.Contains(err.Error(), "model.hidden [4096 4096]") || !strings.Contains(err.Error(), plan.Bytes(d.MemoryBytes())) {
		t.Errorf("with one byte less than two ranks need: %v", err)
	}
	if o.Here = 0; o.checkMemory(c, 2, cgroup.Memory{}) != nil {
		t.Error("the model is rejected although no rank runs here")
	}
}

func TestPlanInWords(t *testing.T) {
	c, err := config.Parse("words.yaml", []byte(`
data: {train: ["builtin:adult.data"], fields: [age, workclass, fnlwgt, education, education_num, marital_status, occupation, relationship, race, sex, capital_gain, capital_loss, hours_per_week, native_country, income]}
label: {field: income, positive: [">50K", ">50K."], negative: ["<=50K", "<=50K."]}
features:
  - {field: education, encode: vocabulary}
  - {field: age, encode: id, deep: false}
tables: [{name: education, strategy: pooled}]
`))
	fatal.If(t, err)
	p, err := Estimate(context.Background(), Options{Config: c}, 6, false)
	fatal.If(t, err)
	golden.Check(t, "plan.txt", p.String())
}

// TestNoPlanOfAStream: the plan of a stream is an error, because zeros would look like an
// estimate.
func TestNoPlanOfAStream(t *testing.T) {
	c := config.Default()
	c.Data.Follow.On, c.Train.Epochs = true, 1
	if p, err := Estimate(t.Context(), Options{Config: c}, 2, false); err == nil || !strings.Contains(err.Error(), "a stream has no whole to plan from") {
		t.Errorf("%+v, %v", p, err)
	}
}
