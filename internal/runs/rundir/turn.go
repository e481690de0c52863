package rundir

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/wdlrun/wdlrun/checkpoint"
)

// Owner identifies the processes that train in a run directory.
type Owner struct {
	Job        string // "": unknown
	Generation int    // which formation of the job's group
}

// Turn is a run directory that this process has locked, and the turn of its group to change the
// checkpoints in it. Only a later generation of the same job can take it away.
type Turn struct {
	Name string // see checkpoint.InTurn
	Root string // of the checkpoints, for the holder of the turn
	dir  string
	file *os.File // the locked file of the turn
	hint *os.File // the locked file of the run directory, which earlier releases look at; may be nil
}

// Take locks a run directory and takes the turn. If the lock is held, Take succeeds only for a
// later generation of the job that holds it: its process may be on a host that was lost, whose lock a
// network file system keeps for a while. name is the name of a turn that the group has on another
// volume; "": a new one. See docs/design/0015-turns.md.
func Take(dir string, o Owner, name string) (*Turn, error) {
	t := &Turn{dir: dir}
	if err := t.take(o, name); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Renew gives the turn a new name, after ranks of this group were lost: they can no longer write.
func (t *Turn) Renew(o Owner, name string) error { return t.take(o, name) }

// Close unlocks the directory. t may be nil.
func (t *Turn) Close() {
	if t == nil {
		return
	}
	for _, f := range []*os.File{t.file, t.hint} {
		if f != nil {
			f.Close() // the file remains: removing it would allow a second lock
		}
	}
	t.file, t.hint = nil, nil
}

func (t *Turn) take(o Owner, name string) error {
	if name == "" {
		name = o.turnName(rand.Text())
	}
	taker, by := taker{Owner: o, later: -1}, ""
	for taker.next != moveDone {
		switch taker.next {
		case moveLook:
			names, err := checkpoint.Turns(t.root())
			if err != nil {
				return fmt.Errorf("run directory: %w", err)
			}
			if by, err = t.lockedBy(names); err != nil {
				return err
			}
			taker.looked(names, by != "")
		case moveTake:
			f, err := t.rename(taker.from, name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if taker.took(err == nil); err == nil {
				if t.file != nil {
					t.file.Close()
				}
				t.file = f
			}
		case moveRefuse:
			return &InUse{t.dir, taker.by(by)}
		}
	}
	t.Name, t.Root = name, checkpoint.InTurn(t.root(), name)
	return nil
}

func (t *Turn) root() string { return filepath.Join(t.dir, checkpoint.Folder) }

// lockOf returns the lock file of a turn, when its folder has the name at. The next holder locks
// its file before it renames the folder, so a turn is never without a lock.
func lockOf(root, at, turn string) string {
	return filepath.Join(checkpoint.InTurn(root, at), "lock-"+turn)
}

// lockedBy returns who has one of the turns; "" if nobody has, or this process.
func (t *Turn) lockedBy(names []string) (by string, err error) {
	if t.file != nil {
		return "", nil
	}
	if t.hint == nil {
		if t.hint, by, err = tryLock(filepath.Join(t.dir, fileLock), true); err != nil {
			return "", err
		}
	}
	known := false // a turn is only without a lock file if a user has removed the folder of checkpoints
	for _, name := range names {
		f, who, err := tryLock(lockOf(t.root(), name, name), false)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil, f == nil:
			return who, err
		}
		f.Close()
		known = true
	}
	if known { // the lock of the run directory may be one of a host that was lost
		by = ""
	}
	return by, nil
}

// rename takes the turns in from, and locks the file of the new one.
func (t *Turn) rename(from []string, name string) (f *os.File, err error) {
	if from, err = checkpoint.FirstTurn(t.root(), from); err != nil {
		return nil, err
	}
	if f, err = newLock(lockOf(t.root(), from[0], name)); err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	if err = checkpoint.TakeTurn(t.root(), from, name); err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, err
	}
	for _, old := range from {
		os.Remove(lockOf(t.root(), name, old)) // it is of no use; an error leaves a small file
	}
	return f, nil
}

