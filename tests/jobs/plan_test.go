package jobs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// TestPlanOfATraining compares the plan of a training with its measurements. Planning trains
// nothing.
func TestPlanOfATraining(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	flags := []string{"-np", "3", "-transport", "tcp", "train", "-set", "train.epochs=1"}
	o := run(t, dir, append(flags, "-plan", "-json")...)
	var planned plan.Plan
	if err := json.Unmarshal([]byte(o.stdout), &planned); o.code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", o.code, err, o.stdout, o.stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("train -plan leaves files: %v, %v", left, err)
	}
	if o = run(t, dir, append(flags, "-plan")...); o.code != 0 || !strings.Contains(o.stdout, "3 ranks, 128 steps, 32561 samples an epoch") || !strings.Contains(o.stdout, "memory and bytes a step, by rank") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if o = run(t, dir, flags...); o.code != 0 || !strings.Contains(o.stdout, "planned ") || !strings.Contains(o.stderr, "exchange of tables: ") {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	results, err := filepath.Glob(filepath.Join(dir, "runs", "2*", "result.json"))
	if err != nil || len(results) != 1 {
		t.Fatalf("results %v, %v", results, err)
	}
	b, err := os.ReadFile(results[0])
	fatal.If(t, err)
	var r report.Result
	fatal.If(t, json.Unmarshal(b, &r))
	for i, x := range r.Ranks {
		if x.Planned.Bytes != planned.Ranks[i].MemoryBytes || x.Planned.Sent != planned.Ranks[i].WireBytes*r.Steps || x.Shards != planned.Ranks[i].Shards {
			t.Errorf("rank %d: %+v, planned %+v", i, x, planned.Ranks[i])
		}
		if got, want := float64(x.Bytes), float64(x.Planned.Bytes); got < want*0.8 || got > want*1.2 {
			t.Errorf("rank %d uses %.0f bytes of memory, planned %.0f", i, got, want)
		}
		if got, want := float64(x.Sent), float64(x.Planned.Sent); got < want*0.8 || got > want*1.2 {
			t.Errorf("rank %d sends %.0f bytes, planned %.0f", i, got, want)
		}
	}
}

// TestPlanHeedsTheLaunch: the plan depends on the launch flags. A configuration that training
// rejects is rejected by -plan too.
func TestPlanHeedsTheLaunch(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	planned := func(args string) (p plan.Plan) {
		t.Helper()
		o := run(t, dir, append(strings.Fields(args), "-plan", "-json")...)
		if err := json.Unmarshal([]byte(o.stdout), &p); o.code != 0 || err != nil {
			t.Fatalf("%s: exit code %d, %v\n%s%s", args, o.code, err, o.stdout, o.stderr)
		}
		return p
	}
	alone, copies := planned("-np 2 -transport tcp train"), planned("-np 2 -transport tcp train -replicas 2")
	if copies.MemoryBytes != 2*alone.MemoryBytes || !copies.Copies {
		t.Errorf("%d bytes of memory, with copies %d, want twice as many", alone.MemoryBytes, copies.MemoryBytes)
	}
	if copies.StepBytes <= alone.StepBytes {
		t.Errorf("%d bytes per step, with copies %d, want more", alone.StepBytes, copies.StepBytes)
	}
	for r, x := range copies.Ranks {
		if x.MemoryBytes != alone.MemoryBytes {
			t.Errorf("rank %d: %d bytes with copies, want the bytes of both ranks, %d", r, x.MemoryBytes, alone.MemoryBytes)
		}
	}
	wait, drop := planned("-np 3 train"), planned("-np 3 train -backup 1")
	if 2*drop.Steps != 3*wait.Steps {
		t.Errorf("%d steps, with 2 of 3 microbatches per step %d", wait.Steps, drop.Steps)
	}
	for _, x := range []struct{ args, want string }{
		{"-np 2 train -set train.slots=3", "3 slots on 2 ranks"},
		{"-np 2 -restarts 3 train -set train.slots=8 -set train.clip_norm=1", "train.clip_norm"},
		{"-np 2 train -backup 2", "-backup 2"},
		{"-np 2 train -replicas 2 -set data.follow.on=true -set train.epochs=1", "2 replicas: data.follow"},
		{"-np 2 train -set train.hot.keys=100", "hot keys were removed"},
		{"-np 2 train -replicas 2 -set model.batch_norm=true", "2 replicas: model.batch_norm"},
	} {
		for _, plan := range []string{"", " -plan"} {
			o := run(t, dir, strings.Fields(x.args+plan)...)
			if o.code != 1 || !strings.Contains(o.stderr, x.want) || strings.Count(o.stderr, "\n") != 1 || strings.Contains(o.stderr, "[0]") {
				t.Errorf("%s%s: exit code %d, want 1 and a line with %q\n%s", x.args, plan, o.code, x.want, o.stderr)
			}
		}
	}
	if o := run(t, dir, "train", "-plan", "-set", "data.follow.on=true", "-set", "train.epochs=1"); o.code != 1 || strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("plan of a stream: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("rejected and planned trainings leave files: %v, %v", left, err)
	}
}

// TestPlanOnACluster: -cluster computes the needs on hosts that need not exist, of which the plan of
// a training takes no notice.
func TestPlanOnACluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const hosts = "hosts=4,memory_gib=8,step_ms=20,keys=1e9"
	if o := run(t, dir, "-np", "8", "train", "-plan", "-cluster", hosts); o.code != 0 || !strings.Contains(o.stdout, "on 4 hosts of 8 GiB, 25 Gbit/s and 1 GB/s of disk, 2 ranks each") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o := run(t, dir, "-np", "8", "train", "-plan", "-json", "-cluster", hosts)
	var planned struct {
		Batch int         `json:"global_batch"`
		Scale *plan.Scale `json:"scale"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &planned); err != nil || planned.Scale == nil || planned.Scale.Rows != 1e9 || planned.Scale.Speed != float64(planned.Batch)/.02 {
		t.Errorf("exit code %d, %v\n%s%s", o.code, err, o.stdout, o.stderr)
	}
	for flags, want := range map[string]string{
		"-cluster hosts=4":       "give -plan too",
		"-plan -cluster hosts=3": "8 ranks cannot be divided",
		"-plan -cluster host=4":  "did you mean hosts?",
	} {
		if o := run(t, dir, append([]string{"-np", "8", "train"}, strings.Fields(flags)...)...); o.code == 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: exit code %d, want %q\n%s%s", flags, o.code, want, o.stdout, o.stderr)
		}
	}
}
