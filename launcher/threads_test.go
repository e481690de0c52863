//go:build linux

package launcher

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestThreadsOfRanks: ranks that outnumber the CPUs have one thread each, unless the user has
// set another number.
func TestThreadsOfRanks(t *testing.T) {
	cpus := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		np   int
		env  []string
		want string
	}{
		{cpus, nil, "none\n"},
		{cpus + 1, nil, "1\n"},
		{cpus + 1, []string{"GOMAXPROCS=3"}, "3\n"},
	} {
		out := newText()
		job := Job{Plan: local(t, c.np), Command: []string{"/bin/sh", "-c", "echo ${GOMAXPROCS:-none}"}, Env: append([]string{"PATH=/bin:/usr/bin"}, c.env...), Merged: true, Quiet: true, Stdout: out}
		o, err := Run(context.Background(), job)
		fatal.If(t, err)
		want := slices.Repeat([]byte(c.want), c.np)
		if o.Code != 0 || out.String() != string(want) {
			t.Errorf("%d ranks on %d CPUs, %v: exit code %d, GOMAXPROCS %q, want %q", c.np, cpus, c.env, o.Code, out, want)
		}
	}
}
