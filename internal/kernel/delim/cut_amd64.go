//go:build amd64 && !noasm

package delim

import "golang.org/x/sys/cpu"

var (
	fast = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT
	wide = fast && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI2
)

var steps = func() (s [64]byte) {
	for i := range s {
		s[i] = byte(i)
	}
	return s
}()

func (c *Cutter) find(line []byte, delim byte) (found int, blanks bool) {
	if wide {
		n, blank := cutAVX512(&c.fields[0].Lo, c.width-1, &line[0], len(line), delim, &steps[0])
		return n, blank != 0
	}
	return c.findNarrow(line, delim)
}

// findNarrow is find for processors without AVX-512.
func (c *Cutter) findNarrow(line []byte, delim byte) (found int, blanks bool) {
	if !fast {
		return c.findPlain(line, delim)
	}
	n, blank := cutAVX2(&c.fields[0].Lo, c.width-1, &line[0], len(line), delim)
	return n, blank != 0
}
