package arrow

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestStringsBetweenNulls: strings that follow one another are read where they are, others without what is between
// them, such as the text that a null may have.
func TestStringsBetweenNulls(t *testing.T) {
	const text = "abcdefgh"
	offsets := []uint32{1, 3, 3, 6, 7}
	var body, buffers []byte
	for _, at := range offsets {
		body = binary.LittleEndian.AppendUint32(body, at)
	}
	for _, x := range [3][2]int{{0, 0}, {0, len(body)}, {len(body), len(text)}} {
		buffers = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(buffers, uint64(x[0])), uint64(x[1]))
	}
	body = append(body, text...)
	f := &field{kind: typeUtf8}
	b := &batch{File: &File{src: bytes.NewReader(body), size: int64(len(body))}, Buffer: buffers, length: int64(len(body)), bufCount: 3, places: map[*field]place{f: {}}, memory: &memory{}}
	for _, x := range []struct {
		at   []int32
		want string
	}{{nil, "bc||def|g"}, {[]int32{0, 2, 3}, "bc|def|g"}, {[]int32{0, 3}, "bc|g"}, {[]int32{2}, "def"}, {[]int32{}, ""}, {[]int32{3, 0, 1}, "g|bc|"}} {
		s := &b.memory.stored
		b.memory.used = 0
		fatal.If(t, b.gather(f, taken{4, x.at}, s))
		var got []string
		for i, hi := range s.Offsets[1:] {
			got = append(got, string(s.Bytes[s.Offsets[i]:hi]))
		}
		if s.Offsets[0] != 0 || strings.Join(got, "|") != x.want {
			t.Errorf("%v: %q, want %s", x.at, got, x.want)
		}
	}
	if !bytes.Equal(body[len(body)-len(text):], []byte(text)) {
		t.Errorf("the text has changed: %q", body)
	}
}
