package rank

import (
	"fmt"
	"os"
	"strconv"
)

// FromEnv reads the World of this process from its environment; the package comment
// lists the variables. If no launcher started the process as a rank, found is false and
// w is a world of one rank. An error names the variable and its value.
func FromEnv(getenv func(string) string) (w World, found bool, err error) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	return fromEnv(getenv, host, os.Getppid())
}

func fromEnv(getenv func(string) string, host string, parent int) (w World, found bool, err error) {
	e := &env{get: getenv, parent: parent}
	w = World{Size: 1, LocalSize: 1, Host: host}
	if !e.aloneByOrder() {
		found = e.launched(&w)
	}
	e.own(&w)
	if e.err != nil {
		if w.By != "" {
			return World{}, false, fmt.Errorf("rank: environment of %s: %w", w.By, e.err)
		}
		return World{}, false, fmt.Errorf("rank: environment: %w", e.err)
	}
	return w, found, nil
}

// launched reads the place that the innermost launcher gives. It returns false if the process
// is alone, and fails if it seems to be one of several in an unknown or contradictory place.
func (e *env) launched(w *World) (found bool) {
	var known []World // by all launchers, the innermost first
	for _, l := range launchers {
		if !l.started(e) {
			continue
		}
		inner := len(known) == 0
		at := &env{get: e.get, parent: e.parent}
		place := *w
		place.By = l.name
		l.read(at, &place)
		if at.err == nil {
			at.err = at.consistent(place)
		}
		switch {
		case at.err == nil:
			place.Named = at.named(at.rank, at.size)
			place.together = !l.perHost && l.name != own && at.has(at.locals)
			known = append(known, place)
			found = found || inner && !(l.perHost && place.Size == 1)
		case inner:
			w.By, e.err = l.name, at.err
			return false
		}
		if l.name == own {
			break // these apply under every launcher
		}
	}
	if len(known) == 0 || known[0].By != own {
		e.fails(checkNested(known))
		e.fails(e.unknown(known))
	}
	if found = found && e.err == nil; found {
		*w = known[0]
	}
	return found
}

// unknown returns an error that names the variables by which this process seems to be one of
// several, if no launcher in known explains them.
func (e *env) unknown(known []World) error {
	var names []string
	for _, s := range signs() {
		n, err := strconv.Atoi(e.get(s.name))
		switch {
		case !e.has(s.name) || s.unless != nil && s.unless(e):
		case len(known) == 0 && (err != nil || n > s.above):
			names = append(names, append([]string{s.name}, s.also...)...)
		case len(known) > 0 && s.rank && err == nil && n >= known[0].Size:
			return fmt.Errorf("%s, which is not a rank of %s; unset the variables of one launcher, or set %s", e.named(s.name), known[0].Named, fourOrAlone)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: this process seems to be one of several, but their number is unknown; set %s", e.named(names...), fourOrAlone)
}
