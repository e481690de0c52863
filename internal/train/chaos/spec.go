package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of a text.
const (
	MaxText   = 64 << 10
	MaxFaults = 10_000 // including the faults of random
	maxRank   = 1<<16 - 1
	maxStep   = 1 << 50
	maxTime   = 365 * 24 * time.Hour
	maxFactor = 1e6
)

// Kind is a kind of fault.
type Kind string

// Kinds of faults.
const (
	Slow     Kind = "slow"
	Stop     Kind = "stop"
	Kill     Kind = "kill"
	Cut      Kind = "cut"
	DiskFull Kind = "diskfull"
	Random   Kind = "random"
)

// Any is a rank drawn from the seed; for DiskFull, all ranks.
const Any = -1

// When is the moment of a fault: a step, or a time since the start. The zero
// value leaves it open.
type When struct {
	Step int64
	At   time.Duration
	set  bool
}

// Fault is one parsed fault. Fields that its kind does not use are zero.
type Fault struct {
	Kind       Kind
	Rank, Peer int // Slow, Stop, Kill, DiskFull: Rank; Cut: both
	Factor     float64
	Duration   time.Duration // Stop
	Count      int           // Random
	When       When
}

// Spec is a list of faults. The zero value is none.
type Spec []Fault

// Parse parses a text. An error names the fault and its format.
func Parse(text string) (Spec, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > MaxText {
		return nil, fmt.Errorf("%d bytes of text, at most %d", len(text), MaxText)
	}
	var s Spec
	total := 0
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		f, err := parseFault(part)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		if total += max(1, f.Count); total > MaxFaults {
			return nil, fmt.Errorf("more than %d faults", MaxFaults)
		}
		s = append(s, f)
	}
	return s, nil
}

// usage is the format of each kind.
var usage = map[Kind]string{
	Slow:     "slow:FACTORx@RANK[@WHEN], such as slow:3x@5",
	Stop:     "stop:DURATION@RANK[@WHEN], such as stop:2s@7@step30",
	Kill:     "kill:RANK@WHEN, such as kill:3@step100",
	Cut:      "cut:RANK-RANK@WHEN, such as cut:2-3@10s",
	DiskFull: "diskfull[@RANK]@WHEN, such as diskfull@step50",
	Random:   "random:COUNT@stepN, such as random:200@step5000",
}

func parseFault(part string) (Fault, error) {
	words := strings.Split(part, "@")
	name, what, hasWhat := strings.Cut(words[0], ":")
	f := Fault{Kind: Kind(name)}
	want, ok := usage[f.Kind]
	if !ok {
		return f, fmt.Errorf("there is no fault %q: want slow, stop, kill, cut, diskfull or random", name)
	}
	err := f.fill(what, hasWhat, words[1:])
	if err != nil {
		return f, fmt.Errorf("%w: write %s", err, want)
	}
	return f, nil
}

// fill parses the text before the first @ and after each.
func (f *Fault) fill(what string, hasWhat bool, at []string) (err error) {
	if hasWhat != (f.Kind != DiskFull) {
		return fmt.Errorf("a word is missing or too many before @")
	}
	ranks, times := 0, 1 // maximum words after @
	switch f.Kind {
	case Slow:
		ranks = 1
		f.Factor, err = parseFactor(what)
	case Stop:
		ranks = 1
		f.Duration, err = parseTime(what)
	case Kill:
		f.Rank, err = parseRank(what)
	case Cut:
		a, b, _ := strings.Cut(what, "-")
		if f.Rank, err = parseRank(a); err == nil {
			f.Peer, err = parseRank(b)
		}
		if err == nil && f.Rank == f.Peer && f.Rank != Any {
			err = fmt.Errorf("rank %d has no link to itself", f.Rank)
		}
	case DiskFull:
		f.Rank = Any
		if len(at) == 2 {
			ranks = 1
		}
	case Random:
		f.Count, err = strconv.Atoi(what)
		if err == nil && (f.Count < 1 || f.Count > MaxFaults) {
			err = fmt.Errorf("%d faults are not within 1 … %d", f.Count, MaxFaults)
		}
	}
	if err != nil {
		return err
	}
	return f.where(at, ranks, times)
}

