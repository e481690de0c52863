package rundir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Files of a run directory.
const (
	FileConfig        = "config.yaml"         // the configuration in effect
	FileRun           = "run.json"            // see About
	FileMetrics       = "metrics.jsonl"       // one JSON object a line, see metricLine
	FileResult        = "result.json"         // the Result of the finished job
	FileDistributions = "distributions.jsonl" // one metrics.Distributions a line
	FileDays          = "days.json"           // partitions of train -by, see Days
	FileCommits       = "commits.log"         // microbatches that counted, see slots.AppendLog
	FileMode          = "mode.json"           // treatment of slow ranks, see Mode
	FileTraces        = "trace-*.json"        // timeline of each rank
	FolderEvents      = "tb"                  // event files of TensorBoard
	FileChaos         = "chaos.log"           // injected faults so far
)

// fileJob holds the name of the job that made a run directory. If rank 0 dies before the
// launcher knows the directory, its successor finds the directory by this file.
const fileJob = ".job"

// maxJob is the largest size of the name of a job, in bytes.
const maxJob = 1 << 10

// Of returns the newest run directory below parent that a job made; "" if there is
// none.
func Of(parent, job string) string {
	entries, _ := os.ReadDir(parent) // an unreadable directory has no entries
	for _, e := range slices.Backward(entries) {
		dir := filepath.Join(parent, e.Name())
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue // a run directory that has no name yet
		}
		if b, err := regular.ReadFile(filepath.Join(dir, fileJob), maxJob); err == nil && string(b) == job+"\n" {
			return dir
		}
	}
	return ""
}

