package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestFeatureIndex: two ranks make an index from several days, and a training uses it. eval
// reports the values of another day that are not in the index.
func TestFeatureIndex(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	write("monday.csv", "click,site\n1,a\n0,b\n0,a\n1,c\n")
	write("tuesday.csv", "click,site\n1,a\n0,d\n0,d\n1,b\n")
	write("ctr.yaml", "data: {train: [monday.csv], test: [tuesday.csv], header: true, index: ctr.index}\n"+
		"label: {field: click}\nfeatures: [{field: site, encode: vocabulary, min_count: 2}, {name: all, field: site, encode: hash}]\n")
	if o := must(t, dir, "-np 2 data index -config ctr.yaml -out ctr.index"); !containsAll(o.stdout, "4 records", "site     site   3        1     50.00 %", " -np 2 train -config ctr.yaml\n") {
		t.Errorf("data index prints\n%s", o.stdout)
	}
	if o := must(t, dir, "data index -config ctr.yaml -out other.index"); !strings.Contains(o.stdout, " -np 1 train -config ctr.yaml -set data.index=other.index\n") {
		t.Errorf("data index prints\n%s", o.stdout)
	}
	if o := must(t, dir, "data stats -index ctr.index tuesday.csv"); !containsAll(o.stdout, "unknown", "3\n") {
		t.Errorf("data stats prints\n%s", o.stdout)
	}
	r := train(t, dir, 2, "-config", "ctr.yaml", "-set", "train.batch=1")
	os.Remove(filepath.Join(dir, "ctr.index"))
	if o := must(t, dir, "-np 2 eval -resume "+r.RunDir); !containsAll(o.stdout, "values that are too rare for the vocabulary (min_count, max_size): site 1 (25 %)\n", "values that are newer than the model (train -from gives them rows): all 2 (50 %), site 2 (50 %)\n") {
		t.Errorf("eval prints\n%s", o.stdout)
	}
}

func containsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
