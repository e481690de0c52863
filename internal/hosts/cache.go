package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// Cached returns the path of a program that was sent to this host. Each hash has a folder, so
// that the program keeps its name.
func Cached(home, hash, name string) string {
	return filepath.Join(home, ".cache", "wdlrun", "programs", hash, filepath.Base(name))
}

// OwnBinary returns the path of the wdlrun binary with a hash that was sent to this host.
func OwnBinary(home, hash string) (string, error) {
	if home == "" || !hashed().MatchString(hash) {
		return "", fmt.Errorf("hosts: %.80q is not a SHA-256, or HOME is not set", hash)
	}
	return filepath.Join(home, ".cache", "wdlrun", "bin", hash), nil
}

// hashed matches the name of a file or folder of the cache.
var hashed = pattern.Lazy(`^[0-9a-f]{64}$`)

const (
	// kept is the number of versions of a program that stay in the cache.
	kept = 2

	// recent is the minimum time for which a file stays in the cache: a job may be about to use it.
	recent = time.Hour
)

// Verify returns an error if the executable at path, which was sent to this host, is damaged.
// It removes a damaged executable.
func Verify(path string) error {
	name := filepath.Base(path)
	if !hashed().MatchString(name) {
		return nil
	}
	now := time.Now()
	os.Chtimes(path, now, now) // it is in use
	got, err := Hash(path)
	if err != nil {
		return err
	}
	if got != name {
		os.Remove(path)
		return fmt.Errorf("hosts: %s was damaged and is removed: start the job again", path)
	}
	return nil
}

// Prune removes all but the latest entries of a folder of the cache, and the remains of
// broken transfers. It ignores errors: the next job tries again.
func Prune(folder string) {
	now := time.Now()
	if filepath.Base(filepath.Dir(folder)) != "wdlrun" { // not the cache
		return
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	type entry struct {
		path string
		used time.Time
	}
	var found []entry
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < recent && !hashed().MatchString(e.Name()) {
			continue
		}
		path := filepath.Join(folder, e.Name())
		switch {
		case hashed().MatchString(e.Name()):
			found = append(found, entry{path, info.ModTime()})
		case e.Name()[0] == '.':
			os.Remove(path)
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return b.used.Compare(a.used) })
	for _, e := range found[min(kept, len(found)):] {
		if now.Sub(e.used) >= recent {
			os.RemoveAll(e.path)
		}
	}
}

// Find returns the path at which a program of the launcher can be executed here: the
// same path, if the file there has the hash, or the cache. ok is false if it must be sent.
func Find(home, dir, path, hash string, ship Ship) (at string, ok bool, err error) {
	own := path
	if !filepath.IsAbs(own) {
		own = filepath.Join(dir, own)
	}
	got, err := Hash(own)
	switch {
	case ship == Never && err != nil:
		return "", false, err
	case ship == Never && got != hash:
		return "", false, fmt.Errorf("%s differs from the launcher's: copy it there, or leave -ship never out", own)
	case ship == Never, ship == Auto && err == nil && got == hash:
		return own, true, nil
	}
	at = Cached(home, hash, path)
	if ship == Auto {
		if got, err := Hash(at); err == nil && got == hash {
			now := time.Now()
			os.Chtimes(filepath.Dir(at), now, now)
			return at, true, nil
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", false, err
		}
	}
	return at, false, os.MkdirAll(filepath.Dir(at), 0o700)
}
