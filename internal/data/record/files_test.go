package record

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
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

// TestHDFSIsReadByHTTP: the error names the address that is read.
func TestHDFSIsReadByHTTP(t *testing.T) {
	if _, err := Resolve([]string{"hdfs://nn:8020/logs/dt=1"}); err == nil || !strings.Contains(err.Error(), "webhdfs://NAMENODE:9870/logs/dt=1") {
		t.Error(err)
	}
}

// TestEmptyFilesAreNamed: files without records that a folder has are left out and named.
func TestEmptyFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.csv": "y,x\n1,2\n", "b.csv": "", "c.csv": "\n"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	f, err := OpenFiles(schema.Source{Format: "csv", Header: true}, []string{dir})
	fatal.If(t, err)
	if want := []string{filepath.Join(dir, "b.csv"), filepath.Join(dir, "c.csv")}; !slices.Equal(f.Empty(), want) {
		t.Errorf("%q, want %q", f.Empty(), want)
	}
}
