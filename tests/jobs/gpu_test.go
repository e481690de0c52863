//go:build gpu

package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/gpu/nccltest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// wdlrunGPU builds the command with support for GPUs, and the stand-in libraries in the same
// folder.
var wdlrunGPU = sync.OnceValues(func() (string, error) {
	if _, err := wdlrun(); err != nil { // the folder of the command is removed after the tests
		return "", err
	}
	bin := filepath.Join(built, "gpu", "wdlrun-gpu") // in a folder of its own, so that wdlrun does not execute it in other tests
	if err := os.Mkdir(filepath.Join(built, "gpu"), 0o755); err != nil {
		return "", err
	}
	if err := os.Link(filepath.Join(built, "wdlrun"), filepath.Join(built, "gpu", "wdlrun")); err != nil {
		return "", err
	}
	// go run, which built the default program, does not record the revision either.
	cmd := exec.Command("go", "build", "-buildvcs=false", "-tags", "gpu", "-ldflags=-w", "-o", bin, "../../cmd/wdlrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	files, err := cudatest.Build(built, kernel.PTX)
	if err == nil {
		err = os.Mkdir(withNCCL(), 0o755)
	}
	if err == nil {
		_, err = nccltest.BuildOver(withNCCL(), files.CUDA)
	}
	return bin, err
})

// withNCCL returns the folder of the stand-in for NCCL. Most of these tests do not use it.
func withNCCL() string { return filepath.Join(built, "nccl") }

// runGPU runs wdlrun-gpu on a simulated machine with two devices. The variables in environment
// change the machine.
func runGPU(t *testing.T, dir string, environment []string, args ...string) outcome {
	t.Helper()
	bin, err := wdlrunGPU()
	fatal.If(t, err)
	return runOnGPU(t, bin, dir, environment, args...)
}

func runOnGPU(t *testing.T, bin, dir string, environment []string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "LD_LIBRARY_PATH="+built, "STANDIN_DEVICES=2"), environment...)
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	fatal.If(t, cmd.Start())
	return end(t, cmd)
}

