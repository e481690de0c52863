package main

import (
	"os"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
)

func TestFlagsMayFollowOperands(t *testing.T) {
	p := &command.Program{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	for args, want := range map[string]string{
		"init -data a.csv b.csv -out x.yaml":     "init -data a.csv -out x.yaml b.csv",
		"init a.csv -rows=5 b.csv --json":        "init -rows=5 --json a.csv b.csv",
		"-np 2 -timeout 5s replay runs/a -out b": "-np 2 -timeout 5s replay -out b runs/a",
		"-json ckpt prune a -keep 2 -dry-run":    "-json ckpt prune -keep 2 -dry-run a",
		"data show - -records 2":                 "data show -records 2 -",
		"data convert a.csv -codes b.csv -out c": "data convert -codes b.csv -out c a.csv",
		"init a.csv -nosuchthing b.csv":          "init -nosuchthing a.csv b.csv",
		"init a.csv b.csv -out":                  "init -out",
		"init a.csv -out x.yaml -- -b.csv c.csv": "init -out x.yaml -- a.csv -b.csv c.csv",
		"report a -out x.html b":                 "report -out x.html a b",
		"trace runs/a -out m.json":               "trace -out m.json runs/a",
		"runs experiments -sort auc -csv":        "runs -sort auc -csv experiments",
		"train x.yaml -set train.seed=1":         "train x.yaml -set train.seed=1",
		"-np 2 ./prog init -x a -out":            "-np 2 ./prog init -x a -out",
		"data nosuchthing a.csv -out b":          "data nosuchthing a.csv -out b",
		"-np 2":                                  "-np 2",
	} {
		got := strings.Join(flagsFirst(app(p), append([]string{"wdlrun"}, strings.Fields(args)...)), " ")
		if got != "wdlrun "+want {
			t.Errorf("%s\nbecomes %s\nwant    wdlrun %s", args, got, want)
		}
	}
}
