package jobs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// refusedFlags are contradictory or invalid command lines. The files taken.tsv and space.yaml
// exist.
var refusedFlags = []struct{ args, want string }{
	{"-encrypt -transport shm train", "-encrypt encrypts tcp links"},
	{"-ports 9-5 train", `-ports "9-5" is not a range of ports; give one such as 20000-20100`},
	{"-bind socket train", `-bind "socket": choose core, numa or none`},
	{"-map socket train", `-map "socket": choose slot, node or numa`},
	{"-map numa train", "-map numa has no effect on ranks that are not bound: give -bind core or -bind numa too"},
	{"-mem much train", `-mem "much": expected a number of bytes above 0, such as 8g or 500m`},
	{"-mem 99999g train", `-mem "99999g": expected a number of bytes`},
	{"-mem 30t true", "31457280 MiB of memory are needed for "},
	{"-streams 17 train", "-streams 17: 1 to 16"},
	{"-transport foo train", "-transport \"foo\": there are auto, shm and tcp"},
	{"-transport foo true", "-transport \"foo\": there are auto, shm and tcp"},
	{"train -resume a -out b", "so -out has no effect: remove -out"},
	{"-backup 1 eval -resume a", "eval has no flag -backup: it belongs to train\n"},
	{"-replicas 2 init builtin:adult.test", "init has no flag -replicas: it belongs to train\n"},
	{"-chaos slow:3x@0 gen", "gen has no flag -chaos"},
	{"-backup 1 data show builtin:adult.test", "data show has no flag -backup"},
	{"-mode drop ckpt show a", "ckpt show has no flag -mode"},
	{"-replicas 2 bench barrier", "bench has no flag -replicas"},
	{"-chaos slow:3x@0 true", "true has no flag -chaos"},
	{"-np 8 -backup 1 train", "-backup is a flag of train: put it after the program: wdlrun -np 8 train -backup 1\n"},
	{"--mode=drop -np 2 -chaos kill:1@step5,cut:0-*@step9 train -resume a", "-mode and -chaos are flags of train: put them after the program: wdlrun -np 2 train --mode=drop -chaos 'kill:1@step5,cut:0-*@step9' -resume a\n"},
	{"-backup 1", "put it after the program: wdlrun [launch flags] PROGRAM -backup"},
	{"-set train.epochs=1 -np 2 train", "-set is a flag of train: put it after the program: wdlrun -np 2 train -set train.epochs=1\n"},
	{"bench -time -1s", "bench: -time -1s: it must be above 0"},
	{"bench step -batch 0", "bench step: -batch 0: at least 1"},
	{"bench step -device tpu", `device "tpu", want cpu or gpu`},
	{"bench step -share-gpu", "no effect on steps of the CPU: -share-gpu: give -device gpu too"},
	{"bench step -device gpu", "bench step -device gpu: no wdlrun-gpu of this version in the directory of wdlrun; build it with: CGO_ENABLED=1"},
	{"bench step -threads 0", "bench step: -threads 0: at least 1"},
	{"gpus all", "gpus takes no arguments, but got \"all\""},
	{"gpu-check 1", "gpu-check takes no arguments, but got \"1\""},
	{"gpu-check", "gpu-check: no wdlrun-gpu of this version in the directory of wdlrun; build it with: CGO_ENABLED=1 go build -tags gpu"},
	{"gpus", "gpus: no wdlrun-gpu of this version in the directory of wdlrun; build it with: CGO_ENABLED=1 go build -tags gpu"},
	{"bench foo", "input, step, serve"},
	{"bench servee", "did you mean serve?"},
	{"-timeout 5 train", "-timeout \"5\": expected a time with its unit: write 5s"},
	{"-np abc train", "-np \"abc\": expected a whole number"},
	{"train -threads x", "-threads \"x\": expected a whole number"},
	{"bench -time 1x", "-time \"1x\": expected a time with its unit, such as"},
	{"bench step -thraeds 2", "did you mean -threads?; see: wdlrun bench step --help"},
	{"bench step -np 2", "put it before the program: wdlrun -np … bench step"},
	{"train -np 2", "put it before the program: wdlrun -np … train"},
	{"data check -nosuchthing", "see: wdlrun data check --help"},
	{"help trian", "did you mean train?"},
	{"train -tag a," + strings.Repeat("b", 65), "a tag has at most 64 bytes and no spaces"},
	{"train -conf x.yaml", "did you mean -config?"},
	{"sweep", "give -space FILE, or -resume DIR"},
	{"sweep -space taken.tsv", "taken.tsv: it must map"},
	{"sweep -space space.yaml", "space.yaml: line 1: model.kind: \"bogus\" is unknown"},
	{"sweep -resume a -trials 5", "leave out -trials"},
	{"-np 2 sweep", "the ranks of each trial: wdlrun sweep -np N"},
	{"runs -web 0.0.0.0:6061", "give -web-token FILE with a secret"},
	{"runs -export csv", "the only program is mlflow"},
	{"eval -resume a -importance", "give -report FILE too"},
	{"-np 1 train -backup 1", "give -np 2 or more"},
	{"-np 4 serve -model ctr=models", "serve is one process, so -np has no effect: leave it out: wdlrun serve -model ctr=models; -threads N"},
	{"-np 2 gen -rows 5", "gen is one process, so -np has no effect: leave it out: wdlrun gen -rows 5\n"},
	{"hosts", "hosts: give add or drop, a run directory and hosts"},
	{"hosts add runs/a", "hosts add: give a run directory and hosts, such as: wdlrun hosts add RUN c:8"},
	{"hosts drop runs/a c", "hosts drop: stat runs/a: no such file or directory"},
	{"gen -rows 5 -out taken.tsv", "gen: taken.tsv exists"},
	{"ckpt .", "ckpt: what to do with .? to list its checkpoints: "},
	{"init -data builtin:adult.test -out taken.tsv", "init: taken.tsv exists; remove it first"},
	{"train -set train.global_batch=67108865", "train.global_batch: is 67108865; it must be from 1 to 67108864"},
	{"-np 5 -oversubscribe train -set train.batch=16777216", "train.batch: 16777216 samples of each of 5 ranks are 83886080, and a step may have 67108864: give at most 13421772"},
	{"-np 2 -mode drop replay runs/a", "replay has no flag -mode"},
	{"-np 2 -chaos kill:1@step5 replay runs/a", "replay has no flag -chaos"},
	{"train -set train.batch=64 -set train.global_batch=512", "train.global_batch: contradicts train.batch, which is set too"},
	{"train -set data.test=test.csv", "it must be a list of strings: write [test.csv]"},
}

