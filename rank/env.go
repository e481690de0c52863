package rank

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// aloneByOrder reports whether the user has declared a process alone: WDLRUN_SIZE=1 without
// WDLRUN_RANK. The variables of all launchers are then ignored.
func (e *env) aloneByOrder() bool { return e.get("WDLRUN_SIZE") == "1" && !e.has("WDLRUN_RANK") }

// checkNested returns an error if two launchers give contradictory places. The innermost launcher
// may start several ranks for each process of an outer one, but not fewer, and only if that has
// one process on each host.
func checkNested(known []World) error {
	for i := 1; i < len(known); i++ {
		in, out := known[0], known[i]
		same := in.Rank == out.Rank && in.Size == out.Size
		if out.Size == 1 || same || in.Size >= out.Size && out.LocalSize == 1 {
			continue
		}
		return fmt.Errorf("%s and %s contradict each other: %s, but %s; unset the variables of one of them, or set %s", in.By, out.By, in.Named, out.Named, fourOrAlone)
	}
	return nil
}

// fourOrAlone lists the variables that override those of other launchers.
const fourOrAlone = "WDLRUN_RANK, WDLRUN_SIZE, WDLRUN_LOCAL_RANK and WDLRUN_LOCAL_SIZE in each process, or only WDLRUN_SIZE=1 if each is to run alone"

// named lists variables that are set, with their values, each once.
func (e *env) named(names ...string) string {
	var set []string
	for _, name := range names {
		v := e.get(name)
		if text := fmt.Sprintf("%s=%q", name, v[:min(len(v), maxShown)]); v != "" && !slices.Contains(set, text) {
			set = append(set, text)
		}
	}
	return strings.Join(set, ", ")
}

// maxShown is the number of bytes of a value that messages repeat.
const maxShown = 100

func (e *env) fails(err error) {
	if e.err == nil {
		e.err = err
	}
}

// env reads variables. It keeps the first error, and the names of the variables that gave
// each number, to name both in a contradiction.
type env struct {
	get        func(string) string
	parent     int
	rank, size string // names of the variables read
	local      string
	locals     string
	err        error
}

func (e *env) has(name string) bool { return e.get(name) != "" }

func (e *env) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// number reads a whole number from 0 to MaxSize.
func (e *env) number(name string) int {
	v := e.get(name)
	if v == "" {
		e.fail("%s is not set", name)
		return 0
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		e.fail("%s=%q is not a whole number", name, v)
		return 0
	}
	if n < 0 || n > MaxSize {
		e.fail("%s=%q is not within 0 … %d", name, v, MaxSize)
		return 0
	}
	return n
}

// numberOr is number for a variable that may be absent.
func (e *env) numberOr(name string, absent int) int {
	if !e.has(name) {
		return absent
	}
	return e.number(name)
}

// place reads the four numbers that every launcher sets. The local ones may be absent.
func (e *env) place(w *World, rank, size, local, locals string) {
	e.rank, e.size, e.local, e.locals = rank, size, local, locals
	w.Rank, w.Size = e.number(rank), e.number(size)
	w.LocalRank = e.numberOr(local, 0)
	w.LocalSize = e.numberOr(locals, max(1, w.LocalRank+1))
}

// consistent returns an error that names the variables of the first contradiction in w.
func (e *env) consistent(w World) error {
	if e.rank == "" {
		return nil // a process without a launcher
	}
	named := func(name string) string { return fmt.Sprintf("%s=%q", name, e.get(name)) }
	switch {
	case w.Size < 1:
		return fmt.Errorf("%s: there is at least one rank", named(e.size))
	case w.Rank >= w.Size:
		return fmt.Errorf("%s is not below %s", named(e.rank), named(e.size))
	case w.LocalSize < 1:
		return fmt.Errorf("%s: there is at least one rank on this host", named(e.locals))
	case w.LocalSize > w.Size:
		return fmt.Errorf("%s is above %s", named(e.locals), named(e.size))
	case w.LocalRank >= w.LocalSize:
		return fmt.Errorf("%s is not below %s", named(e.local), named(e.locals))
	}
	return nil
}

// own reads the variables that apply under every launcher.
func (e *env) own(w *World) {
	w.Generation = e.numberOr("WDLRUN_GENERATION", w.Generation)
	w.Rendezvous = e.get("WDLRUN_RENDEZVOUS")
	if job := e.get("WDLRUN_JOB"); job != "" {
		w.Job = job
	}
	if at := e.get("WDLRUN_COORDINATOR"); at != "" {
		host, port, err := net.SplitHostPort(at)
		n, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || bad != nil || n == 0 {
			e.fail("WDLRUN_COORDINATOR=%q is not host:port", at)
		}
		w.Coordinator = at
	}
	if key := e.get("WDLRUN_KEY"); key != "" {
		k, err := ParseKey(key)
		if err != nil {
			e.fail("WDLRUN_KEY is not a key: %w", err) // the value is secret
		}
		w.Key = k
	}
	if host := e.get("WDLRUN_HOST"); host != "" {
		w.Host = host
	}
	if ip := e.get("WDLRUN_IP"); ip != "" {
		if net.ParseIP(ip) == nil {
			e.fail("WDLRUN_IP=%q is not an IP address", ip)
		}
		w.IP = ip
	}
	if w.By == "wdlrun" && e.has("WDLRUN_LAUNCHER") {
		w.Launched = true
		if w.Coordinator == "" || w.Key == (Key{}) {
			e.fail("WDLRUN_LAUNCHER=%q is set, so WDLRUN_COORDINATOR and WDLRUN_KEY must be", e.get("WDLRUN_LAUNCHER"))
		}
	}
	if w.Coordinator != "" && w.Key == (Key{}) && w.Size > 1 {
		e.fail("WDLRUN_COORDINATOR=%q is set but WDLRUN_KEY is not: give all ranks the same 64 hexadecimal digits", w.Coordinator)
	}
}
