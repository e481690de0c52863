package wdl

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
)

// TestARunDirectoryThatVanishes: it is deleted, or moved away, after the first epoch.
func TestARunDirectoryThatVanishes(t *testing.T) {
	c := config.Default()
	c.Train.Epochs = 4
	undisturbed := runJob(t, 1, Options{Config: c})
	b, err := os.ReadFile(filepath.Join(undisturbed.RunDir, save.FileMetrics))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Count(string(b), `"event":"train"`)
	for name, vanish := range map[string]func(dir string) error{
		"deleted": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-elsewhere") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			var once sync.Once
			var warned []string
			res := runJob(t, 1, Options{Config: c, Out: out,
				Say: func(line string) {
					if strings.HasPrefix(line, "epoch 2") {
						once.Do(func() {
							found, _ := filepath.Glob(filepath.Join(out, "*"))
							if err := vanish(found[0]); err != nil {
								t.Error(err)
							}
						})
					}
				},
				Warn: func(line string) { warned = append(warned, line) },
			})
			if n := len(warned); n == 0 || !strings.Contains(warned[0], "deleted or moved while the training ran") {
				t.Errorf("warnings %q", warned)
			}
			b, err := os.ReadFile(filepath.Join(res.RunDir, save.FileMetrics))
			if n := strings.Count(string(b), `"event":"train"`); err != nil || n != want {
				t.Errorf("%d lines of metrics, want %d, error %v", n, want, err)
			}
			if _, err := config.Load(filepath.Join(res.RunDir, save.FileConfig)); err != nil {
				t.Error(err)
			}
			if ck, _, err := checkpoint.Latest(filepath.Join(res.RunDir, checkpoint.Folder)); err != nil || ck.Step() != res.Steps {
				t.Errorf("the last checkpoint: %v, error %v", ck, err)
			}
		})
	}
}
