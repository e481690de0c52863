//go:build amd64

package f32

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestAVX2KernelsRunOnAVX2 reads the assembly: avo reaches for the registers
// and instructions of AVX-512 where a kernel needs many, and on this machine
// that would go unnoticed.
func TestAVX2KernelsRunOnAVX2(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly: %v", err)
	}
	allowed := []string{"AVX", "AVX2", "FMA3", "BMI2", "SSE", "SSE2", "MMX+", "F16C", "POPCNT"}
	begin := regexp.MustCompile(`(?m)^// func (\w+)\(.*\n// Requires: (.*)\n`)
	late := regexp.MustCompile(`\b([XY](1[6-9]|2\d|3[01])|Z\d+|K\d)\b`)
	kernels := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		fatal.If(t, err)
		text := string(b)
		marks := begin.FindAllStringSubmatchIndex(text, -1)
		for i, m := range marks {
			name, needs, end := text[m[2]:m[3]], text[m[4]:m[5]], len(text)
			if i+1 < len(marks) {
				end = marks[i+1][0]
			}
			if !strings.HasSuffix(name, "AVX2") {
				continue
			}
			kernels++
			for _, need := range strings.Split(needs, ", ") {
				if !slices.Contains(allowed, need) {
					t.Errorf("%s: %s needs %s", file, name, need)
				}
			}
			if r := late.FindString(text[m[1]:end]); r != "" {
				t.Errorf("%s: %s uses register %s", file, name, r)
			}
		}
	}
	if kernels < 20 {
		t.Errorf("only %d kernels found: the search is broken", kernels)
	}
}
