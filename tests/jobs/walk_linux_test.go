package jobs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

const walkConfig = `data: {train: ["clicks/dt=*/*.csv"], header: true}
label: {field: clicked}
features:
  - {field: item, encode: vocabulary, min_count: 1}
  - {field: user, encode: hash}
model: {embedding_dim: 4, hidden: [8]}
train: {epochs: 1, batch: 32, seed: 3, checkpoint: {every_steps: 2}}
`

// clicksOf writes days of clicks, each with some new items.
func clicksOf(t testing.TB, dir string, days ...int) {
	for _, day := range days {
		r := rand.New(rand.NewPCG(1, uint64(day)))
		var b strings.Builder
		b.WriteString("clicked,item,user\n")
		for range 200 {
			item := day*5 + r.IntN(20)
			fmt.Fprintf(&b, "%d,i%d,u%d\n", min(1, r.IntN(2+item%3)), item, r.IntN(30))
		}
		folder := filepath.Join(dir, "clicks", fmt.Sprintf("dt=2026-11-%02d", day))
		fatal.If(t, os.MkdirAll(folder, 0o755))
		write(t, folder, "part.csv", b.String())
	}
}

// walked returns the ledger of the latest run, and the parts of its last checkpoint.
func walked(t testing.TB, dir string) (d rundir.Days, last map[string]string) {
	latest := rundir.Real(filepath.Join(dir, "runs", "latest"))
	d, err := rundir.ReadDays(latest)
	fatal.If(t, err)
	if len(d.Days) == 0 {
		t.Fatalf("no ledger in %s", latest)
	}
	return d, parts(t, dir, "runs/"+filepath.Base(latest), d.Days[len(d.Days)-1].Step)
}

// TestColumnsOfLaterPartitions: a partition from before a feature existed is trained on, also again, with
// the feature missing, which one line says; a column that no partition has is an error, as is a later partition
// without a header.
func TestColumnsOfLaterPartitions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clicksOf(t, dir, 1, 2)
	var b strings.Builder
	b.WriteString("device,clicked,item,user\n")
	for i := range 200 {
		fmt.Fprintf(&b, "d%d,%d,i%d,u%d\n", i%3, i%2, i%20, i%30)
	}
	fatal.If(t, os.MkdirAll(filepath.Join(dir, "clicks/dt=2026-11-03"), 0o755))
	write(t, dir, "clicks/dt=2026-11-03/part.csv", b.String())
	config := strings.Replace(walkConfig, "model:", "  - {field: device, encode: vocabulary, min_count: 1}\nmodel:", 1)
	write(t, dir, "ctr.yaml", config)
	write(t, dir, "bad.yaml", strings.Replace(config, "field: device", "field: dvice", 1))
	const line = "wdlrun: dt=2026-11-0%d: no file has column device, so its values are missing; the files of dt=2026-11-03 have it\n"
	named := func(args string, days ...int) {
		t.Helper()
		o := must(t, dir, args)
		for day := 1; day <= 3; day++ {
			want := 0
			if slices.Contains(days, day) {
				want = 1
			}
			if n := strings.Count(o.stderr, fmt.Sprintf(line, day)); n != want || strings.Contains(o.stderr, "empty in every record") {
				t.Errorf("%s: day %d is named %d times, want %d\n%s", args, day, n, want, o.stderr)
			}
		}
	}
	if o := run(t, dir, "train", "-config", "bad.yaml", "-by", "dt", "-plan"); o.code != 1 || !strings.Contains(o.stderr, `there is no field "dvice"`) {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
	named("train -config ctr.yaml -by dt -plan", 1)
	named("train -config ctr.yaml -by dt", 1, 2)
	named("train -by dt -again 2026-11-01", 1)
	d, _ := walked(t, dir)
	if len(d.Days) != 4 || d.Days[2].Keys < 3 || d.Days[3].Day != "2026-11-01" || d.Days[3].Rows != 200 || d.Days[3].LogLoss == nil {
		t.Errorf("the ledger: %+v", d.Days)
	}
	header, rows, _ := strings.Cut(b.String(), "\n")
	fatal.If(t, os.MkdirAll(filepath.Join(dir, "clicks/dt=2026-11-05"), 0o755))
	write(t, dir, "clicks/dt=2026-11-05/part.csv", strings.Replace(header, "device", "appliance", 1)+"\n"+rows)
	if o := run(t, dir, "train", "-by", "dt", "-plan"); o.code != 0 || !strings.Contains(o.stderr, "columns that are new there and that no feature uses: appliance; if one of them is device renamed, write {field: appliance, was: device, …}") {
		t.Errorf("a renamed column: exit code %d\n%s", o.code, o.stderr)
	}
	fatal.If(t, os.RemoveAll(filepath.Join(dir, "clicks/dt=2026-11-05")))
	fatal.If(t, os.MkdirAll(filepath.Join(dir, "clicks/dt=2026-11-04"), 0o755))
	write(t, dir, "clicks/dt=2026-11-04/part.csv", rows)
	if o := run(t, dir, "train", "-by", "dt"); o.code != 1 || strings.Contains(o.stderr, "its values are missing") || !strings.Contains(o.stderr, "clicks/dt=2026-11-04/part.csv: its first line, d0,0,i0,u0, is taken for a header") {
		t.Errorf("without a header: exit code %d\n%s", o.code, o.stderr)
	}
}

