package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestProbe: which files can be read further, and which bytes end inside a line.
func TestProbe(t *testing.T) {
	for _, x := range []struct {
		what, name, content string
		source              schema.Source
		bytes               int64
		appends, cut        bool
	}{
		{"whole lines", "a", "1,2\n3,4\n", schema.Source{}, 4, true, false},
		{"a cut line", "a", "1,2\n3,4\n", schema.Source{}, 6, true, true},
		{"a line without its end", "a", "1,2\r\n3,4\n", schema.Source{}, 3, true, false},
		{"the end of the file", "a", "1,2", schema.Source{}, 3, true, false},
		{"nothing", "a", "1,2\n", schema.Source{}, 0, true, false},
		{"objects", "a", "{}\n{}\n", schema.Source{Format: "jsonl"}, 3, true, false},
		{"frames", "a", "abcdef", schema.Source{Format: "tfrecord"}, 3, true, false},
		{"gzip", "a.gz", "\x1f\x8b\x08..", schema.Source{}, 2, false, true},
		{"a name of gzip", "a.gz", "1,2\n", schema.Source{}, 4, false, false},
		{"Parquet", "a", "PAR1\n", schema.Source{Format: "parquet"}, 5, false, false},
		{"line breaks in quotes", "a", "1,2\n3,4\n", schema.Source{Multiline: true}, 4, false, false},
	} {
		name := filepath.Join(t.TempDir(), x.name)
		fatal.If(t, os.WriteFile(name, []byte(x.content), 0o644))
		if p, err := Probe(x.source, name, x.bytes); err != nil || p.Appends != x.appends || p.Cut != x.cut {
			t.Errorf("%s: %+v, %v", x.what, p, err)
		}
	}
}

// TestProbeDigest: the digest of a prefix does not change when bytes are appended, and
// changes with its beginning or end.
func TestProbeDigest(t *testing.T) {
	const n = 3 * digestBytes
	name := filepath.Join(t.TempDir(), "a")
	of := func(content string) uint64 {
		fatal.If(t, os.WriteFile(name, []byte(content), 0o644))
		p, err := Probe(schema.Source{}, name, n)
		fatal.If(t, err)
		return p.Digest
	}
	content := strings.Repeat("x", n)
	want := of(content)
	if of(content+"more") != want {
		t.Error("appended bytes change the digest")
	}
	for _, other := range []string{"y" + content[1:], content[:n-1] + "y", content[:n-1], content[:10], ""} {
		if of(other) == want {
			t.Errorf("%d other bytes have the same digest", len(other))
		}
	}
}
