package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// runFile is the file of a root with the ids of the runs whose checkpoints it contains, one
// random id per line. The first is the run that writes here; the others are runs from which
// checkpoints were copied. The line before them holds their checksum; earlier releases did
// not write it. A root without the file accepts every run.
const runFile = "RUN"

const (
	maxRuns = 1 << 10 // ids in one file
	runSum  = "checksum "
)

// runIDs is the content of a run file.
type runIDs struct {
	ids []string // empty: there is no file
	sum bool     // the file has a checksum
}

// RunID returns the id of the run that writes checkpoints below root, which must exist. The
// first call creates the id and stores it in the file RUN. If Manifest.Run is set to the id,
// a directory that was copied here from another run does not open.
func RunID(root string) (string, error) {
	id, err := runOf(system{}, root)
	if err != nil {
		return "", fmt.Errorf("checkpoint: run id: %w%s", err, advice(err))
	}
	return id, nil
}

func runOf(d disk, root string) (string, error) {
	runs, err := readRuns(root)
	if err != nil {
		return "", err
	}
	if len(runs.ids) == 0 {
		id := make([]byte, runDigits/2)
		rand.Read(id) // never fails
		if runs.ids, err = runsOf(root); err != nil {
			return "", err
		}
		runs.ids = append([]string{hex.EncodeToString(id)}, runs.ids...)
	}
	if !runs.sum {
		err = writeRuns(d, root, runs.ids)
	}
	return runs.ids[0], err
}

// runsOf returns the runs that wrote the checkpoints of a root without a run file, which
// accepts them all.
func runsOf(root string) (ids []string, err error) {
	found, err := List(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range found {
		m, _, err := readManifest(f.Dir)
		if err == nil && m.Run != "" && !slices.Contains(ids, m.Run) && len(ids) < maxRuns-1 {
			ids = append(ids, m.Run)
		}
	}
	return ids, err
}

// acceptRun adds a run to those whose checkpoints root may contain.
func acceptRun(d disk, root, run string) error {
	if run == "" {
		return nil
	}
	if _, err := runOf(d, root); err != nil {
		return err
	}
	runs, err := readRuns(root)
	if err != nil || slices.Contains(runs.ids, run) {
		return err
	}
	if len(runs.ids) == maxRuns {
		return fmt.Errorf("%s: checkpoints of more than %d runs", filepath.Join(withoutTurn(root), runFile), maxRuns)
	}
	return writeRuns(d, root, append(runs.ids, run))
}

// readRuns reads the run file of root.
func readRuns(root string) (runIDs, error) {
	path := filepath.Join(withoutTurn(root), runFile)
	b, err := regular.ReadFile(path, (maxRuns+2)*(runDigits+1))
	if errors.Is(err, fs.ErrNotExist) {
		return runIDs{}, nil
	}
	if err != nil {
		return runIDs{}, err
	}
	runs, err := parseRuns(string(b))
	if err != nil {
		return runIDs{}, fmt.Errorf("%s is damaged: %w: remove the file if all checkpoints here are of one run", path, err)
	}
	return runs, nil
}

func parseRuns(text string) (runs runIDs, err error) {
	if rest, has := strings.CutPrefix(text, runSum); has {
		want, ids, _ := strings.Cut(rest, "\n")
		if sum := Sum(xxh3.HashString(ids)).String(); want != sum {
			return runs, fmt.Errorf("it has the checksum %.40q, and its ids have %s", want, sum)
		}
		text, runs.sum = ids, true
	}
	runs.ids = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, run := range runs.ids {
		if err := checkRun(run); err != nil {
			return runs, err
		}
	}
	if len(runs.ids) > maxRuns {
		return runs, fmt.Errorf("it has %d ids, at most %d are allowed", len(runs.ids), maxRuns)
	}
	return runs, nil
}

// formatRuns returns the content of a run file.
func formatRuns(ids []string) string {
	text := strings.Join(ids, "\n") + "\n"
	return runSum + Sum(xxh3.HashString(text)).String() + "\n" + text
}

func writeRuns(d disk, root string, runs []string) error {
	root = withoutTurn(root)
	part := filepath.Join(root, "."+runFile)
	if err := writeFile(d, part, []byte(formatRuns(runs))); err != nil {
		return err
	}
	if err := d.Rename(part, filepath.Join(root, runFile)); err != nil {
		return err
	}
	return d.Sync(root)
}

// checkOrigin rejects a checkpoint whose directory is named after another step, or whose run
// is not one of those that its root accepts.
func checkOrigin(dir string, m *Manifest) error {
	dir = filepath.Clean(dir)
	name := filepath.Base(dir)
	if step, ok := parseStep(strings.TrimPrefix(name, oldPrefix)); ok && step != m.Step {
		return fmt.Errorf("its manifest has step %d: the directory was renamed or copied from %s", m.Step, stepName(m.Step))
	}
	runs, err := readRuns(filepath.Dir(dir))
	if err != nil {
		return err
	}
	if m.Run == "" || len(runs.ids) == 0 || slices.Contains(runs.ids, m.Run) {
		return nil
	}
	why := "it was copied from another run; move it away"
	if !runs.sum {
		why += fmt.Sprintf(", or remove %s if that is damaged: it has no checksum", filepath.Join(filepath.Dir(dir), runFile))
	}
	return fmt.Errorf("run %s wrote it, and the checkpoints here are of run %s: %s", m.Run, runs.ids[0], why)
}
