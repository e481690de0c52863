package delim

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// loop is Cut, byte by byte.
func loop(line []byte, delim byte, width int) (fields []Field, blanks bool) {
	lo := 0
	for i, b := range line {
		if b == delim {
			fields = append(fields, Field{int32(lo), int32(i)})
			lo = i + 1
		} else if b <= ' ' {
			blanks = true
		}
	}
	if fields = append(fields, Field{int32(lo), int32(len(line))}); len(fields) != width {
		return nil, blanks
	}
	return fields, blanks
}

// same compares Cut, its version for older processors and the plain one with the loop. For
// a rejected line, blanks is unspecified.
func same(t *testing.T, line []byte, delim byte, width int) {
	t.Helper()
	want, blank := loop(line, delim, width)
	c := NewCutter(width)
	for i := range c.fields {
		c.fields[i] = Field{-7, -7}
	}
	got, found := c.Cut(line, delim)
	if !slices.Equal(got, want) || got != nil && found != blank && (delim != 'x' || blank) {
		t.Fatalf("%q at %q in %d: %v, %v; want %v, %v", line, delim, width, got, found, want, blank)
	}
	if len(line) < 64 {
		return
	}
	for name, find := range map[string]func([]byte, byte) (int, bool){"plain": c.findPlain, "narrow": c.findNarrow} {
		n, found := find(line, delim)
		if c.fields[0].Lo, c.fields[min(n, width)].Hi = 0, int32(len(line)); (n == width-1) != (want != nil) || want != nil && (found != blank || !slices.Equal(c.fields[:width], want)) {
			t.Fatalf("%q at %q in %d: %s %v, %v; want %v, %v", line, delim, width, name, c.fields[:width], found, want, blank)
		}
	}
}

func TestCutIsTheLoop(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for n := range 400 {
		for range 20 {
			line := make([]byte, n)
			often := draw.IntN(30)
			for i := range line {
				if line[i] = "abx0\xff\x80!\t \x00"[draw.IntN(10-3*draw.IntN(2))]; often > 0 && draw.IntN(often) == 0 {
					line[i] = ','
				}
			}
			exact := 1 + bytes.Count(line, []byte{','})
			for _, width := range []int{exact, max(exact-1, 1), exact + 1, 1} {
				same(t, line, ',', width)
				same(t, line, '\t', width)
				same(t, line, 'x', width)
			}
		}
	}
}

// A line of delimiters does not write beyond the slice.
func TestCutOfManyFields(t *testing.T) {
	for n := range 300 {
		for _, width := range []int{1, 2, 40, n, n + 1, n + 2} {
			same(t, bytes.Repeat([]byte{';'}, n), ';', max(width, 1))
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte("1\t2\t\tabc"), byte('\t'), uint8(4))
	f.Add(bytes.Repeat([]byte("ab, "), 50), byte(','), uint8(51))
	f.Fuzz(func(t *testing.T, line []byte, delim byte, width uint8) {
		same(t, line, delim, int(width)+1)
		same(t, line, delim, 1+bytes.Count(line, []byte{delim}))
	})
}