func trainGPU(t *testing.T, dir string, args ...string) trained {
	t.Helper()
	o := runGPU(t, dir, nil, args...)
	if o.code != 0 {
		t.Fatalf("%q: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
	}
	return parseTrained(t, o)
}

// TestGPUTrainsAsTheCPU: training on GPUs and on CPUs gives the same AUC. Evaluation of the GPU
// model on the CPU gives the metrics of the training. A training can resume on the other device.
func TestGPUTrainsAsTheCPU(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := train(t, dir, 2)
	got := trainGPU(t, dir, "-np", "2", "train", "--json", "-device", "gpu")
	if math.Abs(got.AUC-want.AUC) > .0005 || got.Steps != want.Steps || got.Samples != want.Samples {
		t.Errorf("AUC %v after %d steps, on the CPU %v after %d", got.AUC, got.Steps, want.AUC, want.Steps)
	}
	if got.TrainLogLoss == want.TrainLogLoss {
		t.Errorf("GPU and CPU have the same log-loss, %v: was the device used?", got.TrainLogLoss)
	}
	if e := parseTrained(t, run(t, dir, "eval", got.RunDir, "--json")); e.AUC != 0 && e.AUC != got.AUC {
		t.Errorf("AUC %v evaluated on the CPU, %v in the training", e.AUC, got.AUC)
	}
	more := []string{"--json", "-set", "train.epochs=6", "-resume"}
	onCPU := train(t, dir, 1, append(more[1:], got.RunDir, "-set", "train.device=cpu")...)
	onGPU := trainGPU(t, dir, append(append([]string{"-np", "1", "train", "-device", "gpu"}, more...), want.RunDir)...)
	if onCPU.Steps <= got.Steps || onGPU.Steps != onCPU.Steps || math.Abs(onCPU.AUC-onGPU.AUC) > .0005 {
		t.Errorf("resumed on the CPU: AUC %v after %d steps; on the device: %v after %d", onCPU.AUC, onCPU.Steps, onGPU.AUC, onGPU.Steps)
	}
	kind := []string{"-np", "2", "train", "--json", "-set", "model.kind=xdeepfm", "-set", "model.batch_norm=true", "-set", "train.epochs=1", "-device"}
	want, got = trainGPU(t, dir, append(kind, "cpu")...), trainGPU(t, dir, append(kind, "gpu")...)
	if math.Abs(got.AUC-want.AUC) > .0005 || got.Steps != want.Steps || got.TrainLogLoss == want.TrainLogLoss {
		t.Errorf("xdeepfm with batch normalisation: AUC %v after %d steps, on the CPU %v after %d", got.AUC, got.Steps, want.AUC, want.Steps)
	}
}

// TestGPUJobsRestart: 4 ranks have the AUC of 4 ranks on the CPU if each has its own device,
// sums by NCCL and one rank is lost at step 100. They also have it if they share devices.
func TestGPUJobsRestart(t *testing.T) {
	t.Parallel()
	if _, err := wdlrunGPU(); err != nil {
		t.Fatal(err)
	}
	want := train(t, t.TempDir(), 4)
	nccl := "LD_LIBRARY_PATH=" + built + ":" + withNCCL()
	const sums = "gradients are summed between GPUs by NCCL"
	for _, x := range []struct {
		environment []string
		launch, job string
		texts       map[string]int
	}{
		{[]string{nccl, "STANDIN_DEVICES=4"}, "-restarts 3", "-chaos kill:2@step100", map[string]int{sums: 2, " was killed by signal 9 (SIGKILL)": 1}},
		{[]string{nccl, "STANDIN_DEVICES=2"}, "", "-share-gpu", map[string]int{sums: 0, "ranks 0 and 2 have the same device 0 (Stand-in 0)": 1}},
	} {
		args := append(strings.Fields("-np 4 "+x.launch), append(strings.Fields("train -device gpu --json"), strings.Fields(x.job)...)...)
		o := runGPU(t, t.TempDir(), x.environment, args...)
		if o.code != 0 {
			t.Errorf("%q: exit code %d\n%s", args, o.code, o.stderr)
			continue
		}
		for text, n := range x.texts {
			if strings.Count(o.stderr, text) != n {
				t.Errorf("%q: %q is printed %d times, want %d\n%s", args, text, strings.Count(o.stderr, text), n, o.stderr)
			}
		}
		if r := parseTrained(t, o); math.Abs(r.AUC-want.AUC) > .0005 || r.Steps != want.Steps || r.TrainLogLoss == want.TrainLogLoss {
			t.Errorf("%q: AUC %v after %d steps, on the CPU %v after %d", args, r.AUC, r.Steps, want.AUC, want.Steps)
		}
	}
}

// TestGPUFaultsAreNamed: each fault of a machine or a device is reported in one line with its
// cause.
func TestGPUFaultsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := wdlrunGPU()
	old, newer := t.TempDir(), t.TempDir() // with the driver and a cuBLAS of another major version
	fatal.If(t, errors.Join(err, os.Symlink(filepath.Join(built, "libcuda.so.1"), filepath.Join(old, "libcuda.so.1")),
		os.Symlink(filepath.Join(built, "libcublas.so.12"), filepath.Join(old, "libcublas.so.11")),
		os.Symlink(filepath.Join(built, "libcuda.so.1"), filepath.Join(newer, "libcuda.so.1")),
		cudatest.FilesIn(built).BuildCUBLAS(newer, 13)))
	_, err = nccltest.BuildOver(newer, filepath.Join(built, "libcuda.so.1"), `-DCUDA="13.0"`)
	fatal.If(t, err)
	const ask = "-np 2 train -device gpu"
	for _, x := range []struct{ environment, args, want string }{
		{"STANDIN_DEVICES=1", ask, "each rank needs its own device, and this machine has 1 for 2 ranks: start at most 1 rank on it, or give -share-gpu"},
		{"CUDA_VISIBLE_DEVICES=1", ask, "this machine has 1 for 2 ranks"},
		{"STANDIN_DEVICES=2", ask + " -collective nccl", "-collective nccl: nccl: open: libnccl.so.2: cannot open shared object file: No such file or directory: install NCCL for CUDA 12"},
		{"STANDIN_DEVICES=2", ask + " -collective nccl -share-gpu", "-collective nccl cannot be combined with -share-gpu"},
		{"STANDIN_DEVICES=2", ask + " -collective nccl -set train.slots=2", "-collective nccl cannot be combined with train.slots"},
		{"STANDIN_DEVICES=0", ask, "CUDA_ERROR_NO_DEVICE (100)"},
		{"STANDIN_VERSION=11040", ask, "the driver supports CUDA 11.4, at least 12.0 is needed: install driver 525 or later"},
		{"LD_LIBRARY_PATH=", ask, "libcuda.so.1: cannot open shared object file: No such file or directory: install the NVIDIA driver"},
		{"LD_LIBRARY_PATH=" + old, ask, "libcublas.so.12: cannot open shared object file: No such file or directory: install cuBLAS 12, or name its folder in WDLRUN_CUDA_PATH or LD_LIBRARY_PATH"},
		{"LD_LIBRARY_PATH=" + newer, ask, "cuBLAS 13.1.3 (" + newer + "/libcublas.so.13) needs a driver for CUDA 13, and this one supports CUDA 12.4: install cuBLAS 12, or driver 580 or later"},
		{"WDLRUN_CUDA_PATH=" + newer, ask + " -collective nccl", "-collective nccl: nccl: open: NCCL 2.19.3 (" + newer + "/libnccl.so.2) needs a driver for CUDA 13, and this one supports CUDA 12.4: install NCCL for CUDA 12, or driver 580 or later"},
		{"WDLRUN_CUDA_PATH=" + old, ask, "WDLRUN_CUDA_PATH: " + old + " has no cuBLAS 12 or 13 and no NCCL"},
		{"STANDIN_CAPABILITY=61", ask, "device 0 (Stand-in 0) has compute capability 6.1, and the kernels need 7.5 (Turing) or later"},
		{"STANDIN_MEMORY=50000", ask, "device 0 (Stand-in 0): cuda: out of memory: "},
		{"STANDIN_FAULT=~cuLaunchKernel 2000 214", ask, "CUDA_ERROR_ECC_UNCORRECTABLE (214): uncorrectable ECC error encountered"},
		{"STANDIN_OTHERS=17179800000", ask, "device 0 (Stand-in 0): cuda: out of memory: "},
		{"CUDA_VISIBLE_DEVICES=5,1", ask, "CUDA_ERROR_NO_DEVICE (100)"},
		{"CUDA_VISIBLE_DEVICES=1,1", ask, "ranks 0 and 1 have the same device "},
		{"STANDIN_FAULT=~cuLaunchKernel 2000 719", ask, "CUDA_ERROR_LAUNCH_FAILED (719)"},
		{"STANDIN_DEVICES=2", ask + " -collective nccl -backup 1", "-collective nccl cannot be combined with train.mode drop: a sum of NCCL waits for all ranks, also for those that are late"},
		{"STANDIN_DEVICES=2", "-np 2 train -device gpu -replicas 2", "train.device: gpu cannot be combined with -replicas"},
	} {
		o := runGPU(t, t.TempDir(), []string{x.environment}, strings.Fields(x.args)...)
		if o.code == 0 || !strings.Contains(o.stderr, x.want) {
			t.Errorf("%s %s: exit code %d, want %q\n%s", x.environment, x.args, o.code, x.want, o.stderr)
		}
	}
}

