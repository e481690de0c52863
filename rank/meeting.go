package rank

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Meeting is the file with which rank 0 of a job that wdlrun did not start gives the
// other ranks the address and the key of its coordinator:
//
//	wdlrun 1\n
//	HOST:PORT\n
//	64 hexadecimal digits\n
//
// The file has mode 0600 and is renamed into place, so it is never seen incomplete. Its
// directory is one that only this user may write: World.Rendezvous, or wdlrun-UID in
// the temporary directory. A file left by a dead job is harmless: its address does not
// answer, or not with its key, and the reader tries again.
type Meeting struct {
	path string
}

// meetingMax bounds the bytes read of the file.
const meetingMax = 1024

const meetingHead = "wdlrun 1"

// Meeting returns the meeting file of w's job. It creates the directory if it does not
// exist, and rejects one that another user owns or may write.
func (w World) Meeting() (Meeting, error) {
	if w.Job == "" {
		return Meeting{}, fmt.Errorf("rank: rendezvous: %s gives this job no name that all ranks know (%s); set WDLRUN_JOB to one (and, with several hosts, WDLRUN_RENDEZVOUS to a directory they share), or set WDLRUN_COORDINATOR and WDLRUN_KEY", w.By, w.Named)
	}
	dir := w.Rendezvous
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "wdlrun-"+strconv.Itoa(os.Getuid()))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Meeting{}, fmt.Errorf("rank: rendezvous: %w; set WDLRUN_RENDEZVOUS to a directory you may write", err)
	}
	if err := private(dir); err != nil {
		return Meeting{}, fmt.Errorf("rank: rendezvous: %s: %w; set WDLRUN_RENDEZVOUS to a directory of your own, of mode 0700", dir, err)
	}
	return Meeting{filepath.Join(dir, fileName(w.Job)+"."+strconv.Itoa(w.Generation))}, nil
}

// fileName returns a file name for the name of a job. A name that had to be changed gets a
// hash, so that two jobs never share a file.
func fileName(job string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, job)
	if safe == job && len(safe) <= 100 {
		return safe
	}
	sum := sha256.Sum256([]byte(job))
	return safe[:min(len(safe), 60)] + "-" + hex.EncodeToString(sum[:8])
}

// Path returns the path of the file.
func (m Meeting) Path() string { return m.path }

// Publish writes the file and replaces an existing one.
func (m Meeting) Publish(addr string, key Key) error {
	f, err := os.CreateTemp(filepath.Dir(m.path), ".meeting-*") // mode 0600
	if err != nil {
		return fmt.Errorf("rank: rendezvous: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s\n%s\n%s\n", meetingHead, addr, key.Hex())
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), m.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("rank: rendezvous: %w", err)
	}
	return nil
}

// Read returns the contents of the file. The error is fs.ErrNotExist if there is no
// file.
func (m Meeting) Read() (addr string, key Key, err error) {
	info, err := os.Lstat(m.path)
	if err != nil {
		return "", Key{}, fmt.Errorf("rank: rendezvous: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", Key{}, fmt.Errorf("rank: rendezvous: %s is not a regular file", m.path)
	}
	if err := ownedByMe(info); err != nil {
		return "", Key{}, fmt.Errorf("rank: rendezvous: %s %w", m.path, err)
	}
	b, err := regular.ReadFile(m.path, meetingMax)
	if err != nil {
		return "", Key{}, fmt.Errorf("rank: rendezvous: %w", err)
	}
	addr, key, err = parseMeeting(b)
	if err != nil {
		return "", Key{}, fmt.Errorf("rank: rendezvous: %s: %w", m.path, err)
	}
	return addr, key, nil
}

func parseMeeting(b []byte) (addr string, key Key, err error) {
	if len(b) > meetingMax {
		return "", Key{}, fmt.Errorf("more than %d bytes", meetingMax)
	}
	lines := bytes.Split(b, []byte("\n"))
	if len(lines) != 4 || string(lines[0]) != meetingHead || len(lines[3]) != 0 {
		return "", Key{}, errors.New("not a meeting file of this version of wdlrun")
	}
	addr = string(lines[1])
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", Key{}, fmt.Errorf("line 2: %w", err)
	}
	key, err = ParseKey(string(lines[2]))
	if err != nil {
		return "", Key{}, fmt.Errorf("line 3: %w", err)
	}
	return addr, key, nil
}

// Remove removes the file. A missing file is no error.
func (m Meeting) Remove() error {
	if err := os.Remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rank: rendezvous: %w", err)
	}
	return nil
}

// private returns an error if another user could put a file in dir.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		// A link and its target that this user owns are as safe as a directory.
		if err := ownedByMe(info); err != nil {
			return err
		}
		info, err = os.Stat(dir)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("is not a directory")
	}
	if err := ownedByMe(info); err != nil {
		return err
	}
	return notWritable(info)
}
