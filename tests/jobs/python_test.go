package jobs

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/arrays"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// python finds an interpreter that can import modules; without one the test is skipped.
func python(t *testing.T, modules string) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if path, err := exec.LookPath(name); err == nil && exec.Command(path, "-c", "import "+modules).Run() == nil {
			return path
		}
	}
	t.Skipf("no Python interpreter can import %s", modules)
	return ""
}

// recipe returns the first code block of a document that contains a string.
func recipe(t *testing.T, document, holds string) string {
	t.Helper()
	b, err := os.ReadFile(document)
	fatal.If(t, err)
	for _, m := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		if strings.Contains(m[1], holds) {
			return m[1]
		}
	}
	t.Fatalf("%s has no recipe with %q", document, holds)
	return ""
}

// inPython runs code in dir and returns its output.
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
	patient.Long(t)
	t.Parallel()
	interpreter := python(t, "numpy")
	dir, model := clickLog(t, 500)
	code := recipe(t, "../../docs/serving.md", "scores.csv")
	must(t, dir, "predict -resume "+model+" -data clicks.csv -columns city -out scores.csv")
	code = strings.ReplaceAll(code, `"user"`, `"city"`) + "print(rows.dtype.names, len(rows), rows[\"city\"][16])"
	if out := inPython(t, interpreter, dir, code); !strings.HasSuffix(strings.TrimSpace(out), "('city', 'score') 500 c16") || !strings.HasPrefix(out, "0.") {
		t.Error(out)
	}
}

// TestPythonReadsArrays runs the recipes of docs/serving.md for exported tables.
func TestPythonReadsArrays(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	interpreter := python(t, "numpy")
	dir, model := clickLog(t, 500)
	must(t, dir, "export -resume "+model+" -format npy -out arrays")
	must(t, dir, "export -resume "+model+" -format safetensors -out ctr.safetensors")
	npy := recipe(t, "../../docs/serving.md", "table.city.keys.npy") + "assert (row == rows[3]).all()\n"
	st := recipe(t, "../../docs/serving.md", "ctr.safetensors")
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

// TestTensorFlowClient runs the client of TensorFlow Serving: every method and signature, serialised and
// sparse inputs, JSON, empty batches and faults. The scores equal the output of predict, to the bit.
func TestTensorFlowClient(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	interpreter := python(t, "tensorflow_serving.apis.predict_pb2, tensorflow")
	dir, model := clickLog(t, 500)
	must(t, dir, "export -resume "+model+" -out models -name ctr")
	s := startServer(t, dir, "-model", "ctr=models/ctr")
	defer s.stop()
	write(t, dir, "ask.csv", "city,age\nc1,38\nc2,25\n")
	rows, err := csv.NewReader(strings.NewReader(must(t, dir, "predict -model models/ctr -data ask.csv -logit -out -").stdout)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatal(err, rows)
	}
	want := fmt.Sprintf(`{"cities": ["c1", "c2"], "ages": [38, 25], "scores": [%s, %s], "logits": [%s, %s]}`, rows[1][0], rows[2][0], rows[1][1], rows[2][1])
	script, err := filepath.Abs("tensorflow_client.py")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(interpreter, script, s.grpc, s.rest, "ctr")
	c.Stdin = strings.NewReader(want)
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ok ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPythonAsksTheServer runs the recipes of docs/serving.md that send requests and compares
// the scores with the output of predict.
func TestPythonAsksTheServer(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	interpreter := python(t, "grpc")
	dir, model := clickLog(t, 500)
	must(t, dir, "export -resume "+model+" -out models -name ctr")
	s := startServer(t, dir, "-model", "ctr=models/ctr")
	defer s.stop()
	write(t, dir, "ask.csv", "city,age\nc1,38\nc2,25\n")
	rows, err := csv.NewReader(strings.NewReader(must(t, dir, "predict -model models/ctr -data ask.csv -logit -out -").stdout)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatal(err, rows)
	}
	same := fmt.Sprintf(`
want = np.array([[%s, %s], [%s, %s]], np.float32)
`, rows[1][0], rows[1][1], rows[2][0], rows[2][1])
	ports := strings.NewReplacer("localhost:8500", s.grpc, "http://localhost:8501", s.rest)
	for document, check := range map[string]string{
		"urllib":        "got = [[r[\"score\"], r[\"logit\"]] for r in answer[\"predictions\"]]",
		"grpc.insecure": "got = np.array([answer[\"score\"], answer[\"logit\"]]).T",
	} {
		code := ports.Replace(recipe(t, "../../docs/serving.md", document))
		code = "import numpy as np\nanswer = None\ndef keep(x):\n    global answer\n    answer = x\n" + strings.Replace(code, "print(", "keep(", 1) +
			same + check + "\nassert (np.array(got, np.float32) == want).all(), (got, want)\n"
		inPython(t, interpreter, dir, code)
	}
}

// TestTensorFlowCheckpoint: checkpoints that TensorFlow writes now, of objects and of a graph with a
// partitioned variable, have its numbers.
func TestTensorFlowCheckpoint(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	interpreter := python(t, "tensorflow, safetensors.numpy")
	dir, source := t.TempDir(), filepath.Join("..", "..", "internal", "data", "arrays", "testdata")
	for _, name := range []string{"make_tensorflow.py", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join(source, name))
		fatal.If(t, err)
		write(t, dir, name, string(b))
	}
	c := exec.Command(interpreter, "make_tensorflow.py")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, folder := range []string{"tensorflow", "partitioned"} {
		now, err := arrays.Open(filepath.Join(dir, folder))
		fatal.If(t, err)
		defer now.Close()
		recorded, err := arrays.Open(filepath.Join(source, folder))
		fatal.If(t, err)
		defer recorded.Close()
		if len(now.Arrays) != len(recorded.Arrays) || len(now.Arrays) < 4 {
			t.Errorf("%s: %d arrays, recorded are %d", folder, len(now.Arrays), len(recorded.Arrays))
		}
		for _, a := range now.Arrays {
			b := recorded.Find(a.Name)
			if b == nil || !slices.Equal(a.Shape, b.Shape) {
				t.Fatalf("%s: %s %v: %+v", folder, a.Name, a.Shape, b)
			}
			x, y := make([]float32, a.Rows()*a.Width()), make([]float32, a.Rows()*a.Width())
			fatal.If(t, errors.Join(a.Read(x, 0), b.Read(y, 0)))
			if !slices.Equal(x, y) {
				t.Errorf("%s: %s is %v, recorded is %v", folder, a.Name, x, y)
			}
		}
	}
}
