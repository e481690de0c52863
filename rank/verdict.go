package rank

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Kind is the category of a verdict's cause.
type Kind string

// The kinds in order of precedence. If several ranks have signs, the root cause is the rank
// whose kind comes first here; Killed and Exited are equal, and the earlier one counts. If
// one rank has several signs, its own report (Failed) precedes the end of its process, and its
// report about a peer (Blamed) precedes an exit code.
const (
	Killed   Kind = "killed"   // its process was ended by a signal
	Exited   Kind = "exited"   // its process ended with a code other than 0 and without a report
	Failed   Kind = "failed"   // it reported its own error
	Lost     Kind = "lost"     // its connection broke, or it left before the end
	Silent   Kind = "silent"   // no heartbeat within the timeout
	Stuck    Kind = "stuck"    // heartbeats but no progress, although it waits for no rank
	Blamed   Kind = "blamed"   // another rank reported its loss
	Absent   Kind = "absent"   // ranks did not join in time; names no single rank
	Cut      Kind = "cut"      // two live ranks no longer reach each other; names no single rank
	Disagree Kind = "disagree" // ranks made different calls, or calls in different orders; names no single rank
	Deadlock Kind = "deadlock" // all ranks wait for each other; names no single rank
	Gone     Kind = "gone"     // a rank has lost the coordinator
)

// MaxOthers is the maximum number of secondary reports listed under a verdict.
const MaxOthers = 64

// Verdict is the reason why a group ended before its work was done: one cause, with the
// signs of other ranks listed under it. It is an error.
type Verdict struct {
	Kind      Kind          `json:"kind"`
	Rank      int           `json:"rank"`               // −1 if no single rank is the cause
	Together  string        `json:"together,omitempty"` // with Lost and Silent: all ranks of its host, if the host is the cause
	Host      string        `json:"host,omitempty"`
	Pid       int           `json:"pid,omitempty"`
	Phase     string        `json:"phase,omitempty"`
	Step      int64         `json:"step"` // of a rank that failed or is stuck; of others when last seen. Cause names a rank that was ahead
	Position  string        `json:"position,omitempty"`
	Cause     string        `json:"cause,omitempty"`
	Permanent bool          `json:"permanent,omitempty"` // a restart would repeat the cause
	Alone     bool          `json:"alone,omitempty"`     // all ranks are on one host
	Code      int           `json:"code,omitempty"`      // exit code of the process
	Signal    int           `json:"signal,omitempty"`    // signal that ended the process
	Quiet     time.Duration `json:"quiet,omitempty"`     // how long it was silent, stuck or waiting
	Others    []string      `json:"others,omitempty"`    // signs of other ranks, one line each, at most MaxOthers
	Folded    int           `json:"folded,omitempty"`    // number of other ranks with signs
	Blaming   int           `json:"blaming,omitempty"`   // number of these that blame this rank
}

// Survived reports whether rank r can continue in the next group because another rank, or
// only a link, was lost.
func (v *Verdict) Survived(r int) bool {
	switch v.Kind {
	case Killed, Exited, Lost, Silent, Stuck:
		return v.Rank != r
	case Blamed, Cut:
		return true
	}
	return false
}

// Error returns String.
func (v *Verdict) Error() string { return v.String() }

// String returns the verdict in one line.
func (v *Verdict) String() string {
	var b strings.Builder
	switch v.Kind {
	case Absent, Cut, Disagree, Deadlock, Gone:
		b.WriteString(v.Cause)
	default:
		if v.Kind == Failed && v.Permanent && v.Cause != "" { // the rank that met the cause does not matter
			if v.Alone {
				b.WriteString(v.Cause)
				break
			}
			fmt.Fprintf(&b, "%s; reported by %s%s", v.Cause, v.who(), v.where())
			break
		}
		b.WriteString(v.who())
		b.WriteString(v.what())
		b.WriteString(v.where())
		if v.Cause != "" {
			b.WriteString(": ")
			b.WriteString(v.Cause)
		}
	}
	b.WriteString(v.folded())
	return b.String()
}

