package adult

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestFilesAreTheOriginals(t *testing.T) {
	for name, want := range map[string]string{
		Train: "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
		Test:  "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
	} {
		b, err := Open(name)
		fatal.If(t, err)
		sum := sha256.Sum256(b)
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: sha256 %s, want %s", name, got, want)
		}
		again, _ := Open(name)
		if &again[0] != &b[0] {
			t.Errorf("%s is decompressed twice", name)
		}
	}
}

func TestUnknownAndDamaged(t *testing.T) {
	if _, err := Open("adult.csv"); err == nil || !strings.Contains(err.Error(), Train) {
		t.Errorf("Open of an unknown file: %v", err)
	}
	if _, err := inflate(Test, test[:len(test)/2], testBytes); err == nil {
		t.Error("half a file was accepted")
	}
	if _, err := inflate(Test, test, testBytes+1); err == nil {
		t.Error("a file of the wrong size was accepted")
	}
}

func TestAttribution(t *testing.T) {
	credit, err := os.ReadFile("ATTRIBUTION.md")
	fatal.If(t, err)
	for _, word := range []string{"Becker", "Kohavi", "CC BY 4.0", "10.24432/C5XW20"} {
		if !strings.Contains(string(credit), word) {
			t.Errorf("the attribution does not hold %q", word)
		}
	}
}
