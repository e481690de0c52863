package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
)

// TestNoPackageInMessages: errors of package launcher are printed without its name, also
// as JSON.
func TestNoPackageInMessages(t *testing.T) {
	for _, args := range [][]string{{"wdlrun", "-hostfile", "none", "train"}, {"wdlrun", "-json", "-hostfile", "none", "train"}} {
		var stdout, stderr bytes.Buffer
		p := &command.Program{Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }}
		if code := run(p, args); code != 1 || !strings.HasPrefix(stderr.String(), "wdlrun: -hostfile: open none: ") || strings.Contains(stdout.String(), "launcher:") {
			t.Errorf("%q: exit code %d: %s%s", args, code, &stdout, &stderr)
		}
	}
}
