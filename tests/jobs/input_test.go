package jobs

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// clicksYAML is a configuration that reads clicks.csv of the same directory.
const clicksYAML = `data: {train: [clicks.csv], header: true}
label: {field: y}
features:
  - {field: city, encode: hash}
  - {field: age, encode: standardise}
`

// TestBadInput: every mistake of a user gives a one-line error that names the place. No rank
// keeps running.
func TestBadInput(t *testing.T) {
	t.Parallel()
	const good = "y,city,age\n1,Oslo,3\n0,Bergen,4\n"
	for _, c := range []struct {
		name  string
		csv   string // "" for a missing file
		yaml  string
		flags string
		want  []string
	}{
		{"missing file", "", clicksYAML, "", []string{"clicks.csv", "does not exist"}},
		{"empty file", " ", clicksYAML, "", []string{"clicks.csv"}},
		{"only a header", "y,city,age\n", clicksYAML, "", []string{"clicks.csv", "no records"}},
		{"ragged row", good + "1,Voss\n", clicksYAML, "", []string{"clicks.csv:4", "2 fields"}},
		{"text in a numeric column", good + "1,Voss,tall\n", clicksYAML, "", []string{"clicks.csv:4", "age", `"tall"`, "data check -config c.yaml;", "-max-bad N"}},
		{"infinite number", good + "1,Voss,1e999\n", clicksYAML, "", []string{"clicks.csv:4", "age"}},
		{"label out of range", good + "7,Voss,1\n", clicksYAML, "", []string{"clicks.csv:4", "y", `"7"`}},
		{"label that no row has", good, strings.Replace(clicksYAML, "{field: y}", "{field: y, positive: [Yes]}", 1), "", []string{"none of the 2 training rows has the label 1, by field y", `label.positive is ["Yes"]`}},
		{"threshold that no row reaches", good, strings.Replace(clicksYAML, "{field: y}", "{field: y, threshold: 4}", 1), "", []string{"label.threshold is 4"}},
		{"open quote", good + "1,\"Voss,1\n", clicksYAML, "", []string{"clicks.csv:4", "quote"}},
		{"no such column", good, strings.Replace(clicksYAML, "field: city", "field: citty", 1), "", []string{"citty", "city"}},
		{"unknown key", good, clicksYAML + "train: {epoch: 3}\n", "", []string{"c.yaml:6", "epoch", "epochs"}},
		{"wrong type", good, clicksYAML + "train: {epochs: many}\n", "", []string{"c.yaml:6", "epochs"}},
		{"two faults", good, clicksYAML + "train: {epochs: many, sed: 3}\n", "", []string{"epochs", "sed"}},
		{"loss no number", good, clicksYAML + "train: {epochs: 60, optimizer: {dense: {kind: sgd, learning_rate: 1e+30}, deep: {kind: sgd, learning_rate: 1e+30}, wide: {kind: sgd, learning_rate: 1e+30}}}\n", "", []string{"step", "not a finite number"}},
		{"nothing to resume", good, clicksYAML, "-resume runs/none", []string{"runs/none"}},
		{"setting without value", good, clicksYAML, "-set train.epochs", []string{"train.epochs", "="}},
		{"stray argument", good, clicksYAML, "clicks.csv", []string{"clicks.csv", "-config"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.csv != "" {
				write(t, dir, "clicks.csv", strings.TrimPrefix(c.csv, " "))
			}
			write(t, dir, "c.yaml", c.yaml)
			o := run(t, dir, append([]string{"-np", "2", "train", "-config", "c.yaml"}, strings.Fields(c.flags)...)...)
			if o.code == 0 {
				t.Fatalf("exit code 0\n%s%s", o.stdout, o.stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(o.stderr, w) {
					t.Errorf("no %q in:\n%s", w, o.stderr)
				}
			}
			if strings.Contains(o.stderr, "no checkpoint yet") || strings.Contains(o.stderr, "start again") {
				t.Errorf("the output advises to start again, although the error would occur again:\n%s", o.stderr)
			}
			if strings.Contains(o.stderr, "kept: ") {
				t.Errorf("stacks and traces are kept, although the fault is the user's:\n%s", o.stderr)
			}
			if strings.Contains(o.stderr, "goroutine ") || strings.Contains(o.stderr, "panic") {
				t.Errorf("a panic is printed:\n%s", o.stderr)
			}
		})
	}
}

// TestPortTaken: if the port of -coordinator is in use, the error names the address.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer ln.Close()
	o := run(t, t.TempDir(), "-np", "2", "-coordinator", ln.Addr().String(), "train")
	if o.code == 0 || !strings.Contains(o.stderr, "in use") || !strings.Contains(o.stderr, ln.Addr().String()) {
		t.Errorf("exit code %d:\n%s", o.code, o.stderr)
	}
}

