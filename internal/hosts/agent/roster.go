package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// Entry is a machine on the roster.
type Entry struct {
	ID   peer.ID
	Name string // "" for the name of its host
}

// Roster is the list of admitted machines.
type Roster []Entry

// RosterFile is the file of the roster in the folder.
const RosterFile = "roster"

const (
	// maxRoster is the maximum number of machines of a roster.
	maxRoster = 1024

	// maxRosterFile is the maximum size of the file.
	maxRosterFile = 256 << 10
)

// machineName matches valid names of machines.
var machineName = pattern.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$`)

// ParseRoster parses one line per machine: peer ID and name.
func ParseRoster(text string) (r Roster, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		id, err := peer.Decode(words[0])
		if err != nil || len(words) > 2 {
			return nil, fmt.Errorf("line %d: %.80q is not a peer ID and a name; the line is like: 12D3KooW… a", n, strings.TrimSpace(line))
		}
		name := ""
		if len(words) == 2 {
			name = words[1]
		}
		if r, err = r.with(Entry{id, name}); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return r, nil
}

// with returns r with a machine added or renamed.
func (r Roster) with(e Entry) (Roster, error) {
	if e.Name != "" && !machineName().MatchString(e.Name) {
		return nil, fmt.Errorf("%.80q cannot be the name of a machine: use up to 63 letters, digits, dots, dashes and underscores", e.Name)
	}
	r = slices.DeleteFunc(slices.Clone(r), func(o Entry) bool { return o.ID == e.ID })
	for _, o := range r {
		if e.Name != "" && o.Name == e.Name {
			return nil, fmt.Errorf("%s is the name of peer %s already; choose another, or try: wdlrun agent remove %[1]s", e.Name, o.ID)
		}
	}
	if len(r) == maxRoster {
		return nil, fmt.Errorf("more than %d machines", maxRoster)
	}
	return append(r, e), nil
}

// LoadRoster reads the roster in a folder. Without a file it is empty.
func LoadRoster(folder string) (Roster, error) {
	path := filepath.Join(folder, RosterFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("agent: %s can be changed by others (mode %#o); try: chmod 600 %[1]s", path, info.Mode().Perm())
	}
	text, err := regular.ReadFile(path, maxRosterFile)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	r, err := ParseRoster(string(text))
	if err != nil {
		return nil, fmt.Errorf("agent: %s: %w", path, err)
	}
	return r, nil
}

// Find returns the machine with a name or a peer ID.
func (r Roster) Find(word string) (Entry, bool) {
	i := slices.IndexFunc(r, func(e Entry) bool { return e.Name == word && word != "" || e.ID.String() == word })
	if i < 0 {
		return Entry{}, false
	}
	return r[i], true
}

// Has reports whether a peer is admitted.
func (r Roster) Has(id peer.ID) bool {
	return slices.ContainsFunc(r, func(e Entry) bool { return e.ID == id })
}

// NameOf returns the name of a peer on the roster, "" if it has none.
func (r Roster) NameOf(id peer.ID) string {
	if i := slices.IndexFunc(r, func(e Entry) bool { return e.ID == id }); i >= 0 {
		return r[i].Name
	}
	return ""
}

// Allow adds a machine to the roster, or renames it.
func Allow(folder, id, name string) (Entry, error) {
	p, err := peer.Decode(id)
	if err != nil {
		return Entry{}, fmt.Errorf("agent: %.80q is not a peer ID; on that machine, try: wdlrun agent id", id)
	}
	r, err := LoadRoster(folder)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{p, name}
	if r, err = r.with(e); err != nil {
		return Entry{}, fmt.Errorf("agent: %w", err)
	}
	return e, r.save(folder)
}

// Remove removes a machine from the roster, by its name or peer ID.
func Remove(folder, word string) (Entry, error) {
	r, err := LoadRoster(folder)
	if err != nil {
		return Entry{}, err
	}
	e, ok := r.Find(word)
	if !ok {
		return Entry{}, fmt.Errorf("agent: %.80q is neither a name nor a peer ID on the roster; try: wdlrun agent list", word)
	}
	return e, slices.DeleteFunc(r, func(o Entry) bool { return o == e }).save(folder)
}

// save writes the roster. It replaces the file atomically, because an agent may be reading
// it.
func (r Roster) save(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	var text strings.Builder
	for _, e := range r {
		fmt.Fprintln(&text, strings.TrimSpace(e.ID.String()+" "+e.Name))
	}
	tmp, err := os.CreateTemp(folder, ".roster-*") // mode 0600
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	_, err = tmp.WriteString(text.String())
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(folder, RosterFile))
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}
