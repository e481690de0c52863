package data

import (
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
)

// The index of a followed folder is named like its configuration. One file cannot be followed.
func TestIndexOfAFollowedFolder(t *testing.T) {
	for path, want := range map[string]string{"-": "ctr.index", "a/b.yaml": "a/b.index", "b": "b.index"} {
		if got, err := indexFor(path, []string{t.TempDir(), "day_*.csv", "kafka://a:1/b"}); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	if _, err := indexFor("-", []string{datatest.Write(t, "a.csv", "y\n")}); err == nil || !strings.Contains(err.Error(), "a.csv is one file: give the folder") {
		t.Error(err)
	}
}
