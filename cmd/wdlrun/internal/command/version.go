package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// Version is the semantic version of the program. All ranks of a job must have the same.
// .ci/release requires that the tag of a release names it.
const Version = "0.2.0"

// build describes how this binary was made, for `wdlrun --version`.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // absent in builds outside a checkout, and in go run
	Modified bool   `json:"modified,omitempty"` // the checkout had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Tags     string `json:"tags,omitempty"`
}

// newBuild reads the description that the compiler stored in the binary.
func newBuild(info *debug.BuildInfo) build {
	b := build{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "-tags":
			b.Tags = s.Value
		}
	}
	return b
}

// details is the text behind the version: the commit, the compiler, the platform and the tags.
func (b build) details() string {
	s := ""
	if b.Commit != "" {
		s = "commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			s += " with changes"
		}
		s += ", "
	}
	s += b.Go + ", " + b.Platform
	if b.Tags != "" {
		s += ", tags " + b.Tags
	}
	return s
}

func (p *Program) PrintVersion(c *cli.Context) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	b := newBuild(info)
	if AsJSON(c) {
		p.PrintJSON(b) // main reports lost output
		return
	}
	fmt.Fprintf(p.Stdout, "%s version %s (%s)\n", c.App.Name, b.Version, b.details())
}
