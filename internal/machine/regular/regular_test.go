//go:build unix

package regular

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// within fails a test in which f blocks.
func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("it blocks")
		return nil
	}
}

func TestOnlyRegularFilesOpen(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	fatal.If(t, syscall.Mkfifo(pipe, 0o600))
	link := filepath.Join(dir, "link")
	fatal.If(t, os.Symlink(pipe, link))
	for path, want := range map[string]string{
		pipe: "a named pipe", link: "a named pipe", dir: "a directory", "/dev/zero": "a device",
	} {
		err := within(t, func() error { _, err := ReadFile(path, 100); return err })
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want an error with %q", path, err, want)
		}
	}
}

func TestReadFileKeepsItsLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 99, 100, 101, 5000} {
		want := bytes.Repeat([]byte{'x'}, size)
		fatal.If(t, os.WriteFile(path, want, 0o600))
		b, err := ReadFile(path, 100)
		if size > 100 {
			if err == nil || !strings.Contains(err.Error(), "more than 100 bytes") {
				t.Errorf("%d bytes: error %v", size, err)
			}
		} else if err != nil || !bytes.Equal(b, want) {
			t.Errorf("%d bytes: %d were read, error %v", size, len(b), err)
		}
	}
}

func TestAFileOfProcIsReadThoughItsSizeIsZero(t *testing.T) {
	b, err := ReadFile("/proc/self/status", 1<<16)
	if os.IsNotExist(err) {
		t.Skip("no /proc here")
	}
	if err != nil || len(b) == 0 {
		t.Fatalf("%d bytes, error %v", len(b), err)
	}
}
