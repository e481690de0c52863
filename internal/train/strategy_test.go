package train

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// tablesAs appends a tables section to clicksConfig's train section.
func tablesAs(strategies string, more string) string {
	return more + "}\ntables: [" + strategies + "] #"
}

const (
	allRows    = "{name: site, strategy: rows}, {name: tags, strategy: rows}, {name: age, strategy: rows}, {name: site_x_age, strategy: rows}"
	onePooled  = "{name: site, strategy: pooled}, {name: tags, strategy: rows}, {name: age, strategy: pooled}, {name: site_x_age, strategy: pooled}"
	mixed      = "{name: site, strategy: pooled}, {name: tags, strategy: rows}, {name: age, strategy: rows}, {name: site_x_age, strategy: pooled}"
	longPooled = "{name: tags, strategy: pooled}"
)

// contents returns the checksums of the sections of a job's last checkpoint, except the
// configuration, for any owners of shards.
func contents(t *testing.T, r report.Result) map[string]string {
	t.Helper()
	c, err := checkpoint.Open(r.Checkpoint)
	fatal.If(t, err)
	all := map[string]string{}
	for _, name := range c.Names() {
		if name != save.SectionConfig {
			all[name] = c.Checksum(name)
		}
	}
	return all
}

// TestStrategiesGiveTheSameModel trains with each strategy and compares the metrics. Owners that
// pool sum repeated keys in another order.
func TestStrategiesGiveTheSameModel(t *testing.T) {
	path := traintest.Clicks(t, 900)
	for size := 1; size <= 3; size++ {
		t.Run(fmt.Sprint("P=", size), func(t *testing.T) {
			if size != 2 {
				everyday(t)
			}
			t.Parallel()
			set := []string{"train.epochs=2"}
			want := runJob(t, size, Options{Config: traintest.ClicksConfig(t, path, "", tablesAs(allRows, "")), Set: set})
			for how, train := range map[string]string{
				"pooled": tablesAs(onePooled, ""),
				"mixed":  tablesAs(mixed, ""),
			} {
				if size == 1 && how != "mixed" {
					continue
				}
				got := runJob(t, size, Options{Config: traintest.ClicksConfig(t, path, "", train), Set: set})
				if math.Abs(*got.TestAUC-*want.TestAUC) >= 1e-3 || math.Abs(got.TrainLogLoss-want.TrainLogLoss) >= 1e-5 {
					t.Errorf("%s: %+v\nas rows %+v", how, got, want)
				}
			}
			got := runJob(t, size, Options{Config: traintest.ClicksConfig(t, path, "", tablesAs(longPooled, "")), Set: set})
			if got.Tables[1].Strategy != "pooled" || math.Abs(*got.TestAUC-*want.TestAUC) > 0.0015 || math.Abs(got.TrainLogLoss-want.TrainLogLoss) > 1e-3 {
				t.Errorf("long bags pooled: %+v\nas rows %+v", got, want)
			}
		})
	}
}

// TestStrategiesSurviveResuming resumes in the middle on the same number of ranks, with the
// same bits, and on other numbers.
func TestStrategiesSurviveResuming(t *testing.T) {
	path := traintest.Clicks(t, 700)
	for name, how := range map[string]string{"mixed": mixed, "long bags": longPooled, "auto": ""} {
		t.Run(name, func(t *testing.T) {
			if name != "mixed" {
				everyday(t)
			}
			t.Parallel()
			whole := runJob(t, 2, Options{Config: traintest.ClicksConfig(t, path, "", tablesAs(how, ""))})
			middle := checkpoint.Dir(filepath.Join(whole.RunDir, checkpoint.Folder), 20)
			again := runJob(t, 2, Options{Resume: middle})
			if !maps.Equal(contents(t, again), contents(t, whole)) {
				t.Errorf("resumed %+v, uninterrupted %+v", again, whole)
			}
			for i, table := range again.Tables {
				if was := whole.Tables[i]; table.Strategy != was.Strategy {
					t.Errorf("table %s is %s after resuming, was %s", table.Name, table.Strategy, was.Strategy)
				}
			}
			for _, size := range []int{1, 3} {
				other := runJob(t, size, Options{Resume: middle})
				if other.Samples != whole.Samples || math.Abs(*other.TestAUC-*whole.TestAUC) > 0.0015 {
					t.Errorf("resumed on %d ranks %+v, uninterrupted on 2 %+v", size, other, whole)
				}
			}
		})
	}
}

