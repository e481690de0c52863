//go:build !amd64 || noasm

package delim

func (c *Cutter) find(line []byte, delim byte) (found int, blanks bool) {
	return c.findPlain(line, delim)
}

func (c *Cutter) findNarrow(line []byte, delim byte) (found int, blanks bool) {
	return c.findPlain(line, delim)
}