// TestLaunch: the launcher follows its conventions for flags, exit codes, and standard input and
// output.
func TestLaunch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "hosts", "# two machines\nlocalhost slots=2\nfar slots=2\n")
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"-np 2 sh -c true", 0, "", ""},
		{"-np 2 -plan train", 0, "localhost", ""},
		{"-np 4 -hostfile hosts -plan train", 0, "far", ""},
		{"-np 4 -hostfile hosts -ssh false train", 1, "", "wdlrun: host far: login failed: false ended with exit code 1; try: false far true"},
		{"-np 5 -hostfile hosts train", 1, "", "slots"},
		{"-np 0.5 train", 1, "", "np"},
		{"-np 2 nosuchprogram", 127, "", "nosuchprogram"},
		{"-np 2 trian", 127, "", "did you mean train?"},
		{"-np 2", 1, "", "PROGRAM"},
		{"-np 0 train", 1, "", "-np 0"},
		{"-timeout 0s train", 1, "", "positive"},
		{"train -np 2", 1, "", "before the program"},
		{"-resume x train", 1, "", "after the program"},
		{"init", 1, "", "-data FILE"},
		{"train --json --nosuchflag", 1, `"error":`, "nosuchflag"},
		{"train --nosuchflag", 1, "", "--help"},
		{"--help", 0, "PROGRAM", ""},
		{"train --help", 0, "Examples", ""},
		{"help config", 0, "global_batch", ""},
		{"--version", 0, "version", ""},
	} {
		o := run(t, dir, strings.Fields(c.args)...)
		if o.code != c.code || !strings.Contains(o.stdout, c.stdout) || !strings.Contains(o.stderr, c.stderr) {
			t.Errorf("wdlrun %s: exit code %d, want %d, with %q and %q in\n%s%s", c.args, o.code, c.code, c.stdout, c.stderr, o.stdout, o.stderr)
		}
	}
	if o := run(t, dir, "-np", "2", "-json", "sh", "-c", "exit 4"); o.code != 4 || !strings.Contains(o.stdout, `"exit_code":4`) {
		t.Errorf("exit code %d, %q", o.code, o.stdout)
	}
	cmd := command(t, dir, "-np", "2", "sh", "-c", `read line; echo "got $line"`)
	cmd.Stdin = strings.NewReader("hello\n")
	fatal.If(t, cmd.Start())
	if o := end(t, cmd); !strings.Contains(o.stdout, "[0] got hello\n") || !strings.Contains(o.stdout, "[1] got \n") {
		t.Errorf("standard input does not reach rank 0 alone: %q", o.stdout)
	}
	o := run(t, dir, "-np", "3", "sh", "-c", `echo "$WDLRUN_RANK of $WDLRUN_SIZE"; exit $WDLRUN_RANK`)
	if o.code != 1 && o.code != 2 {
		t.Errorf("exit code %d, want 1 or 2, because the ranks exit with 0, 1 and 2", o.code)
	}
	if !strings.Contains(o.stdout, "[0] 0 of 3") {
		t.Errorf("no line has the prefix of rank 0:\n%s", o.stdout)
	}
}