// where parses the words after @: a rank if the kind takes one, then a time.
func (f *Fault) where(at []string, ranks, times int) (err error) {
	if ranks == 1 {
		if len(at) == 0 {
			return fmt.Errorf("the rank is missing")
		}
		if f.Rank, err = parseRank(at[0]); err != nil {
			return err
		}
		at = at[1:]
	}
	if len(at) > times {
		return fmt.Errorf("%d words too many after @", len(at)-times)
	}
	if len(at) == 1 {
		f.When, err = parseWhen(at[0])
	} else if f.Kind != Slow && f.Kind != Stop {
		err = fmt.Errorf("the time is missing")
	}
	if err == nil && f.Kind == Random && f.When.Step < 1 {
		err = fmt.Errorf("the last step is missing")
	}
	return err
}

func parseFactor(s string) (float64, error) {
	n, ok := strings.CutSuffix(s, "x")
	x, err := strconv.ParseFloat(n, 64)
	if !ok || err != nil || !(x >= 1 && x <= maxFactor) {
		return 0, fmt.Errorf("%q is not a factor from 1x to %gx", s, float64(maxFactor))
	}
	return x, nil
}

func parseTime(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxTime {
		return 0, fmt.Errorf("%q is not a time such as 500ms or 2s", s)
	}
	return d, nil
}

func parseRank(s string) (int, error) {
	if s == "any" {
		return Any, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxRank || s[0] == '+' {
		return 0, fmt.Errorf("%q is not a rank (a number, or any)", s)
	}
	return n, nil
}

func parseWhen(s string) (When, error) {
	if n, ok := strings.CutPrefix(s, "step"); ok {
		x, err := strconv.ParseInt(n, 10, 64)
		if err != nil || x < 0 || x > maxStep || n[0] == '+' {
			return When{}, fmt.Errorf("%q is not a step such as step100", s)
		}
		return When{Step: x, set: true}, nil
	}
	d, err := parseTime(s)
	if err != nil {
		return When{}, fmt.Errorf("%q is neither a step such as step100 nor a time such as 10s", s)
	}
	return When{At: d, Step: -1, set: true}, nil
}

// String returns the spec in the format of Parse.
func (s Spec) String() string {
	parts := make([]string, len(s))
	for i, f := range s {
		parts[i] = f.String()
	}
	return strings.Join(parts, ",")
}

func (f Fault) String() string {
	text := string(f.Kind)
	switch f.Kind {
	case Slow:
		text += ":" + strconv.FormatFloat(f.Factor, 'g', -1, 64) + "x@" + rankText(f.Rank)
	case Stop:
		text += ":" + f.Duration.String() + "@" + rankText(f.Rank)
	case Kill:
		text += ":" + rankText(f.Rank)
	case Cut:
		text += ":" + rankText(f.Rank) + "-" + rankText(f.Peer)
	case DiskFull:
		if f.Rank != Any {
			text += "@" + rankText(f.Rank)
		}
	case Random:
		text += ":" + strconv.Itoa(f.Count)
	}
	switch {
	case !f.When.set:
	case f.When.Step >= 0:
		text += "@step" + strconv.FormatInt(f.When.Step, 10)
	default:
		text += "@" + f.When.At.String()
	}
	return text
}

func rankText(r int) string {
	if r == Any {
		return "any"
	}
	return strconv.Itoa(r)
}

// Validate returns an error for the first rank outside a world.
func (s Spec) Validate(size int) error {
	for _, f := range s {
		if f.Rank >= size || f.Peer >= size {
			return fmt.Errorf("%v: rank %d is not in a world of size %d", f, max(f.Rank, f.Peer), size)
		}
		if f.Kind == Cut && size < 2 {
			return fmt.Errorf("%v: a world of one rank has no links", f)
		}
	}
	return nil
}
