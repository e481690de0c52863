package jobs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// fakeSrun returns a folder with a program srun that runs steps on this machine. It rejects node
// n9, which is not in the allocation.
func fakeSrun(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "srun", `#!/bin/sh
for word; do case $word in --nodelist=*) node=${word#*=} ;; --*) ;; *) break ;; esac; shift; done
[ "$node" = n9 ] && { echo "srun: error: Unable to create step for job 7: Requested node configuration is not available" >&2; exit 1; }
export HOME=`+dir+`/$node SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1
mkdir -p $HOME && exec "$@"
`)
	fatal.If(t, os.Chmod(filepath.Join(dir, "srun"), 0o700))
	return dir
}

// TestSrun starts jobs in an allocation with a script in place of srun.
func TestSrun(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), fakeSrun(t)
	within := func(nodes, tasks string, args ...string) outcome {
		cmd := command(t, dir, args...)
		cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST="+nodes, "SLURM_TASKS_PER_NODE="+tasks)
		fatal.If(t, cmd.Start())
		return end(t, cmd)
	}
	own, err := os.Hostname()
	fatal.If(t, err)
	for _, x := range []struct {
		nodes, tasks string
		flags        []string
		code         int
		want         string
	}{
		{"n[1-2]", "2,1", nil, 0, "0 of 3 on n1\n1 of 3 on n1\n2 of 3 on n2\n"},
		{"n[1-2]", "2(x2)", []string{"-np", "1"}, 0, "0 of 1 on n1\n"},
		{"n[1-2]", "1(x2)", []string{"-np", "3"}, 1, "-np 3 needs as many slots, and the hosts have 2 slots: "},
		{"n[1,9]", "1(x2)", nil, 1, "wdlrun: host n9: Slurm did not run a step there: srun ended with exit code 1: srun: error: Unable to create step for job 7: Requested node configuration is not available; try: srun --overlap -N1 -n1 -w n9 true"},
		{"n[1-2", "1(x2)", nil, 1, `wdlrun: hosts: SLURM_JOB_NODELIST="n[1-2"`},
		{own, "1", []string{"-np", "2"}, 0, "0 of 2 on\n1 of 2 on\n"}, // on this machine alone the allocation sets no limit
	} {
		o := within(x.nodes, x.tasks, append(append([]string{"-output", "merged"}, x.flags...), "sh", "-c", "echo $WDLRUN_RANK of $WDLRUN_SIZE on $WDLRUN_HOST")...)
		lines := slices.Sorted(strings.Lines(o.stdout)) // the order of the ranks' lines is arbitrary
		if o.code != x.code || !strings.Contains(strings.Join(lines, "")+o.stderr, x.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", x.nodes, o.code, x.code, x.want, o.stdout, o.stderr)
		}
	}
}

// TestResumeAuto: -resume auto continues the newest run of a folder if it has a checkpoint.
func TestResumeAuto(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	flags := append(few(t), "-resume", "auto", "-set", "train.checkpoint.every_steps=5")
	first := train(t, dir, 1, append(flags, "-set", "train.epochs=1")...)
	again := train(t, dir, 2, append(flags, "-set", "train.epochs=2")...)
	if again.RunDir != first.RunDir || again.Steps != 2*first.Steps {
		t.Errorf("%d steps in %s, want to continue after %d in %s", again.Steps, again.RunDir, first.Steps, first.RunDir)
	}
	newer := filepath.Join(dir, filepath.Dir(first.RunDir), "99999999-000000")
	fatal.If(t, os.Mkdir(newer, 0o755))
	write(t, newer, "metrics.jsonl", "")
	if fresh := train(t, dir, 1, append(flags, "-set", "train.epochs=1")...); fresh.RunDir == first.RunDir || fresh.Steps != first.Steps {
		t.Errorf("%d steps in %s, though the newest run has no checkpoint", fresh.Steps, fresh.RunDir)
	}
}

// slurm is a Slurm cluster of four nodes n1 … n4 on this machine, each with its own namespaces.
type slurm struct {
	folder string   // that all nodes see
	hub    string   // process id of the namespaces of the controller
	nodes  []string // of the nodes
}

