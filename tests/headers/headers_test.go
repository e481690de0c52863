//go:build gpu

package headers

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/gpu/kernel"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/nccl"
)

// sets are the folders of install.
var sets = []string{"oldest", "newest"}

// wheels returns the folder of a set. It skips the test if they are not installed.
func wheels(t *testing.T, set string) string {
	t.Helper()
	folder := os.Getenv("WDLRUN_CUDA_WHEELS")
	if folder == "" {
		t.Skip("WDLRUN_CUDA_WHEELS is not set: tests/headers/install FOLDER, and set it to the folder")
	}
	return filepath.Join(folder, set)
}

// found returns the only file of a set that matches a pattern.
func found(t *testing.T, set, pattern string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(wheels(t, set), "nvidia", pattern))
	if err != nil || len(all) != 1 {
		t.Fatalf("%s of %s: %q, %v", pattern, set, all, err)
	}
	return all[0]
}

// output compiles a program of this package and returns what it prints.
func output(t *testing.T, source string, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("g++", append([]string{"-std=c++17", "-w", "-o", program, source}, flags...)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", source, err, out)
	}
	out, err := exec.Command(program).Output()
	fatal.If(t, err)
	return string(out)
}

// include returns the flags for the headers of a set.
func include(t *testing.T, set string) (flags []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(wheels(t, set), "nvidia/*/include"))
	fatal.If(t, err)
	for _, folder := range all {
		flags = append(flags, "-I"+folder)
	}
	return flags
}

// bindings returns the lines of check.cc.
func bindings(t *testing.T, set string) (lines [][]string) {
	t.Helper()
	flags := include(t, set)
	for name, path := range map[string]string{"CUDA_BINDING": "../../internal/gpu/cuda/cuda.h", "NCCL_BINDING": "../../nccl/native.h"} {
		path, err := filepath.Abs(path)
		fatal.If(t, err)
		flags = append(flags, fmt.Sprintf("-D%s=%q", name, path))
	}
	for line := range strings.Lines(output(t, "src/check.cc", flags...)) {
		words := strings.Fields(line)
		if len(words) != 4 {
			t.Fatalf("%s: %q", set, line)
		}
		lines = append(lines, words)
	}
	return lines
}

// TestBindingsFitTheHeaders compares functions, numbers, sizes and offsets.
func TestBindingsFitTheHeaders(t *testing.T) {
	own := map[string]int{
		"ncclUint8": int(nccl.Uint8), "ncclInt64": int(nccl.Int64), "ncclFloat32": int(nccl.Float32), "ncclBfloat16": int(nccl.BFloat16),
		"ncclSum": int(nccl.Sum), "ncclMax": int(nccl.Max), "ncclMin": int(nccl.Min),
	}
	for _, set := range sets {
		n := map[string]int{}
		for _, line := range bindings(t, set) {
			kind, name, header, binding := line[0], line[1], line[2], line[3]
			n[kind]++
			switch want, isGo := own[name]; {
			case kind == "go" && isGo:
				binding = strconv.Itoa(want)
			case kind == "go": // a version
				t.Logf("%s: %s %s", set, name, header)
				continue
			case kind == "least":
				if a, b := number(t, header), number(t, binding); a < b || set == "oldest" && a != b {
					t.Errorf("%s: %s has %d bytes, the binding %d", set, name, a, b)
				}
				continue
			}
			if header != binding {
				t.Errorf("%s: %s %s is %s, in the binding %s", set, kind, name, header, binding)
			}
		}
		if n["function"] < 60 || n["number"]+n["offset"]+n["size"]+n["go"] < 45 {
			t.Errorf("%s: too little is compared: %v", set, n)
		}
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	fatal.If(t, err)
	return n
}

// TestNVMLFitsTheHeaders compares the header that go-nvml contains.
func TestNVMLFitsTheHeaders(t *testing.T) {
	wheels(t, sets[0])
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	fatal.If(t, err)
	want := output(t, "src/nvml.cc", "-I"+filepath.Join(strings.TrimSpace(string(folder)), "pkg/nvml"))
	if n := strings.Count(want, "\n"); n < 39 {
		t.Fatalf("%d lines", n)
	}
	for _, set := range sets {
		if got := output(t, "src/nvml.cc", include(t, set)...); got != want {
			t.Errorf("%s: NVML has\n%s, go-nvml\n%s", set, got, want)
		}
	}
}

// TestLibrariesExportTheFunctions reads the symbols of cuBLAS and NCCL. No package contains a driver.
func TestLibrariesExportTheFunctions(t *testing.T) {
	for _, set := range sets {
		symbols := map[string]bool{}
		for _, pattern := range []string{"*/lib/libcublas.so.1[23]", "*/lib/libnccl.so.2"} {
			out, err := exec.Command("nm", "-D", "--defined-only", found(t, set, pattern)).Output()
			fatal.If(t, err)
			for line := range strings.Lines(string(out)) {
				name, _, _ := strings.Cut(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:], "@")
				symbols[strings.TrimSpace(name)] = true
			}
		}
		n := 0
		for _, line := range bindings(t, set) {
			if name := line[1]; line[0] == "function" && !strings.HasPrefix(name, "cu") || strings.HasPrefix(name, "cublas") {
				if n++; !symbols[name] {
					t.Errorf("%s: no library exports %s", set, name)
				}
			}
		}
		if n < 26 {
			t.Errorf("%s: %d functions are examined", set, n)
		}
	}
}