// TestRefusedFlags: contradictory or invalid flags are rejected with one line before any rank
// starts.
func TestRefusedFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "space.yaml"), []byte("model.kind: [wide_deep, bogus]\n"), 0o644))
	fatal.If(t, os.WriteFile(filepath.Join(dir, "taken.tsv"), []byte("mine\n"), 0o644))
	for i, x := range refusedFlags {
		if i%patient.Size(5, 1) != 0 {
			continue
		}
		o := run(t, dir, strings.Fields(x.args)...)
		if o.code != 1 || !strings.Contains(o.stderr, x.want) || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, want 1 and a line with %q\n%s", x.args, o.code, x.want, o.stderr)
		}
	}
	if o, want := runWith(t, dir, "WDLRUN_TRANSPORT=pigeon", "-np", "2", "train"), "transport \"pigeon\" is unknown; there are auto, shm and tcp: change WDLRUN_TRANSPORT"; o.code != 1 || !strings.Contains(o.stderr, want) || strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("exit code %d, want 1 and a line with %q\n%s", o.code, want, o.stderr)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "taken.tsv")); err != nil || string(b) != "mine\n" {
		t.Errorf("taken.tsv: %q, %v: gen overwrote the file", b, err)
	}
}

// TestPrecisionFlags: invalid flags and settings of precision and device are rejected with a
// one-line error that states the cure.
func TestPrecisionFlags(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	for _, x := range []struct{ args, want string }{
		{"train -bf16", "did you mean -set train.precision=bf16?; see: wdlrun train --help"},
		{"train -model.knd dcn_v2", "did you mean -set model.kind=…?; see: wdlrun train --help"},
		{"train -epochs 3", "did you mean -set train.epochs=…?; see: wdlrun train --help"},
		{"train -data clicks.csv", "the configuration names the files: wdlrun init -data FILE -out ctr.yaml writes one"},
		{"train -device gpu", "wdlrun: -device gpu: no wdlrun-gpu of this version in the directory of wdlrun; build it with: CGO_ENABLED=1 go build -tags gpu"},
		{"train -set train.device=gpu", "wdlrun: train.device: gpu: no wdlrun-gpu of this version in the directory of wdlrun"},
		{"train -collective host", "no effect without train.device: gpu: -collective: give -device gpu too"},
		{"train -collective nccl -share-gpu -device cpu", "no effect without train.device: gpu: -collective and -share-gpu"},
		{"train -device gpu -collective ring", "-collective \"ring\": nccl or host"},
		{"train -device gpu -set train.optimizer.dense.kind=rowwise_adagrad", "train.device: contradicts train.optimizer.dense.kind: there is no kernel of rowwise_adagrad: use adagrad"},
		{"train -device tpu", "\"tpu\" is unknown"},
		{"train -set train.precision=bfloat16", "\"bfloat16\" is unknown; did you mean bf16? (valid: fp32, tf32, bf16)"},
		{"train -set train.precision=tf32", "train.precision: contradicts train.device: tf32 is a format of GPUs: use device: gpu, or precision: fp32"},
		{"train -set train.precision=bf16 -set model.deep=false", "train.precision: contradicts model.deep: bf16 is for the products of the MLP"},
	} {
		o := run(t, dir, strings.Fields(x.args)...)
		if o.code != 1 || !strings.Contains(o.stderr, x.want) || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, want 1 and a line with %q\n%s", x.args, o.code, x.want, o.stderr)
		}
	}
}