// TestStrategiesOfTolerantSteps: the gradients of pooled tables are staged by microbatch.
func TestStrategiesOfTolerantSteps(t *testing.T) {
	t.Parallel()
	const size = 3
	path := traintest.Clicks(t, 900)
	c := traintest.ClicksConfig(t, path, "", tablesAs(longPooled, ""))
	wait := runJob(t, size, Options{Config: c})
	sameModel(t, wait, runJob(t, size, Options{Config: c, Tolerance: step.Tolerance{Mode: slots.Speculate}}))
}

// TestAutoChoosesByBytes: long bags of keys that rarely repeat are pooled; all others
// use rows. Measurements are close to the plan.
func TestAutoChoosesByBytes(t *testing.T) {
	var b strings.Builder
	b.WriteString("click,words,hour,site,day\n")
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		words := make([]string, 30)
		for i := range words {
			words[i] = fmt.Sprint(rng.IntN(20_000))
		}
		fmt.Fprintf(&b, "%d,%s,%d,%d,%d\n", rng.IntN(2), strings.Join(words, "|"), rng.IntN(24), rng.IntN(400), rng.IntN(7))
	}
	path := filepath.Join(t.TempDir(), "words.csv")
	fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
	c, err := config.Parse("words.yaml", fmt.Appendf(nil, `
data: {train: [%q], header: true}
label: {field: click}
features:
  - {field: words, encode: hash, separator: "|"}
  - {field: hour, encode: hash, deep: false}
  - {field: site, encode: hash}
  - {field: day, encode: hash, deep: false}
tables: [{name: day, strategy: rows}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 500, epochs: 5, scaling: none} # every step is as planned
`, path))
	fatal.If(t, err)
	var said []string
	res := runJob(t, 2, Options{Config: c, Say: func(line string) { said = append(said, line) }})
	want := map[string]string{"words": "pooled", "hour": "rows", "site": "rows", "day": "rows"}
	for _, x := range res.Tables {
		if x.Strategy != want[x.Name] || !strings.Contains(x.Why, map[bool]string{true: "as configured", false: "B a step"}[x.Name == "day"]) {
			t.Errorf("%s is %s, want %s: %s", x.Name, x.Strategy, want[x.Name], x.Why)
		}
		within(t, "rows of "+x.Name, x.Rows, x.Planned.Rows, 0.02)
		within(t, "memory of "+x.Name, x.Bytes, x.Planned.Bytes, 0.15)
		within(t, "bytes sent of "+x.Name, x.Sent, x.Planned.Sent, 0.05)
	}
	if len(res.Ranks) != 2 || res.Imbalance > 1.1 || res.PlannedImbalance > 1.1 {
		t.Errorf("imbalance %.2f, planned %.2f: %+v", res.Imbalance, res.PlannedImbalance, res.Ranks)
	}
	if line := strings.Join(said, "\n"); strings.Count(line, "exchange of tables: 3 as rows") != 1 || !strings.Contains(line, "words pooled (") {
		t.Errorf("printed %q", line)
	}
}

func within(t *testing.T, what string, got, want int64, share float64) {
	t.Helper()
	if d := math.Abs(float64(got-want)) / float64(max(want, 1)); d > share {
		t.Errorf("%s: %d, planned %d: %.0f %% off", what, got, want, 100*d)
	}
}

// TestPlacementIsKept: the manifest contains the owners of shards, and the next job uses them.
func TestPlacementIsKept(t *testing.T) {
	res := runJob(t, 3, Options{Config: traintest.ClicksConfig(t, traintest.Clicks(t, 900), "", "")})
	c, err := checkpoint.Open(res.Checkpoint)
	fatal.If(t, err)
	p, err := save.Placed(c, layout.Shards)
	if err != nil || p == nil || p.Ranks != 3 || len(p.Strategies) != 4 || p.Keys == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	if got := p.Owners(3, save.EnoughKeys); !slices.Equal(got, p.Owner) {
		t.Error("shards move although few keys were measured")
	}
	if p.Owners(2, save.EnoughKeys) != nil {
		t.Error("another number of ranks uses the loads although few keys were measured")
	}
	// Enough keys are measured, and rank 0 has nearly all of the load.
	for i := range p.Wire {
		p.Wire[i] = 1
		if p.Owner[i] == 0 {
			p.Wire[i] = 10
		}
	}
	p.Keys = save.EnoughKeys * layout.Shards
	moved := 0
	for i, r := range p.Owners(3, save.EnoughKeys) {
		if r != p.Owner[i] {
			moved++
		}
	}
	if moved < layout.Shards/8 {
		t.Errorf("%d shards move away from a rank that has most of the load", moved)
	}
	for _, size := range []int{2, 5} {
		if owner := p.Owners(size, save.EnoughKeys); len(owner) != layout.Shards || slices.Max(owner) != int32(size-1) {
			t.Errorf("%d ranks: owners %v", size, owner)
		}
	}
}

