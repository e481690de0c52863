package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestSettingsMendTheFile: every command with -config and -set judges both together. Without the settings, or with others,
// the faults of the file have their lines.
func TestSettingsMendTheFile(t *testing.T) {
	t.Parallel()
	dir, _ := clickLog(t, 500)
	write(t, dir, "half.yaml", "data: {train: [clicks.csv], valid_fraction: 0.1}\nlabel: {field: y}\nfeatures:\n  - {field: city, encode: vocabulary}\n")
	write(t, dir, "space.yaml", "train.seed: [1]\n")
	for _, args := range [][]string{
		{"train", "-plan"},
		{"data", "check"},
		{"data", "index", "-out", "ctr.index"},
		{"sweep", "-space", "space.yaml", "-method", "grid", "-np", "1"},
		{"manifest", "-image", "any", "-hosts", "1"},
	} {
		for set, want := range map[string]string{"data.header=true": "", "train.epochs=1": "half.yaml:1:1: data.fields: is missing"} {
			o := run(t, dir, append(args, "-config", "half.yaml", "-set", set)...)
			if (o.code == 0) != (want == "") || !strings.Contains(o.stderr, want) {
				t.Errorf("%q -set %s: exit code %d: %s", args, set, o.code, o.stderr)
			}
			if args[1] == "index" && want == "" && !strings.Contains(o.stdout, "train -config half.yaml -set data.header=true -set data.index=ctr.index\n") {
				t.Errorf("the next command after %q lacks a setting: %s", args, o.stdout)
			}
		}
	}
	// The training on partitions reads the file too.
	for _, day := range []string{"2026-11-01", "2026-11-02"} {
		part := filepath.Join(dir, "log", "dt="+day)
		fatal.If(t, os.MkdirAll(part, 0o755))
		write(t, part, "part.csv", "y,city\n1,a\n0,b\n1,c\n0,a\n")
	}
	write(t, dir, "days.yaml", "data: {train: [log]}\nlabel: {field: y}\nfeatures:\n  - {field: city, encode: hash}\n")
	o := run(t, dir, "-np", "1", "train", "-out", "days", "-config", "days.yaml", "-by", "dt", "-set", "data.header=true", "-set", "train.epochs=1")
	if o.code != 0 || strings.Count(o.stdout, "\ndt=2026-11-") != 2 {
		t.Errorf("train -by: exit code %d: %s%s", o.code, o.stdout, o.stderr)
	}
}