// TestGenInitTrain runs the commands for a user without data: gen, init, train and eval.
func TestGenInitTrain(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	for _, args := range []string{
		"gen -rows 2000 -out clicks.tsv",
		"init -data clicks.tsv -out clicks.yaml",
		"-np 2 train -config clicks.yaml -set train.epochs=1",
	} {
		if o := run(t, dir, strings.Fields(args)...); o.code != 0 {
			t.Fatalf("wdlrun %s: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
		}
	}
	if o := run(t, dir, "init", "-data", "clicks.tsv", "-out", "clicks.yaml"); o.code == 0 {
		t.Error("init overwrote a configuration")
	}
	runs, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	rel, _ := filepath.Rel(dir, runs[0])
	o := run(t, dir, "-np", "3", "eval", "-resume", rel, "-data", "clicks.tsv", "--json")
	if o.code != 0 || !strings.Contains(o.stdout, `"samples":2000`) {
		t.Errorf("eval: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	for _, f := range []string{"config.yaml", "metrics.jsonl", "result.json", "trace-0000.json", "trace-0001.json"} {
		if info, err := os.Stat(filepath.Join(runs[0], f)); err != nil || info.Size() == 0 {
			t.Errorf("the run directory does not contain %s (%v)", f, err)
		}
	}
}

// TestMaxBad: up to -max-bad bad records are skipped, and the result counts them.
func TestMaxBad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "clicks.csv", "y,city,age\n"+strings.Repeat("1,Oslo,3\n0,Bergen,4\n", 20)+"1,Voss,tall\n")
	write(t, dir, "c.yaml", clicksYAML)
	if o := run(t, dir, "train", "-config", "c.yaml", "-max-bad", "0"); o.code == 0 || !strings.Contains(o.stderr, "clicks.csv:42") {
		t.Errorf("a bad record: exit code %d\n%s", o.code, o.stderr)
	}
	o := run(t, dir, "train", "-config", "c.yaml", "-max-bad", "1", "-json")
	if o.code != 0 || !strings.Contains(o.stdout, `"bad":1}`) || !strings.Contains(o.stderr, "clicks.csv:42") {
		t.Errorf("one bad record is allowed: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestBadSpan: if one rank of a training on a stream finds a bad record, the training up to it
// is kept and can be resumed from there. The advice names the files that were read, with the
// -set flags of the command.
func TestBadSpan(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	good := "y,city,age\n" + strings.Repeat("1,Oslo,3\n0,Bergen,4\n", 20)
	fatal.If(t, os.Mkdir(filepath.Join(dir, "in"), 0o755))
	write(t, dir, "in/b001.csv", good)
	write(t, dir, "in/b002.csv", good+"1,Voss,tall\n")
	write(t, dir, "in/_SUCCESS", "")
	write(t, dir, "c.yaml", strings.Replace(clicksYAML, "standardise", "log", 1))
	o := run(t, dir, "-np", "2", "train", "-config", "c.yaml", "-set", "data.train=[in]",
		"-set", "data.follow={on: true, poll: 0.01, files: 1}", "-set", "train.global_batch=16")
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("run directories %q, %v\n%s", runs, err, o.stderr)
	}
	name := filepath.Join("runs", filepath.Base(runs[0]))
	if strings.Contains(o.stderr, "reported by rank") { // which does not matter on one host
		t.Errorf("%s", o.stderr)
	}
	for _, w := range []string{"wdlrun: in/b002.csv:42: ", "data check -config " + filepath.Join(name, "config.yaml") + ";", "after you fix this, resume from the last checkpoint: ", "/wdlrun -np 2 train -resume " + name + "\n"} {
		if o.code == 0 || !strings.Contains(o.stderr, w) {
			t.Errorf("exit code %d, no %q in\n%s", o.code, w, o.stderr)
		}
	}
	if o := run(t, dir, "-np", "2", "train", "-resume", name, "-max-bad", "1"); o.code != 0 || !strings.Contains(o.stderr, "training resumes after step 3") {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
}