// shifted writes a log whose keys belong to all shards first, and later to shards of rank 0
// of two.
func shifted(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("click,words\n")
	rng := rand.New(rand.NewPCG(5, 6))
	salt := sparse.Salt("words")
	for row := range 12_000 {
		var words []string
		for len(words) < 4 {
			key := rng.Uint64N(1 << 14)
			if row < 7000 || sparse.ShardOf(salt, key, layout.Shards) < layout.Shards/2 || rng.IntN(8) == 0 {
				words = append(words, fmt.Sprint(key))
			}
		}
		fmt.Fprintf(&b, "%d,%s\n", rng.IntN(2), strings.Join(words, "|"))
	}
	path := filepath.Join(t.TempDir(), "shifted.csv")
	fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// TestShardsMoveAtCheckpoints: if the traffic shifts to the shards of one rank, the next
// checkpoint moves some of them. The model has the same bits, and a job that resumes from
// that checkpoint moves the same shards. This includes tables that admit keys and their
// counters, even if the sketches are too small for all keys.
func TestShardsMoveAtCheckpoints(t *testing.T) {
	for _, x := range []struct {
		name, table string
		size        int
	}{
		{"all keys", "", 2},
		{"third sightings", ", admit: {after: 3}", 3},
		{"crowded sketches", ", admit: {after: 2, counters: 65536}, evict: {age: 30}", 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			shardsMove(t, x.table, x.size)
		})
	}
}

// shiftedConfig trains once on shifted, in its order.
func shiftedConfig(t *testing.T, table string, every int) *config.Config {
	t.Helper()
	c := wordsConfig(t, shifted(t), ", strategy: rows"+table, "")
	_, err := config.SetAll(c, []string{"train.epochs=1", "train.shuffle=false", fmt.Sprint("train.checkpoint.every_steps=", every)})
	fatal.If(t, err)
	return c
}

// runEnough is like runJob for a job whose shards move after the given number of keys. It also
// returns the printed lines. ended is called with every rank's job at its end.
func runEnough(t *testing.T, size int, enough int64, opt Options, ended ...func(*Job)) (res report.Result, said string) {
	t.Helper()
	opt.Out, opt.Warn = t.TempDir(), func(line string) { t.Log(line) }
	opt.Say = func(line string) { said += line + "\n" }
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		j := NewJob(comm, trace.New(100), opt)
		j.saves.enough = enough
		r, err := j.Run(context.Background())
		if comm.Rank() == 0 {
			res = r
		}
		for _, f := range ended {
			f(j)
		}
		return err
	})
	return res, said
}

func shardsMove(t *testing.T, table string, size int) {
	c := shiftedConfig(t, table, 25)
	run := func(enough int64, opt Options) (report.Result, string) { return runEnough(t, size, enough, opt) }
	still, _ := run(1<<40, Options{Config: c})
	moved, said := run(16, Options{Config: c})
	if still.MovedShards != 0 || moved.MovedShards < 20 || !strings.Contains(said, "shards go to other ranks") {
		t.Fatalf("%d shards moved, %d in the job without moves; printed %s", moved.MovedShards, still.MovedShards, said)
	}
	if size == 2 && moved.Imbalance > still.Imbalance-0.05 {
		t.Errorf("the busiest owner has %.2f of the mean, %.2f without moves", moved.Imbalance, still.Imbalance)
	}
	if admits := table != ""; admits != (moved.Tables[0].Refused > 0) || !maps.Equal(contents(t, moved), contents(t, still)) {
		t.Errorf("the model differs; %d occurrences of keys without a row", moved.Tables[0].Refused)
	}
	root := filepath.Join(moved.RunDir, checkpoint.Folder)
	again, _ := run(16, Options{Resume: checkpoint.Dir(root, 100)})
	if !maps.Equal(contents(t, again), contents(t, moved)) {
		t.Error("the model of a resumed training differs")
	}
	sameContents(t, open(t, checkpoint.Dir(root, 75)), open(t, checkpoint.Dir(filepath.Join(still.RunDir, checkpoint.Folder), 75)))
}