func (v *Verdict) who() string {
	if v.Together != "" {
		return fmt.Sprintf("host %s (%s)", v.Host, v.Together)
	}
	var in []string
	if v.Host != "" {
		in = append(in, "host "+v.Host)
	}
	if v.Pid != 0 {
		in = append(in, fmt.Sprintf("pid %d", v.Pid))
	}
	if in == nil {
		return fmt.Sprintf("rank %d", v.Rank)
	}
	return fmt.Sprintf("rank %d (%s)", v.Rank, strings.Join(in, ", "))
}

func (v *Verdict) what() string {
	switch v.Kind {
	case Killed:
		return fmt.Sprintf(" was killed by signal %d (%s)", v.Signal, name(v.Signal))
	case Exited:
		return fmt.Sprintf(" ended with exit code %d", v.Code)
	case Failed:
		return " failed"
	case Lost:
		return " was lost"
	case Silent:
		return fmt.Sprintf(" has been silent for %s", v.Quiet.Round(100*time.Millisecond))
	case Stuck:
		return fmt.Sprintf(" has made no progress for %s", v.Quiet.Round(100*time.Millisecond))
	case Blamed:
		return " was reported lost"
	}
	return " ended: " + string(v.Kind)
}

func (v *Verdict) where() string {
	if v.Phase == "" {
		return ""
	}
	s := fmt.Sprintf(" in phase %s, step %d", v.Phase, v.Step)
	if v.Kind != Failed && v.Kind != Stuck { // otherwise the position comes from its heartbeats
		s = ", last seen" + s
	}
	if v.Position != "" {
		s += ", input " + v.Position
	}
	return s
}

// folded returns a count of the other ranks with signs, by kind.
func (v *Verdict) folded() string {
	var s string
	switch {
	case v.Together != "" && v.Blaming > 0: // it is the consequence
	case v.Blaming == 1:
		s += "; 1 other rank lost its connection to it"
	case v.Blaming > 1:
		s += fmt.Sprintf("; %d other ranks lost their connection to it", v.Blaming)
	}
	if rest := v.Folded - v.Blaming; rest > 0 {
		s += fmt.Sprintf("; %s failed too", ranks(rest))
	}
	return s
}

func ranks(n int) string {
	if n == 1 {
		return "1 other rank"
	}
	return fmt.Sprintf("%d other ranks", n)
}

// name returns the common name of a signal.
func name(signal int) string {
	switch s := syscall.Signal(signal); s {
	case syscall.SIGKILL:
		return "SIGKILL"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGPIPE:
		return "SIGPIPE"
	default:
		return s.String()
	}
}

// Hint returns what to do next, or "" if the verdict contains it.
func (v *Verdict) Hint() string {
	switch {
	case v.Kind == Killed && strings.HasPrefix(v.Cause, "the kernel killed it"):
		return "use a smaller batch, smaller tables or more hosts, or raise the limit of memory; train -plan estimates what a training needs"
	case v.Kind == Killed && v.Signal == int(syscall.SIGKILL):
		return "if no user killed it, the host may have run out of memory (see its kernel log): use a smaller batch, smaller tables or more hosts"
	case v.Kind == Killed && slices.Contains([]syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}, syscall.Signal(v.Signal)):
		return "another process sent it this signal, such as a user or a service that stops"
	case v.Kind == Killed:
		return "see the output of the rank above for a stack"
	case v.Kind == Exited:
		return "see the output of the rank above"
	case v.Together != "":
		return "check that the host is up and can be reached; with -restarts wdlrun restarts the job"
	case v.Kind == Lost || v.Kind == Blamed:
		return "see the output of the rank, and whether its host is still up"
	case v.Kind == Silent:
		return "its process is stopped, or its host is overloaded or unreachable; with -restarts or -replicas wdlrun restarts the job"
	case v.Kind == Stuck:
		return "it is alive but computes or reads without end; a longer -timeout waits longer"
	case v.Kind == Cut:
		return "check the network between the two hosts: ping -M do -s 1472 HOST from one to the other, firewalls, cables; with -restarts wdlrun restarts the job"
	case v.Kind == Disagree:
		return "look in the program for a call that depends on the rank or on its data; the stacks of the ranks show where each is"
	case v.Kind == Deadlock:
		return "ranks that disagree about the next collective wait for each other; compare the phases and steps"
	}
	return ""
}
