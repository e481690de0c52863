//go:build amd64 && !noasm

package delim

import "golang.org/x/sys/cpu"

var fast = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

func (c *Cutter) find(line []byte, delim byte) (found int, blanks bool) {
	if !fast {
		return c.findPlain(line, delim)
	}
	n, blank := cutAVX2(&c.fields[0].Lo, c.width-1, &line[0], len(line), delim)
	return n, blank != 0
}