// TestHelpAsJSON: help and version are one JSON object with -json, before or after the words.
func TestHelpAsJSON(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--version --json": `{"version":"`, "-json -version": `{"version":"`,
		"help config -json": `"key":"epochs"`, "-json help config": `"key":"epochs"`, "help -json config": `"key":"epochs"`,
	} {
		o := run(t, t.TempDir(), strings.Fields(args)...)
		if o.code != 0 || !json.Valid([]byte(o.stdout)) || !strings.Contains(o.stdout, want) {
			t.Errorf("%s: exit code %d, want JSON with %s\n%.300s%s", args, o.code, want, o.stdout, o.stderr)
		}
	}
}

// TestNoRunDirectory: if no run directory can be created, the launcher fails before it starts a
// rank. It removes what it created for the check.
func TestNoRunDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "taken"), nil, 0o644))
	for _, args := range [][]string{{"-out", "taken"}, {"-out", "taken/below"}, {"-out", "/proc/x"}, {"-resume", "step-000000001", "-out", "taken"}} {
		out := strings.Join(args, " ")
		o := run(t, dir, append([]string{"-np", "2", "train"}, args...)...)
		if o.code != 1 || !strings.HasPrefix(o.stderr, "wdlrun: run directory: ") || strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, "with -out") {
			t.Errorf("%s: exit code %d, want 1 and a one-line error of the launcher\n%s", out, o.code, o.stderr)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files were left: %v, %v", left, err)
	}
}

// TestNoTier: a missing folder of a tier is also found before any rank starts. A plan does not
// need the folder.
func TestNoTier(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		flag, want string
		code       int
	}{
		{"", "wdlrun: tables[0].tier.dir: cannot create a file in cold: no such file or directory: it must be a folder that is there", 1},
		{"-plan", "", 0},
	} {
		args := []string{"-np", "2", "train", "-set", "tables=[{name: education, tier: {dir: cold, memory: 1}}]"}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		if o := run(t, dir, args...); o.code != c.code || !strings.HasPrefix(o.stderr, c.want) || strings.Count(o.stderr, "\n") != c.code {
			t.Errorf("%v: exit code %d, want %d and %q\n%s", args, o.code, c.code, c.want, o.stderr)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files were left: %v, %v", left, err)
	}
}

// TestTooManyRanks: far more ranks than cores are rejected as a typing error, unless
// -oversubscribe is given.
func TestTooManyRanks(t *testing.T) {
	t.Parallel()
	many := strconv.Itoa(16*max(runtime.NumCPU(), 8) + 1)
	if o := run(t, t.TempDir(), "-np", many, "train"); o.code != 1 || !strings.HasPrefix(o.stderr, "wdlrun: -np "+many+": ") || !strings.Contains(o.stderr, "-oversubscribe") {
		t.Errorf("exit code %d, want 1\n%s", o.code, o.stderr)
	}
	enough := strconv.Itoa(16 * max(runtime.NumCPU(), 8)) // accepted; the job fails only because the program does not exist
	if o := run(t, t.TempDir(), "-np", enough, "./nothing"); o.code != 127 || !strings.Contains(o.stderr, "give the path of a program") {
		t.Errorf("-np %s: exit code %d, want 127\n%s", enough, o.code, o.stderr)
	}
	if o := run(t, t.TempDir(), "-net", "10.0.0.0/8", "./nothing"); !strings.Contains(o.stderr, "wdlrun: -net has no effect while all ranks run on this host\n") {
		t.Errorf("-net on one host: %s", o.stderr)
	}
	if o := run(t, t.TempDir(), "-np", "-1", "train"); o.code != 1 || o.stderr != "wdlrun: -np -1: at least one rank is needed\n" {
		t.Errorf("exit code %d, want 1\n%s", o.code, o.stderr)
	}
}

