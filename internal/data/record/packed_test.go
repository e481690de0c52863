package record

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestSkippableFrames: pzstd writes a skippable frame before each frame, with its length.
func TestSkippableFrames(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	fatal.If(t, err)
	skippable := func(n int) string {
		b := binary.LittleEndian.AppendUint32([]byte{0x5a, 0x2a, 0x4d, 0x18}, uint32(n))
		return string(b) + strings.Repeat("x", n)
	}
	text := strings.Repeat("click,age\n1,23\n", 10)
	frame := string(z.EncodeAll([]byte(text), nil))
	for _, content := range []string{skippable(4) + frame, skippable(0) + skippable(9) + frame, skippable(2*headBytes) + frame} {
		files, err := Resolve([]string{datatest.Write(t, "a.csv.zst", content)})
		fatal.If(t, err)
		fatal.If(t, files[0].FindPacking())
		if got, err := files[0].Read(1 << 12); err != nil || string(got) != text {
			t.Errorf("%d bytes, %v, want %d", len(got), err, len(text))
		}
	}
	if _, err := packingOf("a.zst", []byte(skippable(4)+"text behind it")); err == nil {
		t.Error("another frame behind a skippable one is taken for zstd")
	}
}
