package jobs

import (
	"strings"
	"testing"
)

// TestSettingsMendTheFile: a file and -set are judged together. Without the settings, or with others, the faults of the file
// have their lines.
func TestSettingsMendTheFile(t *testing.T) {
	t.Parallel()
	dir, _ := clickLog(t, 500)
	write(t, dir, "half.yaml", "data: {train: [clicks.csv]}\nlabel: {field: y}\nfeatures:\n  - {field: city, encode: vocabulary}\n")
	for set, want := range map[string]string{"data.header=true": "", "train.epochs=1": "half.yaml:1:1: data.fields: is missing"} {
		o := run(t, dir, "-np", "1", "train", "-config", "half.yaml", "-set", set, "-plan")
		if (o.code == 0) != (want == "") || !strings.Contains(o.stderr, want) {
			t.Errorf("-set %s: exit code %d: %s", set, o.code, o.stderr)
		}
	}
}