// newSlurm starts a Slurm cluster. It skips the test if that is impossible.
func newSlurm(t *testing.T) *slurm {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("simulating nodes needs root")
	}
	for _, tool := range []string{"slurmctld", "slurmd", "sbatch", "srun", "nsenter", "unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: install slurm-wlm, util-linux and iproute2", err)
		}
	}
	folder, err := os.MkdirTemp("/var/tmp", "wdlrun-slurm-")
	fatal.If(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	s := &slurm{folder: folder, hub: machine(t, "controller")}
	c := &cluster{}
	c.do(t, s.hub, "ip link add br0 type bridge; ip addr add 10.79.0.254/24 dev br0; ip link set br0 up; ip link set lo up; mkdir "+folder+"/state")
	config := fmt.Sprintf(`ClusterName=wdlrun
SlurmctldHost=controller(10.79.0.254)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool-%%n
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/slurmd-%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
`, folder)
	for i := range 4 {
		config += fmt.Sprintf("NodeName=n%d NodeAddr=10.79.0.%[1]d CPUs=8 State=UNKNOWN\n", i+1)
	}
	write(t, folder, "slurm.conf", config+"PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")
	s.serve(t, s.hub, "slurmctld -D")
	for i := range 4 {
		pid := machine(t, fmt.Sprint("n", i+1))
		c.do(t, s.hub, fmt.Sprintf("ip link add v%d type veth peer name eth0 netns %s; ip link set v%[1]d master br0 up", i+1, pid))
		c.do(t, pid, fmt.Sprintf("ip addr add 10.79.0.%d/24 dev eth0; ip link set eth0 up; ip link set lo up", i+1))
		s.serve(t, pid, fmt.Sprintf("slurmd -D -N n%d", i+1))
		s.nodes = append(s.nodes, pid)
	}
	eventually(t, "four idle nodes", func() bool {
		out, err := s.in("sinfo", "-h", "-o", "%T %D").Output()
		return err == nil && string(out) == "idle 4\n"
	})
	return s
}

// serve runs a daemon in namespaces until the test ends.
func (s *slurm) serve(t *testing.T, pid, daemon string) {
	t.Helper()
	cmd := exec.Command("nsenter", "-t", pid, "-m", "-n", "-u", "sh", "-c", daemon+" -f "+s.folder+"/slurm.conf >/dev/null 2>&1 & cat; kill -9 $!")
	in, err := cmd.StdinPipe() // closed with this process
	fatal.If(t, err)
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Wait() })
}

// in prepares a command of Slurm on the controller.
func (s *slurm) in(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", s.hub, "-m", "-n", "-u", "--wd=" + s.folder}, args...)...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+s.folder+"/slurm.conf")
	return cmd
}

