package gpu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/member"
)

const (
	// gpuProgram is the file name of the build with the tag gpu. It is in the same directory as
	// this program.
	gpuProgram = "wdlrun-gpu"
	Build      = "CGO_ENABLED=1 go build -tags gpu -o wdlrun-gpu ./cmd/wdlrun"

	// SourceWord is the argument with which a program prints its source instead of running a
	// command. Reading the source from the file would need package debug/buildinfo, which adds
	// half a megabyte.
	SourceWord = "__source"
	// sourceTime bounds the time that a program takes to print its source.
	sourceTime = 30 * time.Second
)

// source returns a description of the source that a program was built from, and whether it
// has the tag gpu. Builds outside a repository have no revision.
func source(b *debug.BuildInfo) (text string, gpu bool) {
	of := func(key string) string {
		for _, s := range b.Settings {
			if s.Key == key {
				return s.Value
			}
		}
		return ""
	}
	gpu = slices.Contains(strings.Split(of("-tags"), ","), "gpu")
	return fmt.Sprintf("%s %s %q %q", b.Path, b.Main.Version, of("vcs.revision"), of("vcs.modified")), gpu
}

// DescribeSource returns the line that a program prints for SourceWord.
func DescribeSource(b *debug.BuildInfo) string {
	text, gpu := source(b)
	return fmt.Sprintf("%s gpu=%t", text, gpu)
}

// Continue replaces this process with wdlrun-gpu, with the same arguments. It returns an
// error if there is no wdlrun-gpu built from the same source. asked is the flag or command
// that needs it.
func Continue(ctx context.Context, asked string) error {
	none := fmt.Errorf("%s: no wdlrun-gpu of this version in the directory of wdlrun; build it with: %s", asked, Build)
	own, err := os.Executable()
	if err == nil {
		own, err = filepath.EvalSymlinks(own)
	}
	b, ok := debug.ReadBuildInfo()
	if err != nil || !ok {
		return none
	}
	path := filepath.Join(filepath.Dir(own), gpuProgram)
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, SourceWord).Output()
	text, gpu := source(b)
	if err != nil || gpu {
		return none
	}
	if err := compareSources(path, text, string(out)); err != nil {
		return fmt.Errorf("%s: %w", asked, err)
	}
	err = syscall.Exec(path, os.Args, os.Environ())
	return fmt.Errorf("%s: %s: %w", asked, path, err)
}

// compareSources compares own, the source of this program, with the output of SourceWord of the
// program at path.
func compareSources(path, own, output string) error {
	other, gpu := strings.CutSuffix(strings.TrimSuffix(output, "\n"), " gpu=true")
	switch {
	case !gpu:
		return fmt.Errorf("%s was built without the tag gpu; build it with: %s", path, Build)
	case other != own:
		return fmt.Errorf("%s is of another version: it is %s, and wdlrun is %s; build both from the same files with the same GOFLAGS", path, command.Clean(other, 200), own)
	}
	return nil
}

// Choice specifies how ranks use the GPUs of a machine.
type Choice struct {
	Member   *member.Member // of this rank; nil in a launcher
	Assigned bool           // another launcher started this rank and may have assigned devices to it
	share    bool
	sum      string
}
