package rundir

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
)

// world is a run directory and the processes that take it, without a disk.
type world struct {
	turn string          // the only one; "": none
	held map[string]bool // turns whose lock is held
	tmp  map[string]bool // steps being written in the turn
	all  map[string]*process
}

type process struct {
	taker
	turn string // its name
}

func newWorld() *world {
	return &world{held: map[string]bool{}, tmp: map[string]bool{}, all: map[string]*process{}}
}

// process returns the process of a name such as A2, generation 2 of job A.
func (w *world) process(name string) *process {
	if w.all[name] == nil {
		o := Owner{name[:1], int(name[1] - '0')}
		w.all[name] = &process{taker: taker{Owner: o, later: -1}, turn: o.turnName(name)}
	}
	return w.all[name]
}

// move makes the next move of a process and returns its result.
func (w *world) move(name string) string {
	p := w.process(name)
	switch p.next {
	case moveLook:
		names := []string{}
		if w.turn != "" {
			names = append(names, w.turn)
		}
		p.looked(names, w.held[w.turn])
		if w.held[w.turn] {
			return "the lock is held"
		}
		return "the lock is free"
	case moveTake:
		won := len(p.from) == 0 && w.turn == "" || slices.Contains(p.from, w.turn)
		if p.took(won); !won {
			return "is too slow"
		}
		w.turn, w.held[p.turn] = p.turn, true
		clear(w.tmp)
		return "has the turn"
	}
	return "none"
}

// does carries out an event of a conversation.
func (w *world) does(name, verb, step string) string {
	p := w.process(name)
	switch verb {
	case "moves":
		return w.move(name)
	case "takes": // all moves
		for p.next != moveDone && p.next != moveRefuse {
			w.move(name)
		}
		if p.next == moveRefuse {
			return "refused: " + p.by("pid 7 on host h")
		}
		return "has the turn"
	case "ends", "lease-ends": // the second is only seen by the server: the process may continue
		delete(w.held, p.turn)
		return "its lock is free"
	case "writes":
		if w.turn != p.turn {
			return "error: " + checkpoint.ErrTurn.Error()
		}
		w.tmp[step] = true
		return "writes"
	case "commits":
		if w.turn != p.turn || !w.tmp[step] {
			return "error: " + checkpoint.ErrTurn.Error()
		}
		delete(w.tmp, step)
		return "commits"
	}
	return "unknown event"
}

// TestConversations runs testdata/turns.txt: "> A2 takes" is an event of generation 2 of job A. The
// lines after it are what it leads to.
func TestConversations(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "turns.txt"))
	fatal.If(t, err)
	var out strings.Builder
	w := newWorld()
	for line := range strings.Lines(string(b)) {
		event, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if strings.HasPrefix(line, "#") || line == "\n" {
				out.WriteString(line)
			}
			if strings.HasPrefix(line, "#") {
				w = newWorld()
			}
			continue
		}
		f := append(strings.Fields(event), "")
		fmt.Fprintf(&out, "> %s%s\n", event, w.does(f[0], f[1], f[2]))
	}
	golden.Check(t, "turns.txt", out.String())
}

// copy returns a copy of the world.
func (w *world) copy() *world {
	c := *w
	c.held, c.tmp, c.all = maps.Clone(w.held), maps.Clone(w.tmp), map[string]*process{}
	for name, p := range w.all {
		q := *p
		c.all[name] = &q
	}
	return &c
}

// TestEveryOrderOfMoves: generations 2 and 3 of a job and another job take the directory of a
// generation 1 whose host is lost, in every order of their moves, and the lease of its lock ends at any
// moment or never. One of them has the turn at the end. While the lease has not ended, the other job
// is rejected and the last generation is not.
func TestEveryOrderOfMoves(t *testing.T) {
	start := newWorld()
	start.does("A1", "takes", "")
	names := []string{"A2", "A3", "B1"}
	for _, n := range names {
		start.process(n)
	}
	ends := 0
	seen := map[string]bool{}
	var visit func(w *world, leased bool)
	visit = func(w *world, leased bool) {
		key := w.key(leased)
		if seen[key] {
			return
		}
		seen[key] = true
		moved := false
		for _, n := range names {
			if p := w.all[n]; p.next == moveDone || p.next == moveRefuse {
				continue
			}
			moved = true
			next := w.copy()
			next.move(n)
			visit(next, leased)
		}
		if leased {
			next := w.copy()
			delete(next.held, next.all["A1"].turn)
			visit(next, false)
		}
		if moved {
			return
		}
		ends++
		holders := 0
		for n, p := range w.all {
			if p.turn == w.turn {
				holders++
				if n == "A1" || p.next != moveDone {
					t.Fatalf("%s has the turn: %s", n, key)
				}
			}
		}
		a3, b1 := w.all["A3"], w.all["B1"]
		if holders != 1 || leased && (b1.next == moveDone || w.turn != a3.turn && w.turn != w.all["A2"].turn) {
			t.Fatalf("%d processes have the turn %q: %s", holders, w.turn, key)
		}
		if leased && a3.next != moveDone {
			t.Fatalf("generation 3 is rejected: %s", key)
		}
	}
	visit(start, true)
	if ends < 20 {
		t.Errorf("only %d ends", ends)
	}
	t.Logf("%d states, %d ends", len(seen), ends)
}

// key describes a world.
func (w *world) key(leased bool) string {
	var b strings.Builder
	fmt.Fprint(&b, w.turn, w.held, leased)
	for _, n := range slices.Sorted(maps.Keys(w.all)) {
		p := w.all[n]
		fmt.Fprint(&b, " ", n, p.next, p.from, p.later, p.tried)
	}
	return b.String()
}