// TestWalkForward: train -by trains on each partition from the model before it, evaluates that
// model on it first, names what it leaves out, and continues only on what is new.
func TestWalkForward(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	clicksOf(t, dir, 1, 2, 4)
	write(t, dir, "ctr.yaml", walkConfig)
	for day, text := range map[string]string{"05": "clicked,item,user\n", "06": "clicked,item,user\n0,i1,u1\n0,i2,u2\n"} {
		fatal.If(t, os.MkdirAll(filepath.Join(dir, "clicks/dt=2026-11-"+day), 0o755))
		write(t, dir, "clicks/dt=2026-11-"+day+"/part.csv", text)
	}
	o := run(t, dir, "-np", "2", "train", "-config", "ctr.yaml", "-by", "dt", "-from", "latest")
	for _, want := range []string{"missing: dt=2026-11-03", "dt=2026-11-05 is not trained on", "dt=2026-11-06 is not trained on: none of the 2 training rows has the label 1"} {
		if o.code != 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("exit code %d, no line %q\n%s%s", o.code, want, o.stdout, o.stderr)
		}
	}
	if strings.Contains(o.stderr, " rows kept") {
		t.Errorf("lines about what is kept:\n%s", o.stderr)
	}
	d, _ := walked(t, dir)
	if len(d.Days) != 3 || d.Days[0].AUC != nil || d.Days[1].LogLoss == nil || d.Days[1].Rows != 200 || d.Days[1].Keys < 1 {
		t.Errorf("the ledger: %+v", d.Days)
	}
	// The model before the last partition gives the same metrics in an evaluation.
	eval := run(t, dir, "-json", "eval", "-resume", "runs/"+d.Days[1].Run, "-data", "clicks/dt=2026-11-04/*.csv")
	var m struct{ LogLoss float64 }
	if err := json.Unmarshal([]byte(eval.stdout), &m); err != nil || d.Days[2].LogLoss == nil || fmt.Sprintf("%.9f", m.LogLoss) != fmt.Sprintf("%.9f", *d.Days[2].LogLoss) {
		t.Errorf("the model before has the log-loss %v, eval %v (%v)", d.Days[2].LogLoss, m.LogLoss, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "clicks/dt=2026-11-02/part.csv"), os.O_APPEND|os.O_WRONLY, 0)
	fatal.If(t, err)
	f.WriteString("1,late,u1\n")
	fatal.If(t, f.Close())
	if o = run(t, dir, "train", "-by", "dt"); o.code != 0 || !strings.Contains(o.stdout, "nothing new") || !strings.Contains(o.stderr, "late: dt=2026-11-02: 1 row arrived") {
		t.Errorf("again: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if o = run(t, dir, "train", "-by", "dt"); o.code != 0 || strings.Contains(o.stderr, "late:") {
		t.Errorf("a late row is named again: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	path := filepath.Join(dir, "clicks/dt=2026-11-04/part.csv")
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	b[len(b)-1-len("1,i9,u9")] ^= 1 // a digit
	fatal.If(t, os.WriteFile(path, b, 0o644))
	if o = run(t, dir, "train", "-by", "dt", "-plan"); o.code != 0 || !strings.Contains(o.stderr, "late: dt=2026-11-04: its files have changed") {
		t.Errorf("a corrected label: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if strings.Contains(o.stderr, " rows kept") {
		t.Errorf("lines about what is kept:\n%s", o.stderr)
	}
	clicksOf(t, dir, 7)
	if o = run(t, dir, "train", "-by", "dt", "-plan", "-set", "data.test=[none.csv]"); o.code != 1 || !strings.Contains(o.stderr, "none.csv") {
		t.Errorf("-plan with a missing file: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = run(t, dir, "-json", "train", "-by", "dt", "-again", "2026-11-02")
	if d, _ = walked(t, dir); o.code != 0 || len(d.Days) != 5 || d.Days[3].Day != "2026-11-02" || d.Days[3].Rows != 201 || d.Days[4].Day != "2026-11-07" || !d.Days[3].Seen || d.Days[4].Seen || d.Days[3].Again != "2026-11-02" {
		t.Errorf("exit code %d, ledger %+v\n%s", o.code, d.Days, o.stderr)
	}
	if o = run(t, dir, "train", "-by", "dt"); o.code != 0 || !strings.Contains(o.stdout, "nothing new") || strings.Contains(o.stderr, "older than the model") {
		t.Errorf("partitions that were skipped are named again: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if o = run(t, dir, "runs"); !strings.Contains(o.stdout, "day_auc") || !strings.Contains(o.stdout, "2026-11-07") {
		t.Errorf("runs:\n%s", o.stdout)
	}
	if o = run(t, dir, "runs", "diff", "runs/"+d.Days[0].Run, "latest"); o.code != 0 || !strings.Contains(o.stdout, "rows of table item") || !strings.Contains(o.stdout, "data.train") {
		t.Errorf("runs diff: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestWalkGoesOnAfterOtherTrainings: a training -from a model of -by, without -by, takes its ledger over and
// adds its own partitions, so -by neither names those before it as new nor trains on them again.
func TestWalkGoesOnAfterOtherTrainings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clicksOf(t, dir, 1, 2)
	write(t, dir, "ctr.yaml", walkConfig)
	train := func(args ...string) outcome {
		t.Helper()
		o := run(t, dir, append([]string{"train"}, args...)...)
		if o.code != 0 {
			t.Fatalf("%q: exit code %d\n%s", args, o.code, o.stderr)
		}
		return o
	}
	train("-config", "ctr.yaml", "-by", "dt")
	clicksOf(t, dir, 3, 4, 5)
	train("-from", "latest", "-set", "data.train=[clicks/dt=2026-11-03/*.csv]")
	d, _ := walked(t, dir)
	if n := len(d.Days); n != 3 || d.By != "dt" || d.Days[2].Day != "2026-11-03" || d.Days[2].Rows != 200 || d.Days[2].Step <= d.Days[1].Step || d.Days[2].Mark == "" || d.Days[2].Run == d.Days[1].Run {
		t.Fatalf("the ledger: %+v", d)
	}
	train("-from", "latest", "-set", "data.train=[clicks/dt=2026-11-03/*.csv,clicks/dt=2026-11-04/*.csv]")
	o := train("-config", "ctr.yaml", "-by", "dt")
	if d, _ = walked(t, dir); len(d.Days) != 6 || !d.Days[3].Seen || d.Days[3].Rows != 0 || d.Days[3].Step == 0 || d.Days[5].Day != "2026-11-05" || strings.Contains(o.stderr, "older than the model") || strings.Contains(o.stderr, "late:") {
		t.Errorf("the ledger: %+v\n%s", d.Days, o.stderr)
	}
	train("-config", "ctr.yaml", "-by", "dt", "-again", "2026-11-01")
	if o = train("-config", "ctr.yaml", "-by", "dt"); !strings.Contains(o.stdout, "was trained up to dt=2026-11-05\n") {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
	o = run(t, dir, "report", "latest")
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	fatal.If(t, err)
	if text := string(page); o.code != 0 || !strings.Contains(text, "2026-11-02</td>") || !strings.Contains(text, "The training began with the model of another run") {
		t.Errorf("report: exit code %d\n%s", o.code, o.stderr)
	}
	if o = run(t, dir, "runs"); strings.Count(o.stdout, "not comparable") > 1 {
		t.Errorf("runs:\n%s", o.stdout)
	}
	if o = run(t, dir, "train", "-config", "ctr.yaml", "-by", "dx", "-out", "others"); o.code != 1 || strings.Contains(o.stderr, "begins a new model") {
		t.Errorf("without such folders: exit code %d\n%s", o.code, o.stderr)
	}
}

// TestWalkTakesTheModelInMemory: a partition begins with the tables that the evaluation of the model
// before it has loaded. It gives the model of train -from, which loads them from the checkpoint.
func TestWalkTakesTheModelInMemory(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	for np := 1; np <= patient.Size(2, 4); np *= 2 {
		dir := t.TempDir()
		clicksOf(t, dir, 1, 2)
		write(t, dir, "ctr.yaml", walkConfig)
		ranks := []string{"-np", fmt.Sprint(np), "train", "-config", "ctr.yaml"}
		if o := run(t, dir, append(ranks, "-by", "dt")...); o.code != 0 {
			t.Fatalf("exit code %d\n%s", o.code, o.stderr)
		}
		d, _ := walked(t, dir)
		from := []string{"-from", "runs/" + d.Days[0].Run, "-set", "data.train=[clicks/dt=2026-11-02/*.csv]", "-out", "single"}
		if o := run(t, dir, append(ranks, from...)...); o.code != 0 {
			t.Fatalf("exit code %d\n%s", o.code, o.stderr)
		}
		var sums [2]string
		for i, out := range []string{"runs", "single"} {
			c, err := checkpoint.Open(checkpoint.Dir(filepath.Join(rundir.Real(filepath.Join(dir, out, "latest")), checkpoint.Folder), d.Days[1].Step))
			fatal.If(t, err)
			for _, name := range c.Names() {
				if name == "dense" || strings.HasPrefix(name, "sparse/") {
					sums[i] += name + " " + c.Checksum(name) + "\n"
				}
			}
		}
		if sums[0] != sums[1] || strings.Count(sums[0], "\n") < 20 {
			t.Errorf("%d ranks: the walk has\n%sbut train -from\n%s", np, sums[0], sums[1])
		}
	}
}

// sumsOf returns the checksums of what a checkpoint has of its model.
func sumsOf(t testing.TB, dir string) (sums string) {
	c, err := checkpoint.Open(dir)
	fatal.If(t, err)
	for _, name := range c.Names() {
		if name != "config" && name != "cursor" {
			sums += name + " " + c.Checksum(name) + "\n"
		}
	}
	return sums
}

// ledger returns the days of a walk without what differs between two equal ones.
func ledger(t testing.TB, dir string) (days string, last string) {
	d, err := rundir.ReadDays(rundir.Real(filepath.Join(dir, "runs", "latest")))
	fatal.If(t, err)
	for i := range d.Days {
		last = d.Days[i].Run
		d.Days[i].Seconds, d.Days[i].Run, d.Days[i].Times = 0, "", ""
	}
	b, err := json.Marshal(d)
	fatal.If(t, err)
	return string(b), last
}

// TestWalkKeepsTheModel: a command that trains on several partitions keeps the model in memory from one to
// the next. The models and the ledger are those of one command a partition, which loads it from a
// checkpoint: with admission, eviction, early stopping, a second training, a gate, removal of rows, and
// a partition that is skipped.
func TestWalkKeepsTheModel(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	const last, empty = 5, 3
	for name, change := range map[string][2]string{
		"plain":  {"", ""},
		"rows":   {"train: {", "tables: [{name: user, admit: {after: 3}, evict: {age: 9, half_life: 5, max_rows: 20}}]\ntrain: {optimizer: {deep: {kind: adam}}, "},
		"best":   {"epochs: 1", "epochs: 4, early_stop: {patience: 1}"},
		"refit":  {"epochs: 1", "epochs: 4, early_stop: {patience: 2}, refit: true"},
		"gate":   {"epochs: 1", "epochs: 1, gate: {metric: logloss, tolerance: 0.9, data: next}"},
		"retain": {"epochs: 1", "epochs: 1, retain: {days: 2}"},
		"dense":  {"epochs: 1", "epochs: 1, l2: {deep: 0.01, mode: dense}"},
	} {
		t.Run(name, func(t *testing.T) {
			config := strings.Replace(walkConfig, change[0], change[1], 1)
			if name == "best" || name == "refit" {
				config = strings.Replace(config, "header: true", "header: true, valid_fraction: 0.2", 1)
			}
			for np := 1; np <= 2; np++ {
				var sums, days [2]string
				for i := range 2 {
					dir := t.TempDir()
					write(t, dir, "ctr.yaml", config)
					walk := func() {
						if o := run(t, dir, "-np", fmt.Sprint(np), "train", "-config", "ctr.yaml", "-by", "dt"); o.code != 0 {
							t.Fatalf("exit code %d\n%s", o.code, o.stderr)
						}
					}
					for day := 1; day <= last; day++ {
						if clicksOf(t, dir, day); day == empty && name != "gate" {
							write(t, dir, fmt.Sprintf("clicks/dt=2026-11-%02d/part.csv", day), "clicked,item,user\n")
						}
						if i == 1 {
							walk()
						}
					}
					if i == 0 {
						walk()
					}
					var run string
					days[i], run = ledger(t, dir)
					found, err := checkpoint.List(filepath.Join(dir, "runs", run, checkpoint.Folder))
					fatal.If(t, err)
					for _, f := range found {
						sums[i] += filepath.Base(f.Dir) + "\n" + sumsOf(t, f.Dir)
					}
				}
				if sums[0] != sums[1] || strings.Count(sums[0], "\n") < 20 {
					t.Errorf("%d ranks: the model is\n%s, with one command a partition\n%s", np, sums[0], sums[1])
				}
				if days[0] != days[1] || !strings.Contains(days[0], "2026-11-02") {
					t.Errorf("%d ranks: the ledger is\n%s, with one command a partition\n%s", np, days[0], days[1])
				}
			}
		})
	}
}

// TestWalkRestarts: a rank that is killed during the third partition of a command is started again, and the
// walk continues there. The models have the bits of an undisturbed walk.
func TestWalkRestarts(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	var sums, days [2]string
	for i, chaos := range [][]string{nil, {"-chaos", "kill:0@step10"}} {
		dir := t.TempDir()
		clicksOf(t, dir, 1, 2, 3, 4)
		write(t, dir, "ctr.yaml", walkConfig)
		o := run(t, dir, append([]string{"-np", "2", "-restarts", "3", "train", "-config", "ctr.yaml", "-by", "dt"}, chaos...)...)
		if o.code != 0 || i == 1 && !strings.Contains(o.stderr, "2 ranks start again") || strings.Count(o.stdout, "2026-11-0") != 4 {
			t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
		}
		var run string
		days[i], run = ledger(t, dir)
		found, err := checkpoint.List(filepath.Join(dir, "runs", run, checkpoint.Folder))
		fatal.If(t, err)
		sums[i] = sumsOf(t, found[0].Dir)
	}
	if sums[0] != sums[1] || days[0] != days[1] {
		t.Errorf("the model and the ledger are\n%s%s, undisturbed\n%s%s", sums[1], days[1], sums[0], days[0])
	}
}

// TestWalkKilledAnywhere: a walk whose launcher is killed at random moments, and started again,
// ends with the bits and the ledger of an undisturbed one; the link latest always leads to a run.
func TestWalkKilledAnywhere(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	calm, dir := t.TempDir(), t.TempDir()
	for _, d := range []string{calm, dir} {
		clicksOf(t, d, 1, 2, 3, 5)
		write(t, d, "ctr.yaml", walkConfig)
	}
	flags := []string{"-np", "2", "train", "-config", "ctr.yaml", "-by", "dt"}
	began := time.Now()
	if o := run(t, calm, flags...); o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	usual := time.Since(began)
	want, bits := walked(t, calm)
	times, until := patient.Size(6, 50), time.Now().Add(3*time.Minute)
	for i := range times {
		// A busy machine walks slowly: the times of all kills then share what is left of three minutes.
		longest := min(float64(usual)/2, 2*float64(max(0, time.Until(until)))/float64(times-i))
		cmd := command(t, dir, flags...)
		fatal.If(t, cmd.Start())
		time.Sleep(time.Duration(rand.Float64() * longest))
		cmd.Process.Signal(syscall.SIGKILL)
		end(t, cmd)
		link := filepath.Join(dir, "runs", "latest")
		if _, err := os.Lstat(link); err == nil {
			if _, err := os.Stat(filepath.Join(link, rundir.FileResult)); err != nil {
				t.Fatalf("killed %d times: %v", i+1, err)
			}
		}
	}
	if o := run(t, dir, flags...); o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	got, last := walked(t, dir)
	samePart(t, fmt.Sprintf("killed %d times", times), last, bits)
	for i := range got.Days {
		g, w := got.Days[i], want.Days[i]
		g.Seconds, g.Run, g.Times, w.Seconds, w.Run, w.Times = 0, "", "", 0, "", ""
		a, _ := json.Marshal(g)
		b, _ := json.Marshal(w)
		if string(a) != string(b) {
			t.Errorf("day %d: %s, want %s", i, a, b)
		}
	}
}

// TestWalkOverHosts: -by trains over two hosts. One of them leaves during a partition; that partition
// and those after it are trained on the other, and the models have the bits of a walk on one host.
func TestWalkOverHosts(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := newCluster(t, 2)
	clicksOf(t, c.folder, 1, 2, 3)
	write(t, c.folder, "ctr.yaml", strings.Replace(walkConfig, "epochs: 1, batch: 32", "epochs: 20, slots: 4, global_batch: 32", 1))
	flags := []string{"train", "-config", "ctr.yaml", "-by", "dt"}
	if o := run(t, c.folder, append(append([]string{"-np", "2"}, flags...), "-out", "calm")...); o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	cmd := c.launch(t, append([]string{"-H", "a:2,b:2", "-restarts", "3", "-min-np", "2"}, flags...)...)
	fatal.If(t, cmd.Start())
	eventually(t, "steps of the second partition", func() bool {
		found, _ := filepath.Glob(filepath.Join(c.folder, "runs", "2*", "metrics.jsonl"))
		return len(found) > 1
	})
	for _, pid := range c.ranksOn(1) {
		kill(t, pid, syscall.SIGTERM)
	}
	o := end(t, cmd)
	if o.code != 0 || !strings.Contains(o.stderr, "host b leaves: 2 ranks continue without it") {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	var days, scores [2]string
	for i, out := range []string{"calm", "runs"} {
		d, err := rundir.ReadDays(rundir.Real(filepath.Join(c.folder, out, "latest")))
		fatal.If(t, err)
		for j := range d.Days {
			d.Days[j].Seconds, d.Days[j].Run = 0, ""
		}
		b, _ := json.Marshal(d.Days)
		days[i] = string(b)
		o := run(t, c.folder, "predict", "-resume", out+"/latest", "-data", "clicks/dt=2026-11-03/*.csv", "-out", "-")
		if scores[i] = o.stdout; o.code != 0 {
			t.Errorf("predict: %s", o.stderr)
		}
	}
	if days[0] != days[1] || len(scores[0]) < 1000 || scores[0] != scores[1] {
		t.Errorf("the days are %s, on one host %s; equal scores: %v", days[1], days[0], scores[0] == scores[1])
	}
	c.empty(t)
}

// TestWalkPassesOverTimelessPartitions: with data.valid_time, a partition without rows, or whose rows have
// one time, is named, and the next one follows. -plan says which partition waits for a gate.
func TestWalkPassesOverTimelessPartitions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for day := range 4 {
		var b strings.Builder
		b.WriteString("clicked,item,user,at\n")
		for i := range 300 {
			at := i
			if day == 2 {
				at = 7
			}
			if day != 1 {
				fmt.Fprintf(&b, "%d,i%d,u%d,%d\n", i*i%3%2, i%20, i%7, at)
			}
		}
		folder := filepath.Join(dir, "clicks", fmt.Sprintf("dt=2026-11-%02d", day+1))
		fatal.If(t, os.MkdirAll(folder, 0o755))
		write(t, folder, "part.csv", b.String())
	}
	write(t, dir, "ctr.yaml", strings.Replace(walkConfig, "header: true", "header: true, valid_fraction: 0.2, valid_time: at", 1))
	o := run(t, dir, "train", "-config", "ctr.yaml", "-by", "dt", "-plan", "-set", "train.gate.metric=logloss", "-set", "train.gate.data=next")
	if o.code != 0 || !strings.Contains(o.stdout, "of which 3 are trained on next") || strings.Count(o.stdout, "waits for the partition after it") != 1 {
		t.Errorf("-plan: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = run(t, dir, "train", "-config", "ctr.yaml", "-by", "dt")
	for _, want := range []string{"dt=2026-11-02 is not trained on: ", "dt=2026-11-03 is not trained on: hold out: all 300 records have the same time"} {
		if o.code != 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("exit code %d, no line %q\n%s%s", o.code, want, o.stdout, o.stderr)
		}
	}
	if d, _ := walked(t, dir); len(d.Days) != 2 {
		t.Errorf("the ledger: %+v", d.Days)
	}
}

// TestWalkLearnsALateColumn: a column that is empty in the first partition gets the statistics of the first
// partition that has values of it, which one line names, and the model learns from it.
func TestWalkLearnsALateColumn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(5, 6))
	for day := 1; day <= 4; day++ {
		var b strings.Builder
		b.WriteString("clicked,item,price\n")
		for range 2000 {
			price := 100 + 20*r.NormFloat64()
			text := fmt.Sprintf("%.2f", price)
			if day == 1 {
				text = ""
			}
			clicked := 0
			if price+10*r.NormFloat64() > 105 {
				clicked = 1
			}
			fmt.Fprintf(&b, "%d,i%d,%s\n", clicked, r.IntN(20), text)
		}
		folder := filepath.Join(dir, "clicks", fmt.Sprintf("dt=2026-11-%02d", day))
		fatal.If(t, os.MkdirAll(folder, 0o755))
		write(t, folder, "part.csv", b.String())
	}
	for _, encode := range []string{"standardise", "quantile, buckets: 16"} {
		config := strings.Replace(walkConfig, "  - {field: user, encode: hash}", "  - {field: price, encode: "+encode+"}", 1)
		write(t, dir, "ctr.yaml", config)
		out := "runs-" + encode[:4]
		o := run(t, dir, "train", "-config", "ctr.yaml", "-by", "dt", "-out", out)
		const line = "price: statistics of this data, because the training data of the model has no value of it"
		if o.code != 0 || strings.Count(o.stderr, line) != 1 {
			t.Errorf("%s: exit code %d, the line is there %d times\n%s", encode, o.code, strings.Count(o.stderr, line), o.stderr)
		}
		d, err := rundir.ReadDays(rundir.Real(filepath.Join(dir, out, "latest")))
		fatal.If(t, err)
		if n := len(d.Days); n != 4 || d.Days[1].AUC == nil || *d.Days[1].AUC > 0.6 || *d.Days[3].AUC < 0.8 {
			t.Errorf("%s: the ledger: %+v", encode, d.Days)
		}
	}
}

// usersOf writes days of clicks of the users that seen returns for each.
func usersOf(t testing.TB, dir string, days int, seen func(day int) []int) {
	for day := range days {
		var b strings.Builder
		b.WriteString("clicked,user\n")
		for i := range 40 {
			for _, u := range seen(day) {
				fmt.Fprintf(&b, "%d,u%d\n", i*u%3&1, u)
			}
		}
		folder := filepath.Join(dir, "clicks", fmt.Sprintf("dt=2026-11-%02d", day+1))
		fatal.If(t, os.MkdirAll(folder, 0o755))
		write(t, folder, "part.csv", b.String())
	}
}

// TestWalkRetires: with train.retain, the rows that no partition of the last days contained are removed
// before each partition, on 1 and 2 ranks, and the ledger, runs and the report count them. A value that
// returns gets a new row. Steps that the model has not taken, after its best epoch or in the first of two
// trainings, do not count.
func TestWalkRetires(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	const last, span, keep = 7, 6, 2
	seen := func(day int) (users []int) { // each day one user is new; user 0 returns on day 6
		for u := day; u < day+span; u++ {
			users = append(users, u)
		}
		if day == 6 {
			users = append(users, 0)
		}
		return users
	}
	for i, epochs := range []string{"1", "1", "6, early_stop: {patience: 2}", "4, early_stop: {patience: 2}, refit: true"} {
		np, hold := 1+i%2, ""
		if i > 1 {
			hold = ", valid_fraction: 0.2"
		}
		dir := t.TempDir()
		usersOf(t, dir, last, seen)
		write(t, dir, "ctr.yaml", fmt.Sprintf(`data: {train: ["clicks/dt=*/*.csv"], header: true%s}
label: {field: clicked}
features: [{field: user, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train: {epochs: %s, batch: 32, seed: 3, retain: {days: %d}}
`, hold, epochs, keep))
		if o := run(t, dir, "-np", fmt.Sprint(np), "train", "-config", "ctr.yaml", "-by", "dt"); o.code != 0 {
			t.Fatalf("exit code %d\n%s", o.code, o.stderr)
		}
		d, err := rundir.ReadDays(rundir.Real(filepath.Join(dir, "runs", "latest")))
		fatal.If(t, err)
		at := map[int]int{} // by user with a row: its last day
		for day := range last {
			retired, added := 0, 0
			for u, of := range at {
				if of+1 <= day-keep { // that day ended as many days before
					delete(at, u)
					retired++
				}
			}
			for _, u := range seen(day) {
				if _, has := at[u]; !has {
					added++
				}
				at[u] = day
			}
			if got := d.Days[day]; got.Retired != int64(retired) || got.Keys != int64(added) {
				t.Errorf("epochs: %s, day %d: %d rows retired, %d new, want %d and %d", epochs, day+1, got.Retired, got.Keys, retired, added)
			}
			if day == 6 && (retired == 0 || added != 2) {
				t.Errorf("the test expects %d rows retired, %d new", retired, added)
			}
		}
		var r struct{ Tables []struct{ Rows int64 } }
		b, err := os.ReadFile(filepath.Join(dir, "runs", "latest", rundir.FileResult))
		fatal.If(t, err)
		if fatal.If(t, json.Unmarshal(b, &r)); len(r.Tables) != 1 || r.Tables[0].Rows != int64(len(at)) {
			t.Errorf("%d ranks: tables %+v, want %d rows", np, r.Tables, len(at))
		}
		if o := run(t, dir, "report", "latest"); o.code != 0 {
			t.Fatalf("report: %s", o.stderr)
		}
		page, err := os.ReadFile(filepath.Join(dir, "report.html"))
		fatal.If(t, err)
		if !strings.Contains(string(page), "<th>retired rows</th>") {
			t.Error("the report does not count retired rows")
		}
	}
}
