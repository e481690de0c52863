package launcher

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/rank"
)

// Host is a machine and its number of slots.
type Host struct {
	Name  string `json:"name"`
	Slots int    `json:"slots"`
	Max   int    `json:"max_slots,omitempty"` // a limit that holds even when oversubscribed; 0 for none
}

// Local reports whether the host is this machine.
func (h Host) Local() bool {
	switch strings.ToLower(h.Name) {
	case "localhost", "127.0.0.1", "::1":
		return true
	}
	own, err := os.Hostname()
	if err != nil {
		return false
	}
	short := func(s string) string { s, _, _ = strings.Cut(s, "."); return s }
	return strings.EqualFold(h.Name, own) || strings.EqualFold(h.Name, short(own))
}

// Hosts returns the hosts of a job from the values of -H and -hostfile, of which at
// most one may be set. If neither is set, it returns none.
func Hosts(list, file string) ([]Host, error) {
	switch {
	case list != "" && file != "":
		return nil, errors.New("launcher: hosts: -H and -hostfile are both given; give one")
	case list != "":
		return parseHosts(list)
	case file != "":
		return loadHostfile(file)
	}
	return nil, nil
}

// parseHosts reads a list such as "a:2,b:4". A host without a number has one slot, and a host
// named again adds its slots. An IPv6 address with slots is written in brackets, as in
// "[::1]:2".
func parseHosts(list string) ([]Host, error) {
	var hosts []Host
	for i, entry := range strings.Split(list, ",") {
		name, slots, err := splitHost(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("launcher: hosts: -H %q: entry %d: %w", list, i+1, err)
		}
		if hosts, err = addHost(hosts, Host{Name: name, Slots: max(slots, 1)}); err != nil {
			return nil, fmt.Errorf("launcher: hosts: -H %q: entry %d: %w", list, i+1, err)
		}
	}
	return hosts, nil
}

// hostName matches the name of a host: a name, an IPv4 or IPv6 address, or a machine with an
// agent, such as @a. A name does not begin with "-", so that it is never read as an option.
var hostName = pattern.Lazy(`^@?[A-Za-z0-9_:][A-Za-z0-9_.:%-]*$`)

// splitHost reads "name" or "name:slots"; slots is 0 where none are given.
func splitHost(entry string) (name string, slots int, err error) {
	name = entry
	number := ""
	switch {
	case strings.HasPrefix(entry, "["):
		end := strings.IndexByte(entry, ']')
		if end < 0 {
			return "", 0, fmt.Errorf("%q has no closing bracket", entry)
		}
		rest := entry[end+1:]
		name = entry[1:end]
		if rest != "" && rest[0] != ':' {
			return "", 0, fmt.Errorf("%q: after the bracket comes :SLOTS", entry)
		}
		if rest != "" {
			number = rest[1:]
			if number == "" {
				return "", 0, fmt.Errorf("%q: the number of slots is missing after the colon", entry)
			}
		}
	case strings.Count(entry, ":") == 1:
		name, number, _ = strings.Cut(entry, ":")
		if number == "" {
			return "", 0, fmt.Errorf("%q: the number of slots is missing after the colon", entry)
		}
	}
	if !hostName().MatchString(name) || len(name) > 253 || strings.Contains(name, ":") && net.ParseIP(name) == nil {
		return "", 0, fmt.Errorf("%q is not a name or address of a host", name)
	}
	if number != "" {
		if slots, err = slotsOf(number); err != nil {
			return "", 0, err
		}
	}
	return name, slots, nil
}

func slotsOf(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > rank.MaxSize {
		return 0, fmt.Errorf("%q is not a number of slots within 1 … %d", s, rank.MaxSize)
	}
	return n, nil
}

// maxHosts bounds a list of hosts.
const maxHosts = 1 << 14

// addHost adds a host, or its slots where it is known already.
func addHost(hosts []Host, h Host) ([]Host, error) {
	i := slices.IndexFunc(hosts, func(o Host) bool { return strings.EqualFold(o.Name, h.Name) })
	if i < 0 {
		if len(hosts) == maxHosts {
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		}
		return append(hosts, h), nil
	}
	hosts[i].Slots += h.Slots
	if hosts[i].Slots > rank.MaxSize {
		return nil, fmt.Errorf("host %s has more than %d slots", h.Name, rank.MaxSize)
	}
	if h.Max > 0 {
		hosts[i].Max = h.Max
	}
	return hosts, nil
}

// loadHostfile reads a hostfile; see readHostfile.
func loadHostfile(path string) ([]Host, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("launcher: hosts: -hostfile: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("launcher: hosts: -hostfile: %s is a directory", path)
	}
	return readHostfile(path, f)
}

// maxHostfile bounds the size of a hostfile.
const maxHostfile = 4 << 20

// readHostfile reads a hostfile as OpenMPI and MPICH write them: a host a line,
// with "slots=N" and "max_slots=N" or as "host:N"; # begins a comment. A line
// without slots means the number of CPUs where the host is this machine (as
// OpenMPI has it), else one. A host that comes again adds its slots. Errors name
// file and line.
func readHostfile(name string, r io.Reader) ([]Host, error) {
	var hosts []Host
	limited := &io.LimitedReader{R: r, N: maxHostfile + 1}
	lines := bufio.NewScanner(limited)
	n := 0
	for lines.Scan() {
		n++
		h, ok, err := hostLine(lines.Text())
		if err == nil && ok {
			hosts, err = addHost(hosts, h)
		}
		if err != nil {
			return nil, fmt.Errorf("launcher: hosts: %s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("launcher: hosts: %s:%d: a line of more than %d bytes: is it a hostfile?", name, n+1, bufio.MaxScanTokenSize)
	} else if err != nil {
		return nil, fmt.Errorf("launcher: hosts: %s:%d: %w", name, n+1, err)
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("launcher: hosts: %s: more than %d bytes: is it a hostfile?", name, maxHostfile)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("launcher: hosts: %s: no host in it; a line is like \"node1 slots=8\"", name)
	}
	return hosts, nil
}

var spacedEquals = pattern.Lazy(`\s*=\s*`)

// hostLine reads one line; ok is false for an empty one.
func hostLine(line string) (h Host, ok bool, err error) {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(spacedEquals().ReplaceAllString(line, "="))
	if len(words) == 0 {
		return Host{}, false, nil
	}
	if h.Name, h.Slots, err = splitHost(words[0]); err != nil {
		return Host{}, false, err
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		n, err := slotsOf(value)
		if err != nil {
			err = fmt.Errorf("%s: %w", key, err)
		}
		switch key {
		case "slots", "cpu", "count":
			if h.Slots != 0 {
				err = fmt.Errorf("the slots of %s are given twice", h.Name)
			}
			h.Slots = n
		case "max_slots", "max-slots":
			h.Max = n
		default:
			err = fmt.Errorf("%q is not understood; after the host come slots=N and max_slots=N", word)
		}
		if err != nil {
			return Host{}, false, err
		}
	}
	switch {
	case h.Slots == 0 && h.Local():
		h.Slots = runtime.NumCPU()
		if h.Max > 0 {
			h.Slots = min(h.Slots, h.Max)
		}
	case h.Slots == 0:
		h.Slots = 1
	case h.Max > 0 && h.Max < h.Slots:
		return Host{}, false, fmt.Errorf("max_slots=%d is below slots=%d", h.Max, h.Slots)
	}
	return h, true, nil
}
