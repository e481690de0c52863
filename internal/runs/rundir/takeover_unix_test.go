//go:build unix

package rundir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// part writes the only part of a checkpoint.
func part(root string, step int64, text string) (checkpoint.Manifest, error) {
	m := checkpoint.Manifest{Step: step}
	w, err := checkpoint.Create(root, step, 0, 1)
	if err != nil {
		return m, err
	}
	defer w.Discard()
	if err = w.Section("text", func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
		return m, err
	}
	f, err := w.Close()
	m.Files = []checkpoint.File{f}
	return m, err
}

// TestALostHostKeepsItsLock: the process of generation 1 has the lock and is about to commit. It
// sleeps, and generation 2 takes over, with the same pid, and lock files of another clock. When
// generation 1 wakes, it gets an error of one line, and the checkpoint of generation 2 stays. Another
// job is rejected before and after.
func TestALostHostKeepsItsLock(t *testing.T) {
	for _, clock := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
		dir := t.TempDir()
		old, err := Take(dir, Owner{"a job", 1}, "")
		fatal.If(t, err)
		written, wake, late := make(chan bool), make(chan bool), make(chan error)
		go func() {
			m, err := part(old.Root, 20, "old")
			close(written)
			<-wake
			late <- errors.Join(err, checkpoint.Commit(old.Root, m))
			_, err = part(old.Root, 30, "old")
			late <- err
		}()
		<-written
		locks, err := filepath.Glob(filepath.Join(old.Root, "lock-*"))
		fatal.If(t, err)
		for _, path := range append(locks, filepath.Join(dir, fileLock)) {
			fatal.If(t, os.Chtimes(path, time.Time{}, time.Now().Add(clock)))
		}
		rejected := func(o Owner) {
			t.Helper()
			if _, err := Take(dir, o, ""); !errors.Is(err, ErrInUse) {
				t.Errorf("%v: %v", o, err)
			}
			if err := CheckPlace("", dir); o.Job != "a job" && !errors.Is(err, ErrInUse) {
				t.Errorf("the place is examined: %v", err)
			}
			if !Locked(dir) {
				t.Error("the directory is not locked")
			}
		}
		rejected(Owner{"another job", 7})
		rejected(Owner{"", 7})
		rejected(Owner{"a job", 1})
		now, err := Take(dir, Owner{"a job", 2}, "")
		fatal.If(t, err)
		rejected(Owner{"another job", 7})
		m, err := part(now.Root, 20, "new")
		fatal.If(t, err)
		close(wake)
		for range 2 {
			if err := <-late; !errors.Is(err, checkpoint.ErrTurn) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the late writer: %v", err)
			}
		}
		fatal.If(t, checkpoint.Commit(now.Root, m))
		c, _, err := checkpoint.Latest(filepath.Join(dir, checkpoint.Folder))
		fatal.If(t, err)
		var b []byte
		fatal.If(t, c.Read("text", func(r io.Reader) (err error) { b, err = io.ReadAll(r); return err }))
		if string(b) != "new" || c.Step() != 20 {
			t.Errorf("step %d: %q", c.Step(), b)
		}
		old.Close()
		rejected(Owner{"another job", 7})
		rejected(Owner{"a job", 1})
		now.Close()
		other, err := Take(dir, Owner{"another job", 0}, "")
		fatal.If(t, err)
		rejected(Owner{"a job", 3})
		other.Close()
	}
}

// TestRenewedTurn: after the loss of a rank, the process that has the lock continues, and what the
// lost rank writes later is rejected.
func TestRenewedTurn(t *testing.T) {
	dir := t.TempDir()
	turn, err := Take(dir, Owner{"a", 0}, "")
	fatal.If(t, err)
	defer turn.Close()
	before := turn.Root
	fatal.If(t, turn.Renew(Owner{"a", 1}, ""))
	if _, err := part(before, 1, "late"); !errors.Is(err, checkpoint.ErrTurn) {
		t.Errorf("the lost rank: %v", err)
	}
	_, err = part(turn.Root, 1, "new")
	fatal.If(t, err)
	if _, err := Take(dir, Owner{"b", 0}, ""); !errors.Is(err, ErrInUse) {
		t.Errorf("another job: %v", err)
	}
}
