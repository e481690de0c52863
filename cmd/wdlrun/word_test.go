package main

import (
	"os/exec"
	"strings"
	"testing"
)

func TestWordsForAShell(t *testing.T) {
	for path, want := range map[string]string{
		"runs/20261121-101500": "runs/20261121-101500", "s3://b/a.csv": "s3://b/a.csv", "": "''", "my runs": "'my runs'", "day_*.csv": "'day_*.csv'",
		"it's": `'it'\''s'`, "a$b;c": "'a$b;c'", "größe.csv": "'größe.csv'",
		"-x.csv": "./-x.csv", "-my x": "'./-my x'",
	} {
		if got := word(path); got != want {
			t.Errorf("%q is %s, want %s", path, got, want)
		}
		if b, err := exec.Command("sh", "-c", "printf %s "+word(path)).Output(); err != nil || strings.TrimPrefix(string(b), "./") != path {
			t.Errorf("a shell takes %s for %q, %v", word(path), b, err)
		}
	}
	if got := words([]string{"a b", "c"}); got != "'a b' c" {
		t.Error(got)
	}
}
