package patient

import (
	"os"
	"path/filepath"
	"testing"
)

// where is a test run that records its temporary folder.
type where struct{ dir *string }

func (w where) Run() int {
	*w.dir = os.TempDir()
	return 3
}

// TestInMemory: the folder is removed after the tests, and a chosen one is kept.
func TestInMemory(t *testing.T) {
	var dir string
	chosen := t.TempDir()
	t.Setenv("TMPDIR", chosen)
	if code := InMemory(where{&dir}).Run(); code != 3 || dir != chosen {
		t.Errorf("code %d, folder %s, want %s", code, dir, chosen)
	}
	t.Setenv("TMPDIR", "/tmp")
	code := InMemory(where{&dir}).Run()
	if dir == "/tmp" {
		t.Skip("there is too little room in memory")
	}
	if _, err := os.Stat(dir); code != 3 || filepath.Dir(dir) != memory || !os.IsNotExist(err) {
		t.Errorf("code %d, folder %s: %v", code, dir, err)
	}
}
