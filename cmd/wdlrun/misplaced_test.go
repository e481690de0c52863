package main

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
)

// TestMisplacedFlags: a correct command line is not changed.
func TestMisplacedFlags(t *testing.T) {
	app := app(new(command.Program))
	for _, line := range []string{
		"wdlrun", "wdlrun -h", "wdlrun -np 2 train -backup 1", "wdlrun -np 2 -plan train", "wdlrun -json eval -resume a", "wdlrun -timeout 5s ./prog -backup 1",
		"wdlrun -np 2 -- train", "wdlrun -np", "wdlrun -backup", "wdlrun -nosuchflag train",
	} {
		if err := misplaced(app, strings.Fields(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for line, want := range map[string]string{
		"wdlrun -np 2 -skip-nothing -replicas=2 train": "-replicas is a flag of train: put it after the program: wdlrun -np 2 -skip-nothing train -replicas=2",
		"wdlrun -keep 3 ckpt prune runs/a":             "-keep is a flag of ckpt prune: put it after the program: wdlrun ckpt prune -keep 3 runs/a",
		"wdlrun -replicas 2 ./prog":                    "./prog has no flag -replicas: it belongs to train",
	} {
		if err := misplaced(app, strings.Fields(line)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestOneProcess: every command either starts ranks or rejects all launch flags except
// -json.
func TestOneProcess(t *testing.T) {
	app := app(new(command.Program))
	for _, line := range []string{
		"wdlrun", "wdlrun -np 2", "wdlrun -np", "wdlrun -np 2 ./prog", "wdlrun -np 2 -plan train", "wdlrun -H a:2 data index", "wdlrun -np 2 bench allreduce",
		"wdlrun -n 2 manifest", "wdlrun -json gen", "wdlrun gen -np 2", "wdlrun -h gen",
	} {
		if err := oneProcess(app, strings.Fields(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for line, want := range map[string]string{
		"wdlrun -np 2 gen -rows 5 -out x.csv":        "gen is one process, so -np has no effect: leave it out: wdlrun gen -rows 5 -out x.csv",
		"wdlrun -np=2 -json -x A=b data show my.csv": "data show is one process, so -np and -x have no effect: leave them out: wdlrun -json data show my.csv",
		"wdlrun --timeout 5s -np 2 manifest":         "manifest is one process, so -timeout has no effect: leave it out: wdlrun -np 2 manifest",
		"wdlrun -encrypt bench serve":                "bench serve is one process, so -encrypt has no effect: leave it out: wdlrun bench serve",
	} {
		if err := oneProcess(app, strings.Fields(line)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	var one []string
	for _, k := range app.Commands {
		for _, name := range append([]string{k.Name}, programNames(k)...) {
			if oneProcess(app, strings.Fields("wdlrun -np 2 "+name)) != nil {
				one = append(one, name)
			}
		}
	}
	want := "init data data show data stats data check data convert data diff join export publish serve online runs report trace sweep ckpt ckpt show ckpt verify ckpt diff ckpt prune hosts hosts add hosts drop agent agent id agent allow agent remove agent list gpus gpu-check gen bench input bench serve help"
	if got := strings.Join(one, " "); got != want {
		t.Errorf("one process are %s\nwant %s", got, want)
	}
}

// programNames returns the subcommands of a command.
func programNames(k *cli.Command) (names []string) {
	for _, s := range k.Subcommands {
		names = append(names, k.Name+" "+s.Name)
	}
	return names
}
