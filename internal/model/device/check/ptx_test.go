//go:build gpu

package check

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// opcode returns the opcode of an instruction of cudatest, "KERNEL: @P OPCODE OPERANDS;".
func opcode(text string) string {
	_, text, _ = strings.Cut(text, ": ")
	if strings.HasPrefix(text, "@") {
		text = strings.TrimLeft(text[strings.IndexAny(text, " \t"):], " \t")
	}
	return strings.TrimRight(strings.Fields(text)[0], ";")
}

// TestEveryInstruction executes each instruction of the PTX, and breaks each opcode: the comparison with
// the twins finds it. With -whole, it breaks each instruction.
func TestEveryInstruction(t *testing.T) {
	library, err := cuda.Open(cuda.Files{CUDA: standin.CUDA, CUBLAS: standin.CUBLAS})
	fatal.If(t, err)
	d, err := library.Device(0)
	fatal.If(t, err)
	defer d.Close()
	c, err := newComparison(d)
	fatal.If(t, err)
	all := uses()
	standin.Instructions()   // forgets earlier tests
	users := map[int][]use{} // by instruction
	for _, u := range all {
		fatal.If(t, c.compare(u))
		for i, x := range standin.Instructions() {
			if x.Ran {
				users[i] = append(users[i], u)
			}
		}
	}
	texts := standin.Instructions()
	var idle []string
	for i, x := range texts {
		if users[i] == nil {
			idle = append(idle, x.Text)
		}
	}
	if len(idle) > 0 || len(texts) < 1000 {
		t.Errorf("%d of %d instructions are not executed:\n%s", len(idle), len(texts), strings.Join(idle, "\n"))
	}
	caught, missed := map[string]int{}, map[string][]string{}
	for i, x := range texts {
		op := opcode(x.Text)
		if op == "ret" || caught[op] > 0 && patient.Size(0, 1) == 0 {
			continue
		}
		found := false
		for _, u := range users[i] {
			standin.Break(i)
			found = found || c.compare(u) != nil
		}
		standin.Break(-1)
		if found {
			caught[op]++
		} else {
			missed[op] = append(missed[op], x.Text)
		}
	}
	for _, op := range slices.Sorted(maps.Keys(missed)) {
		if caught[op] == 0 {
			t.Errorf("%s is broken, and the comparison does not find it", op)
		}
		t.Logf("%s: %d caught, not %q", op, caught[op], missed[op])
	}
	found, not := 0, 0
	for _, n := range caught {
		found += n
	}
	for _, list := range missed {
		not += len(list)
	}
	t.Logf("%d opcodes; of %d broken instructions, %d were found", len(caught), found+not, found)
	fatal.If(t, c.room.close())
	fatal.If(t, c.set.Close())
}
