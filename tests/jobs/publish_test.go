package jobs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestPublishCommand: publish lists, labels, rolls back and verifies the versions of a folder.
func TestPublishCommand(t *testing.T) {
	t.Parallel()
	dir, model := clickLog(t, 500)
	for _, n := range []string{"3", "7"} {
		must(t, dir, "export -resume "+model+" -out models -name ctr -version "+n)
	}
	var l export.Listing
	list := func() {
		t.Helper()
		l = export.Listing{}
		fatal.If(t, json.Unmarshal([]byte(must(t, dir, "publish models/ctr -verify -json").stdout), &l))
	}
	for range 2 {
		if o := must(t, dir, "publish models/ctr -pin stable=3"); o.stdout != "stable is version 3 of models/ctr\n" {
			t.Errorf("%q", o.stdout)
		}
		if o := must(t, dir, "publish -rollback stable models/ctr"); o.stdout != "version 8 of models/ctr has the rows of version 3; nothing is published until: wdlrun publish models/ctr -release\n" {
			t.Errorf("%q", o.stdout)
		}
	}
	list()
	if len(l.Versions) != 3 || l.Versions[2].Version != 8 || *l.Versions[2].Rollback != 3 || l.Versions[2].Kind != "complete" || l.Hold == nil ||
		!slices.Equal(l.Versions[0].Pins, []string{"stable"}) || len(l.Versions[0].Lineage) != 16 {
		t.Errorf("%+v", l)
	}
	for _, name := range []string{"dense.bin", "table-0000.bin", "encoder.json"} {
		a, err := os.ReadFile(filepath.Join(dir, "models", "ctr", "3", name))
		fatal.If(t, err)
		b, err := os.ReadFile(filepath.Join(dir, "models", "ctr", "8", name))
		if err != nil || string(a) != string(b) {
			t.Errorf("%s of the rollback differs, %v", name, err)
		}
	}
	for _, changed := range []bool{true, false} {
		var x struct{ Changed bool }
		fatal.If(t, json.Unmarshal([]byte(must(t, dir, "publish models/ctr -release --json").stdout), &x))
		if x.Changed != changed {
			t.Errorf("release: %v", x)
		}
	}
	must(t, dir, "publish models/ctr -unpin stable")
	if list(); l.Hold != nil || len(l.Pins) > 0 {
		t.Errorf("%+v", l)
	}
	fatal.If(t, os.Truncate(filepath.Join(dir, "models", "ctr", "7", "dense.bin"), 1))
	if o := run(t, dir, "publish", "models/ctr", "-verify"); o.code != 1 || !strings.Contains(o.stderr, "1 version of 3 cannot be opened: [7]") || !strings.Contains(o.stdout, "dense.bin: 1 bytes") {
		t.Errorf("a damaged version: %+v", o)
	}
	for args, want := range map[string]string{
		"models/ctr -pin stable":          "give a label and the number",
		"models/ctr -pin stable=5":        "wdlrun: publish: models/ctr: version 5 is not there: the folder has 3 versions from 3 to 8",
		"models/ctr -pin ../../x=3":       "the label",
		"models/ctr -unpin nosuch":        `wdlrun: publish: models/ctr has no label "nosuch"`,
		"nowhere":                         "wdlrun: publish: nowhere: ",
		"models":                          "wdlrun: publish: models has no versions, but folders in it have: give one of them, such as wdlrun publish models/ctr",
		"models/ctr -rollback canary":     "neither the number of a version nor a label",
		"models/ctr -hold -release":       "give one of",
		"models/ctr -reason x":            "no effect without -hold",
		"":                                "give one folder",
		"nowhere -hold":                   "no such file",
		"models/ctr -rollback 7 -json":    "dense.bin",
		"models/ctr/3/dense.bin -unpin x": "not a folder",
	} {
		o := run(t, dir, append([]string{"publish"}, strings.Fields(args)...)...)
		if o.code != 1 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %q", args, o.code, o.stderr, want)
		}
	}
}