// submit submits a batch script and returns the number of the job.
func (s *slurm) submit(t *testing.T, script string) (job string) {
	t.Helper()
	write(t, s.folder, "job.sh", script)
	out, err := s.in("sbatch", "--parsable", "--output=%j.txt", "job.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// printed returns the output of a job so far.
func (s *slurm) printed(job string) string {
	b, _ := os.ReadFile(filepath.Join(s.folder, job+".txt"))
	return string(b)
}

// gone waits until a job has ended and its processes have ended on all nodes.
func (s *slurm) gone(t *testing.T, job string) {
	t.Helper()
	c := &cluster{hosts: s.nodes}
	eventually(t, "the end of all processes on all nodes", func() bool {
		out, err := s.in("squeue", "-h", "-j", job).Output()
		n := 0
		for i := range c.hosts {
			for _, pid := range c.processes(i) {
				if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); !bytes.Contains(args, []byte("slurm")) {
					n++
				}
			}
		}
		return err == nil && len(out) == 0 && n == 0
	})
}

// TestSlurm trains on four nodes of a real Slurm cluster with the script of docs/running.md.
func TestSlurm(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	b, err := os.ReadFile("../../docs/running.md")
	fatal.If(t, err)
	_, section, _ := strings.Cut(string(b), "\n## Slurm\n")
	_, script, _ := strings.Cut(section, "    #!/bin/bash\n")
	script, _, found := strings.Cut("#!/bin/bash\n"+strings.ReplaceAll(script, "\n    ", "\n"), "\n\n")
	script = strings.ReplaceAll(strings.TrimSpace(script), "\n    ", "\n") + "\n"
	if !found || !strings.Contains(script, "\nwdlrun train ") {
		t.Fatalf("docs/running.md has no script for Slurm, only %q", script)
	}
	script = strings.Replace(script, "--ntasks-per-node=8", "--ntasks-per-node=2", 1)
	s := newSlurm(t)
	bin, err := wdlrun()
	fatal.If(t, err)
	// Each node has its own /tmp.
	if out, err := exec.Command("cp", bin, filepath.Join(s.folder, "wdlrun")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script = strings.Replace(script, "\nwdlrun ", "\n./wdlrun ", 1)
	adult, err := os.ReadFile("../../internal/config/adult.yaml")
	fatal.If(t, err)
	write(t, s.folder, "ctr.yaml", string(adult))
	t.Run("cancel", func(t *testing.T) { s.cancel(t, script) })
	t.Run("bits", func(t *testing.T) { s.sameBits(t, script) })
	t.Run("requeue", func(t *testing.T) { s.requeue(t, script) })
	t.Run("lost", func(t *testing.T) { s.lost(t, script) })
}

// with adds flags to the training of a script.
func with(script, flags string) string { return strings.TrimSpace(script) + " " + flags + "\n" }

// sameBits compares a training on four nodes with one rank on this machine.
func (s *slurm) sameBits(t *testing.T, script string) {
	flags := "-set train.slots=8 -set train.epochs=1 -set train.global_batch=1024"
	o := run(t, s.folder, append([]string{"train", "--json", "-out", "alone"}, strings.Fields(flags)...)...)
	if o.code != 0 {
		t.Fatal(o)
	}
	one := parseTrained(t, o)
	job := s.submit(t, with(script, flags+" --json"))
	s.gone(t, job)
	said := s.printed(job)
	if want := "4 hosts exchange over 10.79.0.0/24: n1 10.79.0.1, n2 10.79.0.2, n3 10.79.0.3, n4 10.79.0.4"; !strings.Contains(said, want) {
		t.Fatalf("%q is missing:\n%s", want, said)
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	eight := parseTrained(t, outcome{stdout: lines[len(lines)-1]})
	if eight.WorldSize != 8 || eight.AUC != one.AUC || eight.LogLoss != one.LogLoss {
		t.Errorf("four nodes: %+v, one rank: %+v", eight, one)
	}
	sameModel(t, s.folder, one, eight)
}

// cancel cancels a training, which writes a checkpoint. The same script resumes from it.
func (s *slurm) cancel(t *testing.T, script string) {
	script = with(script, "-out cancelled -set train.epochs=1000")
	job := s.submit(t, script)
	s.trains(t, job)
	if out, err := s.in("scancel", job).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.gone(t, job)
	_, step, found := strings.Cut(s.printed(job), "\nstopped after step ")
	if said := s.printed(job); strings.Count(said, "CANCELLED") != 1 { // by Slurm, for the script
		t.Errorf("want one line about the end of the job:\n%s", said)
	}
	if !found {
		t.Fatalf("no checkpoint was written:\n%s", s.printed(job))
	}
	step, _, _ = strings.Cut(step, ",")
	job = s.submit(t, script)
	s.trains(t, job)
	if want := "training resumes after step " + step + ","; !strings.Contains(s.printed(job), want) {
		t.Errorf("%q is missing:\n%s", want, s.printed(job))
	}
	if out, err := s.in("scancel", "-s", "TERM", job).CombinedOutput(); err != nil { // as --signal=TERM@120 does
		t.Fatalf("%v: %s", err, out)
	}
	s.gone(t, job)
	if !strings.Contains(s.printed(job), "\nstopped after step ") {
		t.Errorf("no checkpoint was written:\n%s", s.printed(job))
	}
}

// requeue requeues a training. It writes a checkpoint, and the same job resumes from it.
func (s *slurm) requeue(t *testing.T, script string) {
	script = strings.Replace(script, "\n#SBATCH ", "\n#SBATCH --open-mode=append ", 1)
	job := s.submit(t, with(script, "-out requeued -set train.epochs=1000"))
	s.trains(t, job)
	if out, err := s.in("scontrol", "requeue", job).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var step string
	eventually(t, "a checkpoint", func() bool {
		_, after, _ := strings.Cut(s.printed(job), "\nstopped after step ")
		var whole bool // the line may be written in part
		step, _, whole = strings.Cut(after, ",")
		return whole
	})
	want := "training resumes after step " + step + ","
	eventually(t, want, func() bool {
		s.in("scontrol", "update", "JobId="+job, "StartTime=now").Run() // Slurm delays requeued jobs
		return strings.Contains(s.printed(job), want)
	})
	if out, err := s.in("scancel", job).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.gone(t, job)
}

// trains waits until a job has completed steps.
func (s *slurm) trains(t *testing.T, job string) {
	t.Helper()
	eventually(t, "steps", func() bool { return strings.Contains(s.printed(job), "samples/s") })
}

// lost kills the host process of a node. The node is named once.
func (s *slurm) lost(t *testing.T, script string) {
	job := s.submit(t, with(script, "-out lost -set train.epochs=1000"))
	s.trains(t, job)
	kill(t, find((&cluster{hosts: s.nodes}).processes(2), "cmdline", "\x00__host\x00"), syscall.SIGKILL)
	s.gone(t, job)
	if said := s.printed(job); strings.Count(said, "wdlrun: host n3 (ranks 4, 5) was lost") != 1 || strings.Contains(said, "wdlrun: rank ") {
		t.Errorf("want host n3 named once:\n%s", said)
	}
}