// InUse is the error of a directory that another process has locked. It is ErrInUse.
type InUse struct{ Dir, By string }

func (e *InUse) Error() string {
	return fmt.Sprintf("run directory: %s %v (the lock was last taken by %s): wait for it, or train into a new directory by resuming from one of its checkpoints", e.Dir, ErrInUse, e.By)
}

func (e *InUse) Unwrap() error { return ErrInUse }

// turnName returns the name of a turnName of this owner.
func (o Owner) turnName(id string) string { return fmt.Sprintf("%s-%d-%s", o.job(), o.Generation, id) }

// job returns a short name of the job, which can be a part of a file name.
func (o Owner) job() string {
	if o.Job == "" {
		return "none"
	}
	h := sha256.Sum256([]byte(o.Job))
	return hex.EncodeToString(h[:8])
}

// generationOf returns the generation in the name of a turn; -1 if it is not of this job.
func (o Owner) generationOf(name string) int {
	rest, ok := strings.CutPrefix(name, o.job()+"-")
	text, _, _ := strings.Cut(rest, "-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || o.Job == "" {
		return -1
	}
	return n
}

// move is what a process does next to take a run directory.
type move uint8

const (
	moveLook move = iota // list the turns, and try their locks
	moveTake             // rename the turns in from, with the new lock in them
	moveDone
	moveRefuse
)

// attempts bounds how often a process tries to take a turn while others are faster.
const attempts = 5

// taker decides how a process takes a run directory. It is a pure state machine: looked and took report
// the result of a move, and next is the next one. The lock keeps other jobs away. It is only a hint:
// the rename of the turn decides.
type taker struct {
	Owner
	next move

	from  []string
	later int // a later generation of this job, which has been here, or the same; -1: none
	tried int
}

// looked reports the turns and whether another process holds the lock of one.
func (t *taker) looked(names []string, held bool) {
	t.from, t.next = names, moveTake
	own := len(names) > 0
	for _, name := range names {
		n := t.generationOf(name)
		if n > t.Generation || held && n == t.Generation {
			t.later = n
		}
		own = own && n >= 0
	}
	if t.later >= 0 || held && !own {
		t.next = moveRefuse
	}
}

// took reports whether this process was the one that took the turn.
func (t *taker) took(won bool) {
	t.tried++
	switch {
	case won:
		t.next = moveDone
	case t.tried < attempts:
		t.next = moveLook
	default:
		t.next = moveRefuse
	}
}

// by describes who has the directory. pid is the owner in the lock file.
func (t *taker) by(pid string) string {
	if t.later >= 0 {
		return fmt.Sprintf("generation %d of this job; this process is of generation %d", t.later, t.Generation)
	}
	if pid == "" {
		return "another process at this moment"
	}
	return pid
}

// CheckPlace returns why a training cannot have a run directory: none can be created below
// out, or another training is using the directory to resume in. It is called on the host of
// rank 0 before any rank starts.
func CheckPlace(out, resume string) error {
	if resume == "" || checkpoint.IsCheckpoint(resume) {
		return writable(out)
	}
	if _, err := os.Stat(filepath.Join(resume, fileLock)); err != nil {
		return nil // no training has begun in it
	}
	t := &Turn{dir: resume}
	defer t.Close()
	names, err := checkpoint.Turns(t.root())
	if err != nil {
		return nil // it is reported when it is read
	}
	by, err := t.lockedBy(names)
	switch {
	case by != "":
		return &InUse{resume, by}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("run directory: nothing can be written in %s: %w: to train on in a new one, resume one of its checkpoints, %s", resume, Cause(err), filepath.Join(resume, checkpoint.Folder, "step-…"))
	}
	return nil // other processes only read it
}
