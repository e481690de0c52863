package hosts

import (
	"reflect"
	"strings"
	"testing"
)

func TestAllocation(t *testing.T) {
	for _, x := range []struct {
		nodes, tasks, step string
		want               []Node
		err                string
	}{
		{"n1", "2", "", []Node{{"n1", 2}}, ""},
		{"n[1-3,07],login", "8(x2),4,1(x2)", "4294967291", []Node{{"n1", 8}, {"n2", 8}, {"n3", 4}, {"n07", 1}, {"login", 1}}, ""},
		{"gpu[009-011]-ib,n[1,3]", "1(x5)", "", []Node{{"gpu009-ib", 1}, {"gpu010-ib", 1}, {"gpu011-ib", 1}, {"n1", 1}, {"n3", 1}}, ""},
		{"n[1-3]", "2(x3)", "0", nil, ""}, // a task of a step
		{"", "1", "", nil, ""},
		{"n[1-3]", "2(x2)", "", nil, "tasks of 3 nodes are expected"},
		{"n1", "2(x2)", "", nil, "tasks of 1 nodes are expected"},
		{"n1", "0", "", nil, "tasks of 1 nodes are expected"},
		{"n1", "", "", nil, `"" is not a number of tasks`},
		{"n[1-", "1", "", nil, `"n[1-" is not a list of nodes`},
		{"n[3-1]", "1", "", nil, `"3-1" is not a range of up to 16384 nodes`},
		{"n[1-99999999]", "1", "", nil, `"1-99999999" is not a range of up to 16384 nodes`},
		{"n[1-16000],m[1-16000]", "1", "", nil, "more than 16384 nodes"},
		{"a,,b", "1(x3)", "", nil, `"" is not a list of nodes`},
		{"a b", "1", "", nil, `"a b" is not a list of nodes`},
	} {
		env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": x.nodes, "SLURM_TASKS_PER_NODE": x.tasks, "SLURM_STEP_ID": x.step}
		got, err := Allocation(func(name string) string { return env[name] })
		if !reflect.DeepEqual(got, x.want) || (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%q %q: %v, %v\nwant %v, %s", x.nodes, x.tasks, got, err, x.want, x.err)
		}
	}
	// The shell of salloc -N1 -n2 : -N1 -n2 has no SLURM_JOB_NODELIST; a batch script has the first
	// component's, and tasks have the variables too.
	for _, x := range []struct{ list, step, err string }{{"", "", `SLURM_HET_SIZE="2": wdlrun would use only the first component`}, {"n1", "4294967291", "srun --het-group=0,1"}, {"n[1-2]", "0", ""}} {
		env := map[string]string{"SLURM_HET_SIZE": "2", "SLURM_JOB_ID": "4", "SLURM_JOB_NODELIST": x.list, "SLURM_TASKS_PER_NODE": "2", "SLURM_STEP_ID": x.step}
		got, err := Allocation(func(name string) string { return env[name] })
		if got != nil || (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("heterogeneous job, nodes %q, step %q: %v, %v, want %q", x.list, x.step, got, err, x.err)
		}
	}
	if got, err := Allocation(func(string) string { return "" }); got != nil || err != nil {
		t.Errorf("outside of an allocation: %v, %v", got, err)
	}
}

func FuzzAllocation(f *testing.F) {
	f.Add("n[1-3,07],login", "8(x2),4,1(x2)")
	f.Fuzz(func(t *testing.T, nodes, tasks string) {
		env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": nodes, "SLURM_TASKS_PER_NODE": tasks}
		got, err := Allocation(func(name string) string { return env[name] })
		if err == nil && nodes != "" && len(got) == 0 {
			t.Error("no nodes and no error")
		}
		for _, n := range got {
			if n.Name == "" || n.Tasks < 1 || strings.ContainsAny(n.Name, "[],") {
				t.Errorf("%+v", n)
			}
		}
	})
}

// TestWithoutTasks: a step uses its whole node, not the part of one task.
func TestWithoutTasks(t *testing.T) {
	got := withoutTasks([]string{"SLURM_CPUS_PER_TASK=4", "SLURM_JOB_ID=7", "SLURM_NTASKS=8", "HOME=/root"})
	if want := []string{"SLURM_JOB_ID=7", "HOME=/root"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCancelledSteps: of a job of many nodes that is cancelled, no line for each node is printed.
func TestCancelledSteps(t *testing.T) {
	var out strings.Builder
	to := &tail{to: withoutCancels{&out}, host: "n2"}
	to.pass()
	for _, line := range []string{
		"slurmstepd-n2: error: *** STEP 1.0 ON n2 CANCELLED AT 2026-11-30T23:17:44 ***",
		"slurmstepd: error: *** STEP 1.0 ON n2 CANCELLED AT 2026-11-30T23:17:44 DUE TO TIME LIMIT ***",
		"srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
		"srun: error: n2: task 0: Out Of Memory",
	} {
		to.Write([]byte(line + "\n"))
	}
	if want := "wdlrun: host n2: srun: error: n2: task 0: Out Of Memory\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
