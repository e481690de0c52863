package tests

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// python finds an interpreter that can import modules; without one the test is skipped.
func python(t *testing.T, modules string) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if path, err := exec.LookPath(name); err == nil && exec.Command(path, "-c", "import "+modules).Run() == nil {
			return path
		}
	}
	t.Skipf("there is no Python with %s", modules)
	return ""
}

// recipe is the code block of a document that holds a text.
func recipe(t *testing.T, document, holds string) string {
	t.Helper()
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		if strings.Contains(m[1], holds) {
			return m[1]
		}
	}
	t.Fatalf("%s has no recipe with %q", document, holds)
	return ""
}

// inPython runs code in dir and returns what it prints.
func inPython(t *testing.T, python, dir, code string) string {
	t.Helper()
	cmd := exec.Command(python, "-c", code)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, code, out)
	}
	return string(out)
}

// TestPythonReadsPredictions runs the recipe of docs/serving.md.
func TestPythonReadsPredictions(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "numpy")
	dir, model := clickLog(t, 500)
	code := recipe(t, "../docs/serving.md", "scores.csv")
	must(t, dir, "predict -resume "+model+" -data clicks.csv -columns city -out scores.csv")
	code = strings.ReplaceAll(code, `"user"`, `"city"`) + "print(rows.dtype.names, len(rows), rows[\"city\"][16])"
	if out := inPython(t, interpreter, dir, code); !strings.HasSuffix(strings.TrimSpace(out), "('city', 'score') 500 c16") || !strings.HasPrefix(out, "0.") {
		t.Error(out)
	}
}

// TestPythonReadsArrays runs the recipes of docs/serving.md for exported tables.
func TestPythonReadsArrays(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "numpy")
	dir, model := clickLog(t, 500)
	must(t, dir, "export -resume "+model+" -format npy -out arrays")
	must(t, dir, "export -resume "+model+" -format safetensors -out ctr.safetensors")
	npy := recipe(t, "../docs/serving.md", "table.city.keys.npy") + "assert (row == rows[3]).all()\n"
	st := recipe(t, "../docs/serving.md", "ctr.safetensors")
	same := `
k, r = keys, rows
keys, rows = np.load("arrays/table.city.keys.npy"), np.load("arrays/table.city.rows.npy")
assert (k == keys).all() and (r == rows).all() and len(keys) == 17
`
	if out := inPython(t, interpreter, dir, npy); !strings.Contains(out, "(17, ") {
		t.Error(out)
	}
	if out := inPython(t, interpreter, dir, st+same); !strings.HasPrefix(out, "17 (17, ") {
		t.Error(out)
	}
}