// TestJSONBeforeTheProgram: -json has the same meaning before and after the name of a command.
func TestJSONBeforeTheProgram(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	for _, args := range []string{"-json init -data builtin:adult.test", "init -data builtin:adult.test -json"} {
		o := run(t, t.TempDir(), strings.Fields(args)...)
		var v struct{ Label string }
		if err := json.Unmarshal([]byte(o.stdout), &v); err != nil || v.Label != "column_15" {
			t.Errorf("%s: %v, label %q\n%s%s", args, err, v.Label, o.stdout, o.stderr)
		}
	}
}

// TestJSONBeforeBench: -json before bench works too, on one rank and on several.
func TestJSONBeforeBench(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	for _, args := range []string{"-json bench barrier -time 1ms", "-np 2 -oversubscribe --json bench barrier -time 1ms"} {
		o := run(t, t.TempDir(), strings.Fields(args)...)
		var v struct{ Op string }
		if err := json.Unmarshal([]byte(o.stdout), &v); err != nil || v.Op != "barrier" {
			t.Errorf("%s: %v, exit code %d\n%s%s", args, err, o.code, o.stdout, o.stderr)
		}
	}
}

// TestJSONOfWhatFails: a failed job prints a JSON object, like any other error.
func TestJSONOfWhatFails(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"-json", "sh", "-c", "exit 3"}, {"-json", "-np", "2", "-oversubscribe", "sh", "-c", "kill -9 $$"}} {
		o := run(t, t.TempDir(), words...)
		var v struct {
			ExitCode int `json:"exit_code"`
			Error    string
		}
		if err := json.Unmarshal([]byte(o.stdout), &v); err != nil || o.code == 0 || v.ExitCode != o.code || !strings.Contains(o.stderr, v.Error) || v.Error == "" {
			t.Errorf("%q: %v, exit code %d\n%s%s", words, err, o.code, o.stdout, o.stderr)
		}
	}
}

// TestHelpOnSubcommands: help on a subcommand prints the page of the subcommand.
func TestHelpOnSubcommands(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"data convert", "bench step", "ckpt prune"} {
		o := run(t, t.TempDir(), strings.Fields("help "+name)...)
		if page := run(t, t.TempDir(), strings.Fields(name+" --help")...); o.code != 0 || o.stdout != page.stdout || !strings.Contains(o.stdout, "wdlrun "+name+" - ") {
			t.Errorf("help %s: exit code %d\n%s%s", name, o.code, o.stdout, o.stderr)
		}
	}
	if o := run(t, t.TempDir(), "help", "data", "conver"); o.code != 1 || !strings.Contains(o.stderr, `there is no "conver"`) {
		t.Errorf("help data conver: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestJSONOfWhatDoesNotStart: with -json, a program that cannot be started also gives a JSON
// object.
func TestJSONOfWhatDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-json trian", "-json -np 2 ./nothing"} {
		o := run(t, t.TempDir(), strings.Fields(args)...)
		var v struct {
			ExitCode int `json:"exit_code"`
			Error    string
		}
		if err := json.Unmarshal([]byte(o.stdout), &v); err != nil || o.code != 127 || v.ExitCode != 127 || !strings.Contains(o.stderr, v.Error) || v.Error == "" {
			t.Errorf("%s: %v, exit code %d\n%s%s", args, err, o.code, o.stdout, o.stderr)
		}
	}
}

// TestLostOutput: every command fails with a one-line error if it cannot write its output.
func TestLostOutput(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full: ", err)
	}
	defer full.Close()
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "rows.csv"), []byte("a,b\n1,2\n"), 0o644))
	trained := train(t, dir, 1, "-set", "train.epochs=1")
	for _, args := range []string{
		"train -set train.epochs=1", "train -set train.epochs=1 -json", "eval -resume " + trained.RunDir,
		"eval -resume " + trained.RunDir + " -json", "data check rows.csv", "train -plan", "--help", "sh -c echo",
	} {
		cmd := command(t, dir, strings.Fields(args)...)
		cmd.Stdout = full
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || strings.Count(said.String(), "no space left on device") != 1 {
			t.Errorf("%s: %v, want exit code 1 and one line\n%s", args, err, said.String())
		}
	}
}