// targets are the kinds of devices from compute capability 7.5.
var targets = []string{"sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121"}

// maxRegisters is the most registers that a thread of a kernel may take.
const maxRegisters = 72

var (
	entry     = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	spills    = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	registers = regexp.MustCompile(`Used (\d+) registers`)
)

// TestKernelsAssemble compiles the PTX with the assemblers of CUDA 12 and 13.
func TestKernelsAssemble(t *testing.T) {
	ptx := filepath.Join(t.TempDir(), "kernels.ptx")
	fatal.If(t, os.WriteFile(ptx, []byte(kernel.PTX), 0o600))
	kernels := strings.Count(kernel.PTX, ".visible .entry ")
	for _, set := range sets {
		for _, target := range targets {
			out, err := exec.Command(found(t, set, "*/bin/ptxas"), "-v", "-arch="+target, "-o", os.DevNull, ptx).CombinedOutput()
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", set, target, err, out)
				continue
			}
			most, name := map[string]int{}, ""
			for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
				line := s.Text()
				if m := entry.FindStringSubmatch(line); m != nil {
					name = m[1]
				}
				if m := spills.FindStringSubmatch(line); m != nil && (m[1] != "0" || m[2] != "0" || m[3] != "0") {
					t.Errorf("%s, %s: %s: %s", set, target, name, strings.TrimSpace(line))
				}
				if m := registers.FindStringSubmatch(line); m != nil {
					most[name] = number(t, m[1])
				}
			}
			if len(most) != kernels {
				t.Errorf("%s, %s: %d kernels of %d", set, target, len(most), kernels)
			}
			for _, name := range slices.Sorted(maps.Keys(most)) {
				if most[name] > maxRegisters {
					t.Errorf("%s, %s: %s takes %d registers, at most %d", set, target, name, most[name], maxRegisters)
				}
			}
		}
	}
}

// maxDoubles is the most instructions in double precision that an activation may take: a layer calls one for
// each output, and many devices compute in double precision 64 times slower.
const maxDoubles = 12

// double matches an instruction in double precision of a disassembled kernel.
var double = regexp.MustCompile(`\b(D(FMA|ADD|MUL|SETP|MNMX)|MUFU\.\w*64H|(F2F|F2I|I2F)\S*F64)\b`)

// TestActivationsTakeFewDoubles disassembles the kernels for compute capability 8.9.
func TestActivationsTakeFewDoubles(t *testing.T) {
	folder, set := t.TempDir(), sets[1]
	ptx, binary := filepath.Join(folder, "kernels.ptx"), filepath.Join(folder, "kernels.cubin")
	fatal.If(t, os.WriteFile(ptx, []byte(kernel.PTX), 0o600))
	out, err := exec.Command(found(t, set, "*/bin/ptxas"), "-arch=sm_89", "-o", binary, ptx).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, err := exec.Command(found(t, set, "*/bin/nvdisasm"), "-c", binary).Output()
	fatal.If(t, err)
	doubles, lines, name := map[string]int{}, map[string]int{}, ""
	for line := range strings.Lines(string(code)) {
		if _, after, ok := strings.Cut(line, ".section\t.text."); ok {
			name, _, _ = strings.Cut(after, ",")
		}
		lines[name]++
		if double.MatchString(line) {
			doubles[name]++
		}
	}
	if lines["bias_act"] < 100 || doubles["loss"] == 0 { // the loss is computed in double precision
		t.Fatalf("the output is not understood: %d lines of bias_act, instructions in double precision: %v", lines["bias_act"], doubles)
	}
	for _, k := range []string{"bias_act", "act_grad"} {
		if doubles[k] > maxDoubles {
			t.Errorf("%s has %d instructions in double precision, at most %d", k, doubles[k], maxDoubles)
		}
	}
}
