package command

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestBuildDetails: a build names its commit, whether it had changes, and its tags.
func TestBuildDetails(t *testing.T) {
	settings := func(pairs ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{}
		for i := 0; i < len(pairs); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return b
	}
	for want, info := range map[string]*debug.BuildInfo{
		"commit 0123456789ab, go":              settings("vcs.revision", "0123456789abcdef", "vcs.modified", "false"),
		"commit 0123456789ab with changes, go": settings("vcs.revision", "0123456789abcdef", "vcs.modified", "true"),
		"go1":                                  settings(),
		", tags gpu,remote":                    settings("-tags", "gpu,remote"),
	} {
		if got := newBuild(info).details(); !strings.Contains(got, want) || strings.HasPrefix(got, "commit") != strings.HasPrefix(want, "commit") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
