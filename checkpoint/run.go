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

	"github.com/wdlrun/wdlrun/internal/regular"
)

// runFile is the file of a root that names the runs whose checkpoints it holds, one
// random id per line: first the run that writes here, then the runs that checkpoints
// were copied from. A root without it accepts every run.
const runFile = "RUN"

const (
	runDigits = 16
	maxRuns   = 1 << 10 // ids in one file
)

// RunID returns the id of the run that writes its checkpoints below root, which must
// exist. The first call makes the id and keeps it in the file RUN. With the id in
// Manifest.Run, a directory that was copied here from another run does not open.
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
	if len(runs) == 0 {
		id := make([]byte, runDigits/2)
		rand.Read(id) // never fails
		runs = []string{hex.EncodeToString(id)}
		err = writeRuns(d, root, runs)
	}
	return runs[0], err
}

// acceptRun lets root hold checkpoints that another run wrote.
func acceptRun(d disk, root, run string) error {
	if run == "" {
		return nil
	}
	if _, err := runOf(d, root); err != nil {
		return err
	}
	runs, err := readRuns(root)
	if err != nil || slices.Contains(runs, run) {
		return err
	}
	if len(runs) == maxRuns {
		return fmt.Errorf("%s: checkpoints of more than %d runs", filepath.Join(root, runFile), maxRuns)
	}
	return writeRuns(d, root, append(runs, run))
}

// readRuns returns the ids in the run file of root, none if there is no such file.
func readRuns(root string) ([]string, error) {
	path := filepath.Join(root, runFile)
	b, err := regular.ReadFile(path, maxRuns*(runDigits+1))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	runs := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for i, run := range runs {
		if err := checkRun(run); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w: remove the file if all checkpoints here are of one run", path, i+1, err)
		}
	}
	return runs, nil
}

func writeRuns(d disk, root string, runs []string) error {
	part := filepath.Join(root, "."+runFile)
	if err := writeFile(d, part, []byte(strings.Join(runs, "\n")+"\n")); err != nil {
		return err
	}
	if err := d.Rename(part, filepath.Join(root, runFile)); err != nil {
		return err
	}
	return d.Sync(root)
}

// checkRun rejects what is no id of a run.
func checkRun(run string) error {
	if _, err := hex.DecodeString(run); err != nil || len(run) != runDigits {
		return fmt.Errorf("%.40q is not the id of a run, %d hexadecimal digits", run, runDigits)
	}
	return nil
}

// checkOrigin rejects a checkpoint whose directory has the name of another step, or
// which another run wrote than those that its root names.
func checkOrigin(dir string, m *Manifest) error {
	dir = filepath.Clean(dir)
	name := filepath.Base(dir)
	if step, ok := parseStep(strings.TrimPrefix(name, oldPrefix)); ok && step != m.Step {
		return fmt.Errorf("its manifest says step %d: the directory was renamed or copied from %s", m.Step, stepName(m.Step))
	}
	runs, err := readRuns(filepath.Dir(dir))
	if err != nil {
		return err
	}
	if m.Run != "" && len(runs) > 0 && !slices.Contains(runs, m.Run) {
		return fmt.Errorf("run %s wrote it, and the checkpoints here are of run %s: it was copied from another run; move it away", m.Run, runs[0])
	}
	return nil
}
