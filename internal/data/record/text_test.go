package record

import (
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// Text in another encoding, or with other line ends, is an error with advice.
func TestKindsOfText(t *testing.T) {
	for content, want := range map[string]string{
		"a,b\r1,2\r3,4\r":    "its lines end only in CR; convert it first (tr '\\r' '\\n' < FILE > NEW)",
		"\xff\xfea\x00,\x00": "is UTF-16 text", "\xfe\xff\x00a\x00,": "is UTF-16 text", "a\x00,\x00b\x00": "is UTF-16 text", "\x00a\x00,": "is UTF-16 text",
		"a,b\r\n1,2\r\n": "", "\ufeffa,b\n": "", "a,b\r": "", "\"a\rb\",c\r\n": "",
	} {
		f := &File{Name: "f", size: int64(len(content)), Bytes: int64(len(content)), content: []byte(content)}
		s := &Set{Source: schema.Source{Header: true}, Files: []File{*f}}
		s.Format = NewFormat(s.Source)
		err := s.Look(0)
		if want == "" && (err != nil || s.Fields[0] != strings.Split(strings.TrimPrefix(content, BOM), ",")[0] && !strings.HasPrefix(content, "\"")) {
			t.Errorf("%q: fields %q, %v", content, s.Fields, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
}
