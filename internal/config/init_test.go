package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// TestInit compares the output of init for small files of many kinds with golden files; each
// output is a valid configuration. -rewrite updates them.
func TestInit(t *testing.T) {
	files, err := filepath.Glob("testdata/init/*")
	fatal.If(t, err)
	tried := 0
	for _, path := range files {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".yaml") {
			continue
		}
		tried++
		in, err := inspect.All([]string{path}, 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		in.Path = name
		b := Suggest(in, "")
		if _, err := Parse(name, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden.Check(t, "init/"+strings.TrimSuffix(name, filepath.Ext(name))+".yaml", string(b))
	}
	if tried < 40 {
		t.Errorf("only %d files", tried)
	}
}