// TestGPUsSumByNCCL: two ranks have the same results with NCCL, the default, and with sums in
// host memory. When a rank is lost, the sums of the other ranks end.
func TestGPUsSumByNCCL(t *testing.T) {
	t.Parallel()
	if _, err := wdlrunGPU(); err != nil {
		t.Fatal(err)
	}
	dir, nccl := t.TempDir(), "LD_LIBRARY_PATH="+built+":"+withNCCL()
	var all []trained
	for _, x := range []struct{ environment, args, want string }{
		{"CUDA_VISIBLE_DEVICES=1,0", "", "gradients are summed between GPUs by NCCL 2.19.3 (" + withNCCL()},
		{"", "-collective host", "gradients are summed in the memory of the hosts: -collective host"},
		{"STANDIN_DEVICES=1", "-share-gpu", "gradients are summed in the memory of the hosts: ranks 0 and 1 have the same device 0 (Stand-in 0)"},
	} {
		o := runGPU(t, dir, []string{nccl, x.environment}, append(strings.Fields("-np 2 train --json -device gpu -set train.epochs=1"), strings.Fields(x.args)...)...)
		if o.code != 0 || !strings.Contains(o.stderr, x.want) {
			t.Fatalf("%s: exit code %d, want %q\n%s%s", x.args, o.code, x.want, o.stdout, o.stderr)
		}
		if ordered := strings.Contains(o.stderr, "GPUs (rank:device): 0:0 1:1, in the order of CUDA_VISIBLE_DEVICES"); ordered != (x.args == "") {
			t.Errorf("%s %s: wrong choice of devices:\n%s", x.environment, x.args, o.stderr)
		}
		all = append(all, parseTrained(t, o))
	}
	for _, r := range all[1:] {
		if r.TrainLogLoss != all[0].TrainLogLoss || r.AUC != all[0].AUC {
			t.Errorf("log-loss and AUC are %v and %v, with NCCL %v and %v", r.TrainLogLoss, r.AUC, all[0].TrainLogLoss, all[0].AUC)
		}
	}
	o := runGPU(t, dir, []string{nccl, "NVIDIA_TF32_OVERRIDE=1", "CUDA_CACHE_DISABLE=1"}, strings.Fields("-np 2 train -device gpu -set train.epochs=1 -set train.slots=2")...)
	for _, line := range []string{"NVIDIA_TF32_OVERRIDE=1 may make cuBLAS round", "CUDA_CACHE_DISABLE=1: each process compiles the kernels"} {
		if strings.Count(o.stderr, line) != 1 {
			t.Errorf("this is not printed once: %s\n%s", line, o.stderr)
		}
	}
	if o.code != 0 || !strings.Contains(o.stderr, "gradients are summed in the memory of the hosts: rank 0: train.slots: the host sums") {
		t.Errorf("with train.slots: exit code %d\n%s", o.code, o.stderr)
	}
	o = runGPU(t, dir, []string{nccl, "STANDIN_DEVICES=3", nccltest.Env + "=abort=together"}, strings.Fields("-np 3 train -device gpu -chaos kill:1@step20")...)
	if o.code != 137 || !strings.Contains(o.stderr, " was killed by signal 9 (SIGKILL)") || !strings.Contains(o.stderr, "wdlrun: rank 1 (host ") || strings.Contains(o.stderr, "communicators were not aborted") {
		t.Errorf("with a lost rank: exit code %d\n%s", o.code, o.stderr)
	}
}

