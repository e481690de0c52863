package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
)

// TestHelpHasExamples: the help of every command has an example.
func TestHelpHasExamples(t *testing.T) {
	p := &command.Program{Stdout: io.Discard, Stderr: io.Discard, Getenv: os.Getenv}
	var walk func(path string, all []*cli.Command)
	walk = func(path string, all []*cli.Command) {
		for _, c := range all {
			name := path + " " + c.Name
			if walk(name, c.Subcommands); c.Name != "help" && !strings.Contains(c.Description, "\nExample") {
				t.Errorf("%s --help has no example", name)
			}
		}
	}
	walk("wdlrun", app(p).Commands)
}
