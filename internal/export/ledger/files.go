package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

const (
	pinsName = "pins"
	holdName = "hold.json"

	maxPins  = 256 // labels of a folder
	maxLabel = 128 // bytes
	maxPin   = 64  // bytes of a pin's file
	maxHold  = 4 << 10
)

// Hold is the content of hold.json.
type Hold struct {
	Reason   string `json:"reason"`
	Rollback *int64 `json:"rollback,omitempty"` // the version whose rows a rollback published
	Guard    bool   `json:"guard,omitempty"`    // train.export.guard holds the folder, and ends the hold
	Guarded  string `json:"guarded,omitempty"`  // the reason of such a hold that this one has replaced
}

// String describes why a folder is on hold.
func (h *Hold) String() string {
	if h.Guarded == "" {
		return h.Reason
	}
	return h.Reason + "; before it, train.export.guard held the folder: " + h.Guarded
}

// Replacing returns h with the reason of a hold of train.export.guard that it replaces in a folder.
func (h Hold) Replacing(dir string) Hold {
	const most = 1000 // bytes
	if was := ReadHold(dir); was != nil && was.Guard {
		h.Guarded = strings.ToValidUTF8(was.Reason[:min(len(was.Reason), most)], "")
	} else if was != nil {
		h.Guarded = was.Guarded
	}
	return h
}

// CheckLabel rejects labels that cannot name a file or be part of a URL.
func CheckLabel(label string) error {
	ok := label != "" && len(label) <= maxLabel && label[0] != '.' && label[0] != '-'
	for _, c := range []byte(label) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.')
	}
	if !ok {
		return fmt.Errorf("the label %.150q: give 1 to %d letters, digits, underscores, dots and dashes, the first of them a letter, a digit or an underscore", label, maxLabel)
	}
	return nil
}

// ParseNumber parses the name of a version's folder.
func ParseNumber(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == name
}

// ReadPins returns the labels of a folder of versions. faults names the entries that are not
// used: links, other kinds of files, invalid labels and numbers. A folder without pins has none.
func ReadPins(dir string) (pins map[string]int64, faults []string, err error) {
	pins = map[string]int64{}
	if st, err := os.Lstat(filepath.Join(dir, pinsName)); errors.Is(err, fs.ErrNotExist) {
		return pins, nil, nil
	} else if err == nil && !st.IsDir() {
		return pins, []string{pinsName + " is not a folder"}, nil
	}
	above, err := os.OpenRoot(dir)
	if err != nil {
		return pins, nil, err
	}
	defer above.Close() // it was only read
	root, err := regular.Subfolder(above, pinsName)
	if err != nil {
		return pins, nil, err
	}
	defer root.Close() // it was only read
	d, err := root.Open(".")
	if err != nil {
		return pins, nil, err
	}
	entries, err := d.ReadDir(maxPins + 1)
	d.Close() // it was only read
	if err != nil && !errors.Is(err, io.EOF) {
		return pins, nil, err
	}
	if len(entries) > maxPins {
		return pins, []string{fmt.Sprintf("%s has more than %d entries: none is used", pinsName, maxPins)}, nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // being written
		}
		n, err := readPin(root, e.Name())
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		pins[e.Name()] = n
	}
	slices.Sort(faults)
	return pins, faults, nil
}

func readPin(root *os.Root, label string) (n int64, err error) {
	if err := CheckLabel(label); err != nil {
		return 0, fmt.Errorf("%s: %w", pinsName, err)
	}
	b, err := readSmall(root, label, maxPin)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", pinsName, err)
	}
	n, ok := ParseNumber(string(bytes.TrimSpace(b)))
	if !ok {
		return 0, fmt.Errorf("%s/%s: %.80q is not the number of a version", pinsName, label, b)
	}
	return n, nil
}

// readSmall reads a regular file of at most limit bytes. It does not follow a link.
func readSmall(root *os.Root, name string, limit int64) ([]byte, error) {
	st, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b, err
}

// ReadHold returns the hold of a folder, nil for none. A file that cannot be read is a hold too.
func ReadHold(dir string) *Hold {
	if _, err := os.Lstat(filepath.Join(dir, holdName)); err != nil {
		return nil
	}
	var h Hold
	root, err := os.OpenRoot(dir)
	if err == nil {
		defer root.Close() // it was only read
		var b []byte
		if b, err = readSmall(root, holdName, maxHold); err == nil {
			err = json.Unmarshal(b, &h)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was released meanwhile
	}
	if err != nil {
		return &Hold{Reason: fmt.Sprintf("%s cannot be read: %v", holdName, err)}
	}
	return &h
}

// WritePin makes a label name a version.
func WritePin(dir, label string, n int64) error {
	return inRoot(dir, func(above *os.Root) error {
		root, err := regular.MakeFolder(above, pinsName)
		if err != nil {
			return err
		}
		return errors.Join(replace(root, label, []byte(strconv.FormatInt(n, 10)+"\n")), root.Close())
	})
}

// RemovePin removes a label. It returns false if there was none.
func RemovePin(dir, label string) (was bool, err error) {
	err = inRoot(dir, func(above *os.Root) error {
		root, err := regular.Subfolder(above, pinsName)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		was, err = removed(root, label)
		return errors.Join(err, root.Close())
	})
	return was, err
}

// WriteHold stops publications into a folder.
func WriteHold(dir string, h Hold) error {
	b, err := json.Marshal(h)
	if err == nil && len(b) >= maxHold {
		err = fmt.Errorf("the reason has %d bytes, at most %d are possible", len(h.Reason), maxHold/2)
	}
	if err != nil {
		return err
	}
	return inRoot(dir, func(root *os.Root) error { return replace(root, holdName, append(b, '\n')) })
}

// RemoveHold ends a hold. It returns false if there was none.
func RemoveHold(dir string) (was bool, err error) {
	err = inRoot(dir, func(root *os.Root) error {
		was, err = removed(root, holdName)
		return err
	})
	return was, err
}

func inRoot(dir string, f func(root *os.Root) error) error {
	root, err := regular.OpenFolder(dir)
	if err != nil {
		return err
	}
	return errors.Join(f(root), root.Close())
}

func removed(root *os.Root, name string) (was bool, err error) {
	err = root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, errors.Join(err, sync(root))
}

// replace writes a file under a temporary name, makes it durable and renames it.
func replace(root *os.Root, name string, content []byte) error {
	tmp := ".tmp-" + name
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return sync(root)
}

// sync makes the names in a folder durable.
func sync(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errInvalid) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some network file systems cannot sync directories and need not
	}
	return errors.Join(err, d.Close())
}