// TestGPUsDoNotWaitForASlowRank: if other ranks repeat the microbatches of a slow rank, the
// results are the same as if they wait for it. If late microbatches are dropped from the step,
// all samples count in later steps, and a replay has the same results.
func TestGPUsDoNotWaitForASlowRank(t *testing.T) {
	t.Parallel()
	if _, err := wdlrunGPU(); err != nil {
		t.Fatal(err)
	}
	dir, nccl := t.TempDir(), "LD_LIBRARY_PATH="+built+":"+withNCCL()
	const slow, host = " -chaos slow:20x@1", "gradients are summed in the memory of the hosts: "
	job := func(want, args string) trained {
		o := runGPU(t, dir, []string{nccl, "STANDIN_DEVICES=3"}, strings.Fields("-np 3 "+args)...)
		if o.code != 0 || !strings.Contains(o.stderr, want) {
			t.Fatalf("%s: exit code %d, want %q\n%s%s", args, o.code, want, o.stdout, o.stderr)
		}
		return parseTrained(t, o)
	}
	const train = "train --json -device gpu -set train.epochs=1"
	wait := job(host+"-collective host", train+" -collective host")
	again := job(host+"rank 0: train.mode speculate: a sum of NCCL waits", train+" -mode speculate"+slow)
	if again.TrainLogLoss != wait.TrainLogLoss || again.AUC != wait.AUC {
		t.Errorf("log-loss %v and AUC %v, want %v and %v as with waiting", again.TrainLogLoss, again.AUC, wait.TrainLogLoss, wait.AUC)
	}
	drop := job(host+"-collective host", train+" -backup 1 -collective host"+slow)
	commits, err := save.ReadCommits(filepath.Join(dir, drop.RunDir))
	fatal.If(t, err)
	late := 0
	for _, c := range commits {
		late += len(c.Queue.Late)
	}
	if drop.Samples != wait.Samples || late == 0 || math.Abs(drop.AUC-wait.AUC) > .01 {
		t.Errorf("%d late microbatches; %d samples, AUC %v; with waiting %d, %v", late, drop.Samples, drop.AUC, wait.Samples, wait.AUC)
	}
	replayed := job(host, "replay --json "+drop.RunDir)
	if replayed.TrainLogLoss != drop.TrainLogLoss || replayed.AUC != drop.AUC {
		t.Errorf("replay: log-loss %v and AUC %v, want %v and %v", replayed.TrainLogLoss, replayed.AUC, drop.TrainLogLoss, drop.AUC)
	}
}

