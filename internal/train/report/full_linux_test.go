package report

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestMetricsAfterAFullDisk: lines that find no space are missing, and none is cut short. Later
// lines are written. A limit of the size of files stands for the disk.
func TestMetricsAfterAFullDisk(t *testing.T) {
	dir := t.TempDir()
	var warned []string
	m := openMetrics(dir, nil, 0, func(line string) { warned = append(warned, line) })
	defer m.close()
	m.write([]byte(`{"step":1}`))
	var before syscall.Rlimit
	fatal.If(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	full := before
	full.Cur = 15 // within the second line
	fatal.If(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	m.write([]byte(`{"step":2}`))
	m.write([]byte(`{"step":3}`))
	fatal.If(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
	m.write([]byte(`{"step":4}`))
	m.write([]byte(`{"step":5}`))
	b, err := os.ReadFile(filepath.Join(dir, rundir.FileMetrics))
	fatal.If(t, err)
	if want := "{\"step\":1}\n{\"step\":4}\n{\"step\":5}\n"; string(b) != want {
		t.Errorf("%q, want %q", b, want)
	}
	if len(warned) != 2 || !strings.Contains(warned[0], "file too large") || !strings.HasSuffix(warned[1], " lacks 2 lines") {
		t.Errorf("warnings %q", warned)
	}
}
