package record

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// readLines reads all lines of the blocks, one after the other.
func readLines(content []byte, blocks []Block) (got []string, at []int64, err error) {
	f := &File{Name: "f", size: int64(len(content)), content: content}
	src := memory{bytes.NewReader(content)}
	var l lines
	for _, b := range blocks {
		err := l.begin(src, f, b)
		for err == nil {
			var line []byte
			var off int64
			if line, off, err = l.next(); err == nil {
				got, at = append(got, string(line)), append(at, off)
			}
		}
		if err != io.EOF {
			return got, at, err
		}
	}
	return got, at, nil
}

// naiveLines returns the expected result of readLines.
func naiveLines(content string) (want []string, at []int64) {
	off := int64(0)
	for part := range strings.SplitAfterSeq(content, "\n") {
		if part == "" {
			continue
		}
		want, at = append(want, strings.TrimSuffix(strings.TrimSuffix(part, "\n"), "\r")), append(at, off)
		off += int64(len(part))
	}
	return want, at
}

func checkLines(t rapid.TB, content string, blocks []Block) {
	got, at, err := readLines([]byte(content), blocks)
	want, wantAt := naiveLines(content)
	if err != nil || strings.Join(got, "\x00") != strings.Join(want, "\x00") || len(got) != len(want) {
		t.Fatalf("%d bytes in %v: lines %.200q, want %.200q, %v", len(content), blocks, got, want, err)
	}
	for i := range at {
		if at[i] != wantAt[i] {
			t.Fatalf("line %d begins at %d, want %d", i, at[i], wantAt[i])
		}
	}
}

func cutAt(n int64, cuts ...int64) (blocks []Block) {
	lo := int64(0)
	for _, c := range append(cuts, n) {
		if c = min(max(c, lo), n); c > lo {
			blocks = append(blocks, Block{0, lo, c})
		}
		lo = c
	}
	return blocks
}

func TestEveryCutGivesEveryLineOnce(t *testing.T) {
	for _, content := range []string{"a\nbb\n\nccc\r\n\r\nd", "\n\n\n", "x", "one\ntwo\n", "\r\n\r\n"} {
		for a := range int64(len(content)) + 1 {
			for b := a; b <= int64(len(content)); b++ {
				checkLines(t, content, cutAt(int64(len(content)), a, b))
			}
		}
	}
}

func TestLinesAcrossReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(1, 8).Draw(t, "lines") {
			n := rapid.SampledFrom([]int{0, 1, 50, readBytes - 1, readBytes, readBytes + 1, 300000, MaxLine}).Draw(t, "bytes")
			b.WriteString(strings.Repeat("x", n))
			b.WriteString(rapid.SampledFrom([]string{"\n", "\n\n"}).Draw(t, "end"))
		}
		n := int64(b.Len())
		cuts := rapid.SliceOfN(rapid.Int64Range(0, n), 0, 4).Draw(t, "cuts")
		checkLines(t, b.String(), cutAt(n, cuts...))
	})
}

func TestLongLine(t *testing.T) {
	long := strings.Repeat("x", MaxLine+1)
	for _, content := range []string{long, long + "\nb\n", "a\n" + long + "\n"} {
		if _, _, err := readLines([]byte(content), cutAt(int64(len(content)))); err != ErrLongLine {
			t.Errorf("a line of %d bytes: %v", MaxLine+1, err)
		}
	}
	// A block in the middle of an endless line does not search for its end forever.
	content := []byte(strings.Repeat("x", 3*MaxLine))
	if _, _, err := readLines(content, []Block{{0, 100, 200}}); err != ErrLongLine {
		t.Errorf("a block inside a long line: %v", err)
	}
}

func TestShrunkFile(t *testing.T) {
	f := &File{size: 100}
	var l lines
	src := memory{bytes.NewReader([]byte("ab\ncd"))}
	fatal.If(t, l.begin(src, f, Block{0, 0, 100}))
	for {
		_, _, err := l.next()
		if err == ErrShrunk {
			return
		}
		if err != nil {
			t.Fatalf("a file that ends early: %v", err)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb\r\n\nc", uint16(1), uint16(3))
	f.Add("\n", uint16(0), uint16(1))
	f.Fuzz(func(t *testing.T, content string, a, b uint16) {
		if len(content) > 0 {
			checkLines(t, content, cutAt(int64(len(content)), int64(a), int64(b)))
		}
	})
}

// A small file needs no more memory than it has bytes: data sets have many.
func TestSmallFilesNeedSmallBuffers(t *testing.T) {
	var b buffer
	text := strings.NewReader("a,b\n1,2\n")
	b.seek(text, text.Size(), 0, text.Size())
	if got, err := b.peek(100); string(got) != "a,b\n1,2\n" || err != nil || len(b.buf) != len(got) {
		t.Errorf("%q, %v, %d bytes of memory", got, err, len(b.buf))
	}
}
