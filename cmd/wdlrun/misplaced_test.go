package main

import (
	"strings"
	"testing"
)

// TestMisplacedFlags: a command line that is right is left alone.
func TestMisplacedFlags(t *testing.T) {
	app := new(program).app()
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