// New makes a directory for one run of a job below parent, named by the time. If job
// is "", it chooses a random name for the job. The directory gets its name only when it
// contains the file with the job, so a killed process leaves no directory that belongs to
// no job.
func New(parent, job string, now time.Time) (string, error) {
	if job == "" {
		job = rand.Text()
	}
	part := filepath.Join(parent, ".run-"+job)
	// The folder of a process of this job that was killed is made again: it may be a link.
	err := os.MkdirAll(parent, 0o755)
	for range 2 { // twice: the server of a network file system may find it made if it receives a request twice
		if err == nil || errors.Is(err, fs.ErrExist) {
			if err = os.RemoveAll(part); err == nil {
				err = os.Mkdir(part, 0o755)
			}
			if err == nil {
				break
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("run directory: %w", err)
	}
	err = regular.WriteFile(filepath.Join(part, fileJob), []byte(job+"\n"), 0o644)
	name := filepath.Join(parent, now.Format("20060102-150405"))
	for i := 1; i < 1000 && err == nil; i++ {
		dir := name
		if i > 1 {
			dir += fmt.Sprintf("-%d", i)
		}
		if err = regular.Rename(part, dir); err == nil {
			return dir, nil
		}
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	os.RemoveAll(part)
	if err != nil {
		return "", fmt.Errorf("run directory: %w", err)
	}
	return "", fmt.Errorf("run directory: %s and its successors exist", name)
}

// writable creates a directory with a file below parent, or below the part of its path that
// exists, and removes both.
func writable(parent string) error {
	above := filepath.Clean(parent)
	for {
		info, err := os.Stat(above)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("run directory: %s is not a folder: choose another place with -out", above)
		}
		if up := filepath.Dir(above); (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && up != above {
			above = up
			continue
		}
		break
	}
	try, err := os.MkdirTemp(above, ".wdlrun-")
	if err == nil {
		defer os.RemoveAll(try)
		err = regular.WriteFile(filepath.Join(try, FileConfig), make([]byte, 1<<12), 0o644)
	}
	if err != nil {
		next := "choose"
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			next = "free some space, or choose"
		}
		return fmt.Errorf("run directory: cannot create a file in %s: %w: %s another place with -out", above, Cause(err), next)
	}
	return nil
}

// Cause returns the error of the system without the path.
func Cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// fileLock is locked by the training that uses a run directory.
const fileLock = ".lock"

// ErrInUse is the error if a run directory is locked.
var ErrInUse = errors.New("is in use by another training")

// MaxFile is the largest size of a file of a run directory that is read whole, in bytes.
const MaxFile = 1 << 30

// WriteFile writes a small file of the run directory atomically. A symbolic link with its name is
// replaced, and not followed.
func WriteFile(dir, name string, b []byte) error { return WriteFileMode(dir, name, 0o644, b) }

// WriteFileMode is WriteFile with the permissions of the file. A file used as a lock has
// 0600, since a user who may open it may lock it.
func WriteFileMode(dir, name string, mode fs.FileMode, b []byte) error {
	return WriteFileBy(dir, name, mode, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// WriteFileBy is WriteFileMode for a file whose content write writes, in parts.
func WriteFileBy(dir, name string, mode fs.FileMode, write func(io.Writer) error) error {
	tmp := filepath.Join(dir, "."+name)
	f, err := regular.Create(tmp, mode)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		os.Remove(tmp)
		return err
	}
	return regular.Rename(tmp, filepath.Join(dir, name))
}

// ResumeHint is Hint for an error of -resume.
func ResumeHint(err error, path string) error { return fmt.Errorf("resume: %w", Hint(err, path)) }

// Hint adds advice to an error about path if no checkpoint was found there.
func Hint(err error, path string) error {
	advice := ""
	if errors.Is(err, fs.ErrNotExist) && !checkpoint.IsCheckpoint(path) {
		config := filepath.Join(path, FileConfig)
		if _, absent := os.Stat(config); absent == nil {
			return &unsavedError{path, config, err}
		}
		advice = "; give the run directory of a training that has saved, or one of its checkpoints"
		if _, absent := os.Lstat(path); absent != nil && filepath.Base(path) == Latest {
			advice = "; no training in this folder has become the latest: " + strings.TrimPrefix(advice, "; ")
		}
		if run := newestRun(path); run != "" {
			advice = "; give one of the run directories in it, of which " + run + " is the newest that has saved"
		} else if version := newestVersion(path); version != "" {
			return fmt.Errorf("%s is a folder of exported versions, of which %s is the newest: train -from %s begins with it", path, filepath.Base(version), version)
		} else if found, _ := filepath.Glob(filepath.Join(path, "*", FileConfig)); len(found) > 0 {
			return fmt.Errorf("%s is a folder of runs, none of which has saved a model: train there first, or give another run directory", path)
		}
	}
	return fmt.Errorf("%w%s", err, advice)
}

// unsavedError replaces an error about a run directory without a checkpoint.
type unsavedError struct {
	path, config string
	err          error
}

func (e *unsavedError) Error() string {
	return fmt.Sprintf("%s has no checkpoint: its training ended before the first; start it again with -config %s", e.path, e.config)
}

func (e *unsavedError) Unwrap() error { return e.err }

// newestVersion returns the exported version in dir with the highest number; "" if there is none.
func newestVersion(dir string) (path string) {
	found, _ := filepath.Glob(filepath.Join(dir, "*", "dense.bin"))
	newest := int64(-1)
	for _, file := range found {
		version := filepath.Dir(file)
		if n, err := strconv.ParseInt(filepath.Base(version), 10, 64); err == nil && n > newest {
			newest, path = n, version
		}
	}
	return path
}

// newestRun returns the last run directory in dir, by name, that has a checkpoint; "" if
// there is none.
func newestRun(dir string) string {
	runs, _ := os.ReadDir(dir) // an unreadable directory has no runs
	for _, r := range slices.Backward(runs) {
		if IsLatest(r) || strings.HasPrefix(r.Name(), ".") {
			continue
		}
		if found, err := checkpoint.List(filepath.Join(dir, r.Name(), checkpoint.Folder)); err == nil && len(found) > 0 {
			return r.Name()
		}
	}
	return ""
}