// TestWdlrunExecutesTheGPUBuild: if wdlrun-gpu is in the folder of the default build, the
// default build trains on GPUs and lists them.
func TestWdlrunExecutesTheGPUBuild(t *testing.T) {
	t.Parallel()
	bin, err := wdlrunGPU()
	fatal.If(t, err)
	wdlrun, dir := filepath.Join(filepath.Dir(bin), "wdlrun"), t.TempDir()
	small := []string{"-np", "2", "train", "--json", "-set", "train.epochs=1", "-device"}
	o := runOnGPU(t, wdlrun, dir, nil, append(small, "gpu")...)
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if got, cpu := parseTrained(t, o), parseTrained(t, runOnGPU(t, wdlrun, dir, nil, append(small, "cpu")...)); got.TrainLogLoss == cpu.TrainLogLoss || math.Abs(got.AUC-cpu.AUC) > .001 {
		t.Errorf("AUC %v, log-loss %v; on the CPU %v, %v: was the device used?", got.AUC, got.TrainLogLoss, cpu.AUC, cpu.TrainLogLoss)
	}
	if o := run(t, dir, "doctor"); o.code != 0 || strings.Contains(o.stdout, "GPUs of ") {
		t.Errorf("doctor without the tag gpu: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if o := runGPU(t, dir, nil, "doctor"); o.code != 0 || strings.Count(o.stdout, "GPUs of ") != 1 {
		t.Errorf("doctor: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = runOnGPU(t, wdlrun, dir, []string{"WDLRUN_CUDA_PATH=" + withNCCL()}, "gpus")
	if o.code == 0 && !strings.HasPrefix(o.stdout, "driver ") || o.code != 0 && !strings.Contains(o.stderr, "libnvidia-ml.so.1") {
		t.Errorf("gpus: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	table := strings.Join(strings.Fields(o.stdout), " ")
	for _, row := range []string{"driver CUDA 12.4 " + built + "/libcuda.so.1 yes", "cuBLAS 12.1.3 " + built + "/libcublas.so.12 yes", "NCCL 2.19.3 " + withNCCL() + "/libnccl.so.2 yes"} {
		if !strings.Contains(table, row) {
			t.Errorf("gpus: no row %q in\n%s", row, o.stdout)
		}
	}
}

// TestGPUCheck: gpu-check passes on a sound machine. It names a wrong kernel, a lost device and
// an abort that hangs.
func TestGPUCheck(t *testing.T) {
	t.Parallel()
	if _, err := wdlrunGPU(); err != nil {
		t.Fatal(err)
	}
	broken := func(from, to string) string {
		folder, source := t.TempDir(), strings.Replace(kernel.Source, from, to, 1)
		if _, err := cudatest.Build(folder, source); err != nil || source == kernel.Source {
			t.Fatal("could not build a wrong kernel: ", err)
		}
		return folder
	}
	wrong := broken("w - a.rate * x / (", "w - a.rate * 2 * x / (")
	short := broken("for (; v < end; v++) {", "for (; v + 1 < end; v++) {")
	sound := "LD_LIBRARY_PATH=" + built + ":" + withNCCL()
	for _, x := range []struct {
		environment []string
		passed      int
		failed      []string
	}{
		{[]string{sound, "PATH=" + wrong}, 12, nil}, // without python3
		{[]string{sound, "STANDIN_VERSION=11040"}, 0, []string{"libraries on : cuda: open: the driver supports CUDA 11.4, at least 12.0 is needed"}},
		{[]string{"LD_LIBRARY_PATH=" + wrong, "STANDIN_DEVICES=1"}, 3, []string{"kernels on device 0 (Stand-in 0): update rule 1: 16377 values differ from the CPU's: value 0 of buffer 1 is ", "parity on device 0 (Stand-in 0): wide_deep: after 50 steps the "}},
		{[]string{"LD_LIBRARY_PATH=" + short, "STANDIN_DEVICES=1"}, 3, []string{"kernels on device 0 (Stand-in 0): pooling: ", "parity on device 0 (Stand-in 0): wide_deep: after 50 steps the "}},
		{[]string{sound, "STANDIN_DEVICES=1", "STANDIN_FAULT=~cuLaunchKernel 1000 719"}, 4, []string{"parity on device 0 (Stand-in 0): wide_deep: step "}},
		{[]string{sound, nccltest.Env + "=fail=1@3"}, 9, []string{"collectives on : nccl: rank 1: "}},
		{[]string{sound, nccltest.Env + "=abort=hang"}, 11, []string{"abort on : nccl: rank "}},
	} {
		dir := t.TempDir()
		o := runGPU(t, dir, append(x.environment, "STANDIN_MEMORY=20000000"), "gpu-check", "-report", "a/b", "--json")
		var r struct {
			Libraries []struct{ Name, Path, Fault string }
			Checks    []struct{ Check, Device, Outcome, Text string }
			Next      []string
			Exit_code int
		}
		err := json.Unmarshal([]byte(o.stdout), &r)
		host, _ := os.Hostname()
		report, failed := os.ReadFile(filepath.Join(dir, "a/b/gpu-check-"+host+".txt"))
		text := string(report)
		if err = errors.Join(err, failed); len(r.Next) != 3 || !strings.HasSuffix(text, "\n3. Send a/b/gpu-check-"+host+".txt.\n") || !strings.Contains(text, "LD_LIBRARY_PATH=") {
			t.Errorf("%s: next %q, and the report is\n%s", x.environment, r.Next, text)
		}
		if err != nil || o.code != min(len(x.failed), 1) || r.Exit_code != o.code || len(r.Libraries) < 2 {
			t.Errorf("%s: exit code %d, %v, %+v\n%s%s", x.environment, o.code, err, r, o.stdout, o.stderr)
		}
		if len(x.failed) == 0 && !strings.Contains(text, "there is no python3 in PATH\n") {
			t.Errorf("the check of PyTorch was not skipped:\n%s", text)
		}
		passed, missing := 0, x.failed
		for _, c := range r.Checks {
			text := fmt.Sprintf("%s on %s: %s", c.Check, c.Device, c.Text)
			switch {
			case c.Check == "settings" || c.Check == "inventory": // of the machine that runs the test
			case c.Outcome == "passed":
				passed++
			case c.Outcome == "failed" && len(missing) > 0 && strings.HasPrefix(text, missing[0]):
				missing = missing[1:]
			case c.Outcome == "failed":
				t.Errorf("%s: %s", x.environment, text)
			}
		}
		if passed != x.passed || len(missing) > 0 {
			t.Errorf("%s: %d checks passed, want %d, and %q\n%s", x.environment, passed, x.passed, missing, o.stdout)
		}
	}
}

// TestGPUAuto: with train.device: auto, a training has the bits of the device that it reports.
// If a rank cannot use a GPU, the reason is printed.
func TestGPUAuto(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small := func(device string) []string {
		return []string{"-np", "2", "train", "--json", "-set", "train.epochs=1", "-device", device}
	}
	o := runGPU(t, dir, nil, small("auto")...)
	device := "cpu"
	if strings.Contains(o.stderr, "train.device: auto: GPUs compute: a step takes ") {
		device = "gpu"
	} else if !strings.Contains(o.stderr, "train.device: auto: the CPU computes: a step takes ") {
		t.Fatalf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if got, want := parseTrained(t, o), trainGPU(t, dir, small(device)...); got.TrainLogLoss != want.TrainLogLoss {
		t.Errorf("log-loss %v with auto, want %v as on the %s", got.TrainLogLoss, want.TrainLogLoss, device)
	}
	for environment, reason := range map[string]string{
		"STANDIN_DEVICES=1":                       "each rank needs its own device, and this machine has 1 for 2 ranks",
		"LD_LIBRARY_PATH=":                        "cuda: open: libcuda.so.1: cannot open shared object file",
		"STANDIN_FAULT=~cuLaunchKernel 10 719":    "CUDA_ERROR_LAUNCH_FAILED (719)",
		"STANDIN_FAULT=cuModuleGetFunction 0 500": "device 0 (Stand-in 0): kernel: load: cuda: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500)",
	} {
		o := runGPU(t, dir, []string{environment}, small("auto")...)
		_, line, _ := strings.Cut(o.stderr, "train.device: auto: the CPU computes: rank 0: ")
		line, _, _ = strings.Cut(line, "\n")
		if o.code != 0 || !strings.Contains(line, reason) {
			t.Errorf("%s: exit code %d, want %q\n%s", environment, o.code, reason, o.stderr)
		}
	}
	if o := runOnGPU(t, filepath.Join(built, "gpu", "wdlrun"), dir, nil, small("auto")...); o.code != 0 || !strings.Contains(o.stderr, "compute: a step takes ") && !strings.Contains(o.stderr, "computes: a step takes ") {
		t.Errorf("wdlrun next to wdlrun-gpu: exit code %d\n%s", o.code, o.stderr)
	}
	if o := runGPU(t, dir, nil, "-np", "2", "train", "-device", "auto", "-replicas", "2"); o.code == 0 || !strings.Contains(o.stderr, "train.device: auto cannot be combined with -replicas") {
		t.Errorf("-replicas: exit code %d\n%s", o.code, o.stderr)
	}
}

// TestGPUPlan: -plan estimates the memory use of each device and reports a batch that does not
// fit.
func TestGPUPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, x := range []struct{ environment, args, want string }{
		{"STANDIN_DEVICES=2", "-device gpu", "without the memory of CUDA, cuBLAS and NCCL; 17.2 GB are free\nLIBRARY"},
		{"STANDIN_MEMORY=50000", "-device gpu", "50.0 kB are free, so it does not fit: use a smaller batch or model\n"},
		{"STANDIN_DEVICES=2", "-device auto", "17.2 GB are free\n"},
		{"LD_LIBRARY_PATH=", "-device auto", ""},
		{"STANDIN_DEVICES=2", "-device cpu", ""},
	} {
		o := runGPU(t, dir, []string{x.environment}, append(strings.Fields("-np 2 train -plan"), strings.Fields(x.args)...)...)
		_, line, found := strings.Cut(o.stdout, "\nGPU: ")
		line, _, _ = strings.Cut(line, "\n\n")
		if o.code != 0 || found != (x.want != "") || !strings.Contains(line+"\n", x.want) {
			t.Errorf("%s %s: exit code %d, want %q\n%s%s", x.environment, x.args, o.code, x.want, o.stdout, o.stderr)
		}
	}
}

// TestBenchStepOnGPUs: bench step measures steps on the devices of two ranks. It omits the
// floors of the CPU.
func TestBenchStepOnGPUs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"-np", "2", "bench", "step", "-device", "gpu", "-workload", "w2", "-batch", "32", "-steps", "3"}
	o := runGPU(t, dir, nil, append(args, "--json")...)
	var r struct {
		Machine struct{ Device string }
		Speed   float64 `json:"samples_per_second"`
		Floor   float64 `json:"floor_ms"`
		In      int64   `json:"copied_to_device_per_step"`
		Out     int64   `json:"copied_from_device_per_step"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &r); o.code != 0 || err != nil || r.Machine.Device != "gpu" || r.Speed <= 0 || r.Floor != 0 || r.Out <= 0 || r.In <= r.Out {
		t.Fatalf("%v %+v: %+v", err, r, o)
	}
	if o := runGPU(t, dir, nil, args...); o.code != 0 || !strings.Contains(o.stdout, "on 2 ranks of 1 thread; GPUs compute the dense layers\n") || !strings.Contains(o.stdout, " MB to the device, ") || strings.Contains(o.stdout, "floor") {
		t.Errorf("%+v", o)
	}
}
