package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamesThatForgeALine: file names come from others, and appear in messages.
func TestNamesThatForgeALine(t *testing.T) {
	for _, name := range []string{"\x1b[2Jday.csv", "day\n[0] epoch 1 of 5.csv", "README\r.csv", "day\xff.csv"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("a,b\n"), 0o600); err != nil {
			t.Skip("this file system has no such names: ", err)
		}
		for _, pattern := range []string{path, dir, filepath.Join(dir, "*.csv")} {
			_, err := Resolve([]string{pattern})
			if err == nil || !strings.Contains(err.Error(), "rename the file") || strings.ContainsAny(err.Error(), "\x1b\n\r\xff") {
				t.Errorf("%q: error %q", pattern, err)
			}
		}
	}
}

// Standard input is no file of records, and the error says what to give instead.
func TestStandardInputIsNoFile(t *testing.T) {
	if _, err := Resolve([]string{"-"}); err == nil || !strings.Contains(err.Error(), "not read from standard input") {
		t.Error(err)
	}
}
