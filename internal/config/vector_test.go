package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestSuggestLists: lists of numbers of one length are vectors, and pairs of values and weights are
// read as such.
func TestSuggestLists(t *testing.T) {
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, `{"click":%d,"emb":[%d.5,null,%d.25],"some":[%s1.5],"hist":"t%d:1.5|t%d:0.5"}`+"\n", i%2, i%7, i%5, strings.Repeat("0.5,", i%3), i%4, i%3+4)
	}
	path := filepath.Join(t.TempDir(), "a.jsonl")
	fatal.If(t, os.WriteFile(path, []byte(text.String()), 0o644))
	in, err := inspect.First(path, 0)
	fatal.If(t, err)
	got := string(Suggest(in, ""))
	for _, want := range []string{
		"\n  - {field: emb, encode: vector, size: 3, standardise: true}", `{field: hist, encode: vocabulary, separator: "|", pairs: ":"}`, "lists of numbers; they may be the weights",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	_, err = Parse("a.yaml", []byte(got))
	fatal.If(t, err)
}
