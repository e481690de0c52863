package main

import (
	"os"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestManifestChecksALoop: the flags of the parts, and whether each reads what the one before it writes, are checked.
func TestManifestChecksALoop(t *testing.T) {
	t.Chdir(t.TempDir())
	const loop = `join: {impressions: shown, feedback: clicks, out: samples, key: id}
train: {config: ctr.yaml}
serve: {model: ctr=models/ctr}
`
	const train = `data: {train: [/data/samples], format: jsonl, follow: {on: true}}
label: {field: label}
features: [{field: site, encode: hash}]
train: {export: {dir: models/ctr, every_seconds: 1}}
`
	for _, x := range []struct {
		old, new, flags string
		code            int
		want            string
	}{
		{code: 0},
		{old: "impressions:", new: "impresions:", code: 1, want: "join: flag provided but not defined: -impresions"},
		{old: ", key: id", code: 1, want: "join: give -key"},
		{old: "{config", new: "{sed: 1, config", code: 1, want: "train: flag provided but not defined: -sed"},
		{old: "serve: {", new: "serve: {threads: many, ", code: 1, want: `serve: invalid value "many" for flag -threads`},
		{flags: "-set train.sed=3", code: 1, want: "train.sed"},
		{flags: "-set train.export.dir=models/other", want: "the training publishes to models/other, and the server reads models/ctr"},
		{old: "join:", new: "dir: state\njoin:", want: "dir: state is not used: -out has the run directory"},
		{old: "join:", new: "web: :6062\njoin:", want: "web: :6062 is not used"},
		{old: "serve: {", new: "serve: {port: 9000, ", want: "serve.port: not used"},
	} {
		fatal.If(t, os.WriteFile("online.yaml", []byte(strings.Replace(loop, x.old, x.new, min(len(x.old), 1))), 0o600))
		fatal.If(t, os.WriteFile("ctr.yaml", []byte(train), 0o600))
		var out, lines strings.Builder
		args := "wdlrun manifest -online online.yaml -image any -claim clicks " + x.flags
		code := run(&command.Program{Stdout: &out, Stderr: &lines, Getenv: os.Getenv}, strings.Fields(args))
		if code != x.code || !strings.Contains(lines.String(), x.want) || (x.want == "") != (lines.Len() == 0) || (code == 0) != (out.Len() > 0) {
			t.Errorf("%+v: exit code %d: %s", x, code, lines.String())
		}
	}
}