// TestShardsMoveWithTheirCopies: copies move too, and a rank may be lost during the move or
// later.
func TestShardsMoveWithTheirCopies(t *testing.T) {
	patient.Long(t)
	for name, how := range map[string]step.Tolerance{"wait": {}, "speculate": {Mode: slots.Speculate}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moveWithCopies(t, how, patient.Size(3, 6))
		})
	}
}

func moveWithCopies(t *testing.T, how step.Tolerance, losses int) {
	const size = 2
	c := shiftedConfig(t, ", admit: {after: 2}", 50)
	var ends int64 // exchanges of rank 0 until the shards had moved; their total varies if ranks may be late
	run := func(enough int64, d deaths) (report.Result, string) {
		var said string
		res, _, _ := d.watched(t, size, Options{Config: c, Tolerance: how}, func(j *Job, made func() int64) {
			j.saves.enough = enough
			if j.Comm.Rank() != 0 {
				return
			}
			j.PrintProgress = func(line string) {
				if said += line + "\n"; len(d) == 0 && ends == 0 && strings.Contains(line, "shards go to other ranks") {
					ends = made()
				}
			}
		})
		return res, said
	}
	still, _ := run(1<<40, nil)
	want := contents(t, still)
	moved, said := run(16, nil)
	if moved.MovedShards < 20 || still.MovedShards != 0 || ends == 0 {
		t.Fatalf("%d shards moved, %d in the job without moves; printed %s", moved.MovedShards, still.MovedShards, said)
	}
	if !maps.Equal(contents(t, moved), want) {
		t.Error("the model differs")
	}
	for i, after := range []int64{-1, 9, -3, -6, -10, 30}[:losses] {
		got, said := run(16, deaths{{i % size, ends + after, 0}})
		if !maps.Equal(contents(t, got), want) || got.Samples != still.Samples {
			t.Fatalf("rank %d was lost at exchange %d of rank 0, which had moved shards after %d: the model differs; printed %s", i%size, ends+after, ends, said)
		}
	}
}

// TestShardsMoveWhereRanksAreLate: one rank is far too slow, so shards move while it still
// computes with rows of their previous owners. This work is discarded. Repeated work has the
// bits of a job that waits and moves nothing. Work that is not repeated is replayed from the
// log, whether or not the replay moves shards.
func TestShardsMoveWhereRanksAreLate(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	const size, few = 3, 4
	slow, err := chaos.Parse("slow:300x@1,stop:20ms@2@step26")
	fatal.If(t, err)
	c := shiftedConfig(t, ", admit: {after: 2}", 25)
	wait, _ := runEnough(t, size, 1<<40, Options{Config: c})
	computed := int64(0) // number of microbatches computed by the slow rank
	late, _ := runEnough(t, size, few, Options{Config: c, Tolerance: step.Tolerance{Mode: slots.Speculate}, Chaos: slow}, func(j *Job) {
		if _, n := j.tolerant.steps.Spent(); j.Comm.Rank() == 1 {
			computed = int64(n / time.Second)
		}
	})
	if late.MovedShards == 0 || wait.MovedShards != 0 || computed >= late.Steps {
		t.Fatalf("%d shards moved, %d in the job that waits; in %d steps the slow rank computed %d microbatches", late.MovedShards, wait.MovedShards, late.Steps, computed)
	}
	if !maps.Equal(contents(t, late), contents(t, wait)) {
		t.Error("the model differs from a job that waits")
	}
	drop, _ := runEnough(t, size, few, Options{Config: c, Tolerance: step.Tolerance{Mode: slots.Drop, Backup: 1}, Chaos: slow})
	if drop.MovedShards == 0 || drop.LateSlots == 0 {
		t.Fatalf("%d shards moved, %d late microbatches", drop.MovedShards, drop.LateSlots)
	}
	for _, enough := range []int64{few, 1 << 40} {
		again, _ := runEnough(t, size, enough, Options{Replay: drop.RunDir})
		if moves := enough == few; moves != (again.MovedShards > 0) {
			t.Errorf("the replay moved %d shards", again.MovedShards)
		}
		if !maps.Equal(contents(t, again), contents(t, drop)) {
			t.Errorf("the model of the replay, which moved %d shards, differs from the run, which moved %d", again.MovedShards, drop.MovedShards)
		}
	}
}
