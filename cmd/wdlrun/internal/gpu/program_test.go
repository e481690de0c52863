package gpu

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestSource: programs of one source differ only in the tag.
func TestSource(t *testing.T) {
	build := func(path, version string, settings ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{Path: path, Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return b
	}
	own, _ := source(build("x/cmd/wdlrun", "v1", "vcs.revision", "abc", "vcs.modified", "false"))
	for name, k := range map[string]struct {
		gpu  *debug.BuildInfo
		same bool
	}{
		"the same":           {build("x/cmd/wdlrun", "v1", "-tags", "gpu", "vcs.revision", "abc", "vcs.modified", "false"), true},
		"more tags":          {build("x/cmd/wdlrun", "v1", "-tags", "remote,gpu", "vcs.revision", "abc", "vcs.modified", "false"), true},
		"without the tag":    {build("x/cmd/wdlrun", "v1", "vcs.revision", "abc", "vcs.modified", "false"), false},
		"another tag":        {build("x/cmd/wdlrun", "v1", "-tags", "nogpu", "vcs.revision", "abc", "vcs.modified", "false"), false},
		"another commit":     {build("x/cmd/wdlrun", "v1", "-tags", "gpu", "vcs.revision", "abd", "vcs.modified", "false"), false},
		"changed files":      {build("x/cmd/wdlrun", "v1", "-tags", "gpu", "vcs.revision", "abc", "vcs.modified", "true"), false},
		"another version":    {build("x/cmd/wdlrun", "v2", "-tags", "gpu", "vcs.revision", "abc", "vcs.modified", "false"), false},
		"another program":    {build("y/cmd/wdlrun", "v1", "-tags", "gpu", "vcs.revision", "abc", "vcs.modified", "false"), false},
		"outside repository": {build("x/cmd/wdlrun", "v1", "-tags", "gpu"), false},
	} {
		err := compareSources("bin/wdlrun-gpu", own, DescribeSource(k.gpu)+"\n")
		if same := err == nil; same != k.same {
			t.Errorf("%s: %v", name, err)
		}
		if _, gpu := source(k.gpu); err != nil && gpu == strings.Contains(err.Error(), "without the tag gpu") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if DescribeSource(build("x", "(devel)")) != `x (devel) "" "" gpu=false` {
		t.Errorf("%s", DescribeSource(build("x", "(devel)")))
	}
}
