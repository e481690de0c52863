package checkpoint

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Folder is the folder of a run directory that contains its checkpoints.
const Folder = "checkpoints"

const (
	manifestName  = "MANIFEST.json"
	elsewhereName = "ELSEWHERE" // empty; all parts are on other hosts
	tmpPrefix     = ".tmp-"
	oldPrefix     = ".old-"
	delPrefix     = ".del-"

	runDigits = 16 // of the id of a run

	maxParts = 1 << 16 // ranks; more than in any job, few enough to allocate memory for
	maxName  = 1 << 10 // bytes of a section's name
)

// Dir returns the directory of the committed checkpoint of a step. It does not access the
// disk.
func Dir(root string, step int64) string { return filepath.Join(withoutTurn(root), stepName(step)) }

// dirOf returns the directory of the checkpoint of a step. After a crash while it was being
// replaced, that is its temporary name.
func dirOf(root string, step int64) string {
	if dir, old := Dir(root, step), oldDir(root, step); exists(dir) || !exists(old) {
		return dir
	} else {
		return old
	}
}

func stepName(step int64) string { return fmt.Sprintf("step-%09d", step) }

func tmpDir(root string, step int64) string { return filepath.Join(root, tmpPrefix+stepName(step)) }

func oldDir(root string, step int64) string {
	return filepath.Join(withoutTurn(root), oldPrefix+stepName(step))
}

func delDir(root string, step int64) string { return filepath.Join(root, delPrefix+stepName(step)) }

func partName(part, parts int) string { return fmt.Sprintf("rank-%04d-of-%04d.wck", part, parts) }

// parseStep is the inverse of stepName and accepts no other names.
func parseStep(name string) (step int64, ok bool) {
	digits, ok := strings.CutPrefix(name, "step-")
	if !ok {
		return 0, false
	}
	step, err := strconv.ParseInt(digits, 10, 64)
	return step, err == nil && step >= 0 && stepName(step) == name
}

// checkPlace returns an error if a checkpoint cannot have this step, part and number of
// parts.
func checkPlace(step int64, part, parts int) error {
	switch {
	case step < 0:
		return fmt.Errorf("step %d is negative", step)
	case parts < 1 || parts > maxParts:
		return fmt.Errorf("%d parts, must be 1 to %d", parts, maxParts)
	case part < 0 || part >= parts:
		return fmt.Errorf("part %d of %d, must be 0 to %d", part, parts, parts-1)
	}
	return nil
}

// checkName rejects names that are too long or cannot be printed.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name of a section is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name of a section has %d bytes, at most %d are allowed", len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("the section name %q is not UTF-8", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the section name %q holds a control character", name)
	}
	return nil
}

// Found is a checkpoint listed by its name. It may not open.
type Found struct {
	Step int64
	Dir  string
	File bool   // not a directory: it does not open, and Prune does not remove it
	Link string // what Dir leads to if it is a symbolic link; Prune removes only the link
}

// List returns the checkpoints below root, newest step first, including damaged ones. It
// follows symbolic links, since checkpoints may be moved to other disks. If root does not
// exist, the error is fs.ErrNotExist.
func List(root string) ([]Found, error) {
	root = withoutTurn(root)
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: list: %w", err)
	}
	steps := map[int64]Found{}
	for _, e := range entries {
		// ReadDir sorts names, and a dot comes before letters. So a committed checkpoint follows
		// the .old one of the same step and replaces it.
		if step, ok := parseStep(strings.TrimPrefix(e.Name(), oldPrefix)); ok {
			f := Found{Step: step, Dir: filepath.Join(root, e.Name())}
			if e.Type()&fs.ModeSymlink == 0 {
				f.File = !e.IsDir()
			} else if f.Link, err = os.Readlink(f.Dir); err != nil {
				continue // it was removed at this moment
			}
			steps[step] = f
		}
	}
	found := slices.Collect(maps.Values(steps))
	slices.SortFunc(found, func(a, b Found) int {
		if a.Step > b.Step {
			return -1
		}
		return 1
	})
	return found, nil
}

// notThere is an error for which errors.Is(err, fs.ErrNotExist) holds.
type notThere string

func (n notThere) Error() string        { return string(n) }
func (n notThere) Is(target error) bool { return target == fs.ErrNotExist }

// absent returns the error of a missing directory. For a checkpoint it lists those that
// exist.
func absent(dir string) error {
	dir = filepath.Clean(dir)
	if to, err := os.Readlink(dir); err == nil {
		return notThere(fmt.Sprintf("the link leads to %s, which does not exist", to))
	}
	if _, isStep := parseStep(filepath.Base(dir)); !isStep {
		return notThere("there is no such directory")
	}
	text := "it is not there: never committed, or pruned since"
	if found, err := List(filepath.Dir(dir)); err == nil && len(found) > 0 {
		var steps []string
		for _, f := range found[:min(len(found), maxNamed)] {
			steps = append(steps, strconv.FormatInt(f.Step, 10))
		}
		text += fmt.Sprintf("; the same root has steps %s", strings.Join(steps, ", "))
		if len(found) > maxNamed {
			text += fmt.Sprintf(" and %d more", len(found)-maxNamed)
		}
	}
	return notThere(text)
}

// maxNamed is the largest number of checkpoints listed in an error.
const maxNamed = 8

// IsCheckpoint reports whether path is a single checkpoint, by its name or its manifest,
// rather than a directory of several.
func IsCheckpoint(path string) bool {
	_, isStep := parseStep(filepath.Base(filepath.Clean(path)))
	return isStep || exists(filepath.Join(path, manifestName))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// isTemporary reports whether this package gives a name to directories that are not
// checkpoints.
func isTemporary(name string) bool {
	for _, prefix := range []string{tmpPrefix, oldPrefix, delPrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			_, ok = parseStep(rest)
			return ok
		}
	}
	return false
}

// checkRun returns an error if run is not the id of a run.
func checkRun(run string) error {
	if _, err := hex.DecodeString(run); err != nil || len(run) != runDigits {
		return fmt.Errorf("%.40q is not the id of a run, %d hexadecimal digits", run, runDigits)
	}
	return nil
}
