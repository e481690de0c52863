package export_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	records "github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/apply"
	"github.com/wdlrun/wdlrun/trace"
)

// runONNX reads {"dir", "inputs": {name: {type, dims, data}}} and prints the outputs.
const runONNX = `
const ort = require('onnxruntime-node');
const job = JSON.parse(require('fs').readFileSync(0));
(async () => {
  const s = await ort.InferenceSession.create(job.dir + '/model.onnx');
  const feeds = {};
  for (const [name, x] of Object.entries(job.inputs)) {
    const data = {
      int64: () => BigInt64Array.from(x.data, BigInt),
      string: () => x.data,
      double: () => ({type: 'float64', data: Float64Array.from(x.data, v => v === null ? NaN : v)}).data,
      float: () => Float32Array.from(x.data),
    }[x.type]();
    feeds[name] = new ort.Tensor({double: 'float64', float: 'float32'}[x.type] || x.type, data, x.dims);
  }
  const out = await s.run(feeds);
  console.log(JSON.stringify({logit: [...out.logit.data], score: [...out.score.data], dims: out.logit.dims}));
})().catch(e => { console.error(String(e)); process.exit(1); });
`

// onnxYAML, formatted with a file and a model, has a feature of every encoding, lists,
// weights and a cross.
const onnxYAML = `
data: {train: [%s], test: [%s], header: true}
label: {field: click, positive: ["1"]}
labels:
  - {field: watch, kind: number}
  - {field: count, kind: number, loss: poisson}
features:
  - {field: color, encode: vocabulary, min_count: 3}
  - {field: tags, encode: vocabulary, separator: "|", table: tags}
  - {field: seen, encode: id, separator: "|", weights: often, table: seen}
  - {field: user, encode: id}
  - {field: user, name: user_seen, encode: id, table: seen}
  - {field: word, encode: hash, buckets: 50, wide: false}
  - {field: size, encode: standardise}
  - {field: size, name: size_part, encode: quantile, buckets: 4}
  - {field: price, encode: log}
  - {field: price, name: price_part, encode: boundaries, boundaries: [1, 2.5, 10]}
  - {field: ratio, encode: raw}
  - {field: emb, encode: vector, size: 3, separator: "|", standardise: true}
  - {field: raws, encode: vector, size: 2, separator: "|"}
  - {field: day, encode: weekday}
  - {field: day, name: days, encode: age}
crosses:
  - {of: [color, user]}
tables:
  - {name: tags, pooling: mean}
  - {name: seen, pooling: sqrtn}
model: {%s, embedding_dim: 3, hidden: [8, 4]}
train: {epochs: 2, batch: 64}
`

// clicks returns rows of text for onnxYAML: some values are missing, some lists are long.
func clicks(n int) (rows [][]string) {
	for i := range n {
		row := []string{fmt.Sprint(i % 3 % 2), fmt.Sprint(i % 11), fmt.Sprint(i % 4), fmt.Sprintf("c%d", i*i%13),
			strings.Join([]string{"a", "b", "c", "d"}[i%4:], "|"), "5|-7|12", "1|0.5|2", fmt.Sprint(i%40 - 5), fmt.Sprintf("w%d", i%70),
			fmt.Sprint(float64(i%17) / 3), fmt.Sprint(i % 19), fmt.Sprint(float64(i%7) / 7), fmt.Sprintf("2026-11-%02d", i%28+1),
			fmt.Sprintf("%v|%v|7", float64(i%5)/3, i%13-6), fmt.Sprintf("%v|%v", float64(i%3)/3, i%2)}
		if i%2 == 0 {
			row[5], row[6] = "99", "3"
		}
		if i%4 == 1 {
			row[13] = fmt.Sprintf("%v||7", float64(i%5)/3)
		}
		if i%9 == 0 {
			row[3] = "5"
		} else if i == 40 || i == 41 {
			row[3] = "5.0" // rarer than min_count: it has the key of "5"
		}
		for j := 3; j < len(row); j++ {
			if (i+j)%23 == 0 && j != 6 {
				row[j] = ""
				if j == 5 {
					row[6] = ""
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

var clickFields = []string{"click", "watch", "count", "color", "tags", "seen", "often", "user", "word", "size", "price", "ratio", "day", "emb", "raws"}

// tensor is an input of runONNX.
type tensor struct {
	Type string `json:"type"`
	Dims []int  `json:"dims"`
	Data []any  `json:"data"`
}

// onnxModels are the models that tests write as ONNX.
var onnxModels = map[string]string{
	"wide_deep": "kind: wide_deep, batch_norm: true", "deepfm": "kind: deepfm, activation: tanh",
	"dcn":      "kind: dcn_v2, wide: true, cross: {layers: 2}",
	"parallel": "kind: dcn_v2, wide: true, cross: {layers: 2, rank: 3, structure: parallel}",
	"xdeepfm":  "kind: xdeepfm, cin: [4, 3]",
	"masknet":  "kind: masknet, mask: {blocks: 2, width: 6}",
}

// TestONNXComputesTheScores: onnxruntime computes the logits and scores of every kind of
// model from raw fields.
func TestONNXComputesTheScores(t *testing.T) {
	if exec.Command("node", "-e", "require('onnxruntime-node')").Run() != nil {
		t.Skip("node finds no onnxruntime-node: npm install --ignore-scripts onnxruntime-node, and NODE_PATH names its node_modules")
	}
	for name, model := range onnxModels {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := writeONNX(t, model)
			scorer, err := m.model.NewScorer()
			fatal.If(t, err)
			n := 0
			evaluate(t, m.run, func(b *encode.Batch, _ []float32) error {
				want, err := scorer.Score(b)
				if err != nil {
					return err
				}
				n += b.Rows
				compareONNX(t, m.dir, feeds(t, &m, b), want, b.Rows)
				return nil
			})
			if n != len(m.rows) {
				t.Errorf("%d rows of %d", n, len(m.rows))
			}
		})
	}
	t.Run("rare events", func(t *testing.T) { scoresOfRareEvents(t, computeONNX) })
}

// runOpenVINO is runONNX for inputs of float.
const runOpenVINO = `
import json, sys
import numpy, openvino
job = json.load(sys.stdin)
feeds = {k: numpy.array([float(v) for v in x["data"]], "f4").reshape(x["dims"]) for k, x in job["inputs"].items()}
got = openvino.Core().compile_model(job["dir"] + "/model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(feeds)
print(json.dumps({"logit": got["logit"].ravel().tolist(), "score": got["score"].ravel().tolist(), "dims": got["logit"].shape}))
`

// TestOpenVINOComputesRareEvents as onnxruntime does.
func TestOpenVINOComputesRareEvents(t *testing.T) {
	if exec.Command("python3", "-c", "import numpy, openvino").Run() != nil {
		t.Skip("python3 finds no openvino: pip install numpy openvino")
	}
	scoresOfRareEvents(t, func(t *testing.T, dir string, inputs map[string]tensor) onnxOutput {
		return compute(t, dir, inputs, "python3", "-c", runOpenVINO)
	})
}

// scoresOfRareEvents: scores have seven correct digits, however rare the event. A score that
// float32 cannot represent is 0 or 1.
func scoresOfRareEvents(t *testing.T, compute func(*testing.T, string, map[string]tensor) onnxOutput) {
	x := tensor{Type: "float"}
	for i := -3000; i <= 3000; i++ {
		x.Data = append(x.Data, float32(i)/100)
	}
	n := len(x.Data)
	x.Data = append(x.Data, float32(-1000), float32(-150), float32(150), float32(1000))
	x.Dims = []int{len(x.Data), 1}
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "model.onnx"), export.WideModel(t), 0o644))
	got := compute(t, dir, map[string]tensor{"x": x})
	if len(got.Score) != len(x.Data) {
		t.Fatalf("%d scores of %d rows", len(got.Score), len(x.Data))
	}
	for i := range n {
		logit := float64(x.Data[i].(float32))
		if want := 1 / (1 + math.Exp(-logit)); got.Logit[i] != logit || !(math.Abs(got.Score[i]-want) <= 3e-7*want) {
			t.Fatalf("logit %v: score %v of logit %v, want %v", logit, got.Score[i], got.Logit[i], want)
		}
	}
	if !slices.Equal(got.Score[n:], []float64{0, 0, 1, 1}) {
		t.Errorf("logits %v have scores %v, want 0, 0, 1 and 1", x.Data[n:], got.Score[n:])
	}
}

// TestONNXPassesTheChecker of the reference implementation, shapes and types included.
func TestONNXPassesTheChecker(t *testing.T) {
	patient.Long(t)
	python := ""
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if python == "" && exec.Command(p, "-c", "import onnx").Run() == nil {
			python = p
		}
	}
	if python == "" {
		t.Skip("no python3 with onnx (Debian: python3-onnx)")
	}
	args := []string{"-c", "import onnx, sys\nfor dir in sys.argv[1:]: print(dir, flush=True); onnx.checker.check_model(dir + '/model.onnx', full_check=True)"}
	for _, model := range onnxModels {
		args = append(args, writeONNX(t, model).dir)
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if n := strings.Count(string(out), "\n"); err != nil || n != len(onnxModels) {
		t.Errorf("%v after %d of %d models: %s", err, n, len(onnxModels), out)
	}
}

// TestONNXInputs: inputs are raw fields, or keys where ONNX cannot compute them.
func TestONNXInputs(t *testing.T) {
	m := writeONNX(t, onnxModels["deepfm"])
	var got []string
	for _, in := range m.inputs {
		line := in.Name + " " + in.Type
		if in.List {
			line += " list"
		}
		if in.Size > 0 {
			line += fmt.Sprint(" ", in.Size)
		}
		if in.Key != "" {
			line += " key of " + in.Key
		}
		got = append(got, line)
	}
	want := []string{
		"color string", "tags string list", "seen int64 list", "often float list", "user int64", "word:key int64 key of word",
		"size double", "price double", "day:key int64 key of day", "color_x_user:key int64 key of color_x_user", "ratio double", "emb double 3", "raws double 2", "days:value float key of days",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	text, err := os.ReadFile(filepath.Join(m.dir, "inputs.json"))
	var read []export.OnnxInput
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil || !slices.Equal(read, m.inputs) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestONNXCheck: check.json has the records of the training data with the logits that the model has, and check.py
// finds them in onnxruntime, and with numbers of rows as inputs in OpenVINO too.
func TestONNXCheck(t *testing.T) {
	runtimes := []string{"onnxruntime", "openvino"}
	for _, name := range runtimes {
		if exec.Command("python3", "-c", "import numpy, "+name).Run() != nil {
			runtimes = slices.DeleteFunc(slices.Clone(runtimes), func(x string) bool { return x == name })
		}
	}
	equal := func(t *testing.T, m *onnxWritten, runtimes []string) {
		checkIsTrue(t, m)
		for _, name := range runtimes {
			if out, code := checkWith(t, m.dir, name); code != 0 || !strings.Contains(out, ": 0 of 32 records differ") {
				t.Errorf("exit code %d: %s", code, out)
			}
		}
	}
	warn := func(line string) { t.Error(line) }
	for name, model := range onnxModels {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := writeONNXFor(t, model, export.OnnxOptions{Rows: true, Warn: warn})
			equal(t, &m, runtimes)
		})
	}
	t.Run("values", func(t *testing.T) {
		m := writeONNXFor(t, onnxModels["wide_deep"], export.OnnxOptions{Warn: warn})
		equal(t, &m, slices.DeleteFunc(slices.Clone(runtimes), func(x string) bool { return x == "openvino" })) // it has no LabelEncoder
		path := filepath.Join(m.dir, "check.json")
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		wrong := regexp.MustCompile(`("logit": \[\s*\[\s*)[^,\s]+`).ReplaceAll(text, []byte("${1}9"))
		fatal.If(t, os.WriteFile(path, wrong, 0o644))
		for _, name := range runtimes {
			if out, code := checkWith(t, m.dir, name); code != 1 || !strings.Contains(out, ": 1 of 32 records differ") && name != "openvino" {
				t.Errorf("a wrong logit: exit code %d: %s", code, out)
			}
		}
	})
	t.Run("runtimes", func(t *testing.T) {
		if len(runtimes) < 2 {
			t.Skip("python3 finds not both: pip install numpy onnxruntime openvino")
		}
	})
}

// checkWith runs check.py.
func checkWith(t *testing.T, dir, runtime string) (string, int) {
	t.Helper()
	cmd := exec.Command("python3", filepath.Join(dir, "check.py"), runtime)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// checkIsTrue compares check.json with the logits of the model.
func checkIsTrue(t *testing.T, m *onnxWritten) {
	t.Helper()
	var x struct{ Logit, Score [][]float64 }
	text, err := os.ReadFile(filepath.Join(m.dir, "check.json"))
	fatal.If(t, err)
	fatal.If(t, json.Unmarshal(text, &x))
	scorer, err := m.model.NewScorer()
	fatal.If(t, err)
	if m.checked != 32 || len(x.Logit) != 32 || len(x.Score) != 32 {
		t.Fatalf("%d records, %d in the file", m.checked, len(x.Logit))
	}
	train := filepath.Join(filepath.Dir(m.dir), "clicks.csv")
	o := apply.EvalOptions{Resume: m.run, Data: []string{train}, Warn: func(string) {}}
	o.Each = func(b *encode.Batch, _ []float32) error {
		want, err := scorer.Score(b)
		for i, id := range b.RowID {
			for label := range 3 {
				if id < 32 && float32(x.Logit[id][label]) != want[label*b.Rows+i] {
					t.Errorf("record %d, label %d: logit %v, want %v", id, label, x.Logit[id][label], want[label*b.Rows+i])
				}
			}
		}
		return err
	}
	_, err = apply.NewEvaluation(collective.New(mem.New(1, 2)[0]), trace.New(0), o).Run(t.Context())
	fatal.If(t, err)
}

// onnxWritten is a model written as ONNX, with its training rows.
type onnxWritten struct {
	dir, run string
	checked  int
	inputs   []export.OnnxInput
	model    *export.Model
	rows     [][]string
	keys     map[string][]string // output of predict -keys, by input
}

// predictKeys computes the inputs that ONNX cannot compute from fields.
func predictKeys(t *testing.T, run, file string) map[string][]string {
	t.Helper()
	var out memory
	o := apply.PredictOptions{Eval: apply.EvalOptions{Resume: run, Data: []string{file}}, Keys: true, Text: true}
	o.Open = func(columns []records.Column) (_ apply.PredictOutput, err error) {
		out.Writer, err = records.New(&out.text, records.Layout{Format: "csv"}, columns)
		return &out, err
	}
	if _, err := apply.NewPrediction(collective.New(mem.New(1, 2)[0]), trace.New(0), o).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out.text).ReadAll()
	fatal.If(t, err)
	keys := map[string][]string{}
	for _, row := range rows[1:] {
		for i, name := range rows[0] {
			keys[name] = append(keys[name], row[i])
		}
	}
	return keys
}

// memory is an output of predictions.
type memory struct {
	records.Writer
	text bytes.Buffer
}

func (m *memory) Finish() error { return m.Close() }
func (m *memory) Abandon()      {}

func writeONNX(t *testing.T, model string) (m onnxWritten) {
	t.Helper()
	return writeONNXFor(t, model, export.OnnxOptions{Warn: func(line string) { t.Error(line) }})
}

func writeONNXFor(t *testing.T, model string, opt export.OnnxOptions) (m onnxWritten) {
	t.Helper()
	dir := t.TempDir()
	m.rows, m.dir = clicks(600), filepath.Join(dir, "onnx")
	file, test := filepath.Join(dir, "clicks.csv"), filepath.Join(dir, "test.csv") // an evaluation of a training's own file warns
	for _, path := range []string{file, test} {
		var b strings.Builder
		b.WriteString(strings.Join(clickFields, ",") + "\n")
		for i, row := range m.rows {
			if size := slices.Index(clickFields, "size"); path == test && i%50 < 2 { // outside the range of training
				row[size], row[size+4] = []string{"11820", "-11820"}[i%50], []string{"-9|40|1e9", "70|-40|-1"}[i%50]
			}
			b.WriteString(strings.Join(row, ",") + "\n")
		}
		fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
		for i := 3; i < len(m.rows); i += 10 { // the test data has ids that training has not seen
			m.rows[i][5], m.rows[i][7] = strings.Replace(m.rows[i][5], "12", "77", 1), fmt.Sprint(1000+i)
		}
	}
	c, err := config.Parse("onnx.yaml", []byte(fmt.Sprintf(onnxYAML, file, test, model)))
	fatal.If(t, err)
	r, err := train.NewJob(collective.New(mem.New(1, 2)[0]), trace.New(0), train.Options{Config: c, Out: dir}).Run(context.Background())
	fatal.If(t, err)
	trained, err := train.OpenTrained(context.Background(), r.RunDir, func(line string) { t.Error(line) })
	fatal.If(t, err)
	w, err := export.WriteONNX(context.Background(), source(trained), m.dir, opt)
	fatal.If(t, err)
	m.checked = w.Checked
	m.run, m.inputs, m.model = r.RunDir, w.Inputs, write(t, trained, "")
	m.keys = predictKeys(t, m.run, test)
	return m
}

// feeds returns the inputs of a batch, from the text of its rows and the keys that predict
// prints.
func feeds(t *testing.T, m *onnxWritten, b *encode.Batch) map[string]tensor {
	all := map[string]tensor{}
	for _, in := range m.inputs {
		x := tensor{Type: in.Type, Dims: []int{b.Rows}}
		var lists [][]any
		most := 1
		for i := range b.Rows {
			list := valuesOf(t, in, m, b.RowID[i])
			lists, most = append(lists, list), max(most, len(list))
		}
		if in.Size > 0 {
			most = int(in.Size)
			x.Dims = append(x.Dims, most)
		} else if in.List {
			x.Dims = append(x.Dims, most)
		} else {
			most = 1
		}
		for _, list := range lists {
			x.Data = append(x.Data, list...)
			for range most - len(list) {
				x.Data = append(x.Data, missing(in))
			}
		}
		all[in.Name] = x
	}
	return all
}

func missing(in export.OnnxInput) any {
	if in.Type == "double" {
		return nil
	}
	return in.Missing
}

// valuesOf returns the values of a row for an input.
func valuesOf(t *testing.T, in export.OnnxInput, m *onnxWritten, id uint64) (list []any) {
	if in.Key != "" {
		for _, text := range strings.Split(m.keys[in.Name][id], "|") {
			list = append(list, text)
		}
		return list
	}
	row := m.rows[id]
	for f, name := range clickFields {
		if name != in.Name {
			continue
		}
		pieces := []string{row[f]}
		if in.List || in.Size > 0 {
			pieces = strings.Split(row[f], "|")
		}
		for _, piece := range pieces {
			var number float64
			switch {
			case piece == "":
				list = append(list, missing(in))
				continue
			case in.Type == "string" || in.Type == "int64":
				list = append(list, piece)
				continue
			}
			if _, err := fmt.Sscan(piece, &number); err != nil {
				t.Fatal(err)
			}
			list = append(list, number)
		}
	}
	return list
}

// onnxOutput is the output of runONNX.
type onnxOutput struct {
	Logit, Score []float64
	Dims         []int
}

// computeONNX runs the model of a folder in onnxruntime.
func computeONNX(t *testing.T, dir string, inputs map[string]tensor) onnxOutput {
	t.Helper()
	return compute(t, dir, inputs, "node", "-e", runONNX)
}

// compute runs a model with a program that reads it and the inputs.
func compute(t *testing.T, dir string, inputs map[string]tensor, program ...string) (got onnxOutput) {
	t.Helper()
	job, err := json.Marshal(map[string]any{"dir": dir, "inputs": inputs})
	fatal.If(t, err)
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdin = bytes.NewReader(job)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return got
}

func compareONNX(t *testing.T, dir string, inputs map[string]tensor, want []float32, rows int) {
	t.Helper()
	got := computeONNX(t, dir, inputs)
	if len(got.Dims) != 2 || got.Dims[0] != rows || got.Dims[1] != 3 || len(got.Score) != 3*rows {
		t.Fatalf("logits are %v", got.Dims)
	}
	scores := []func(float64) float64{func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, func(x float64) float64 { return x }, math.Exp}
	for i := range rows {
		for label := range 3 {
			x, logit := float64(want[label*rows+i]), got.Logit[3*i+label]
			if d := math.Abs(logit - x); !(d <= 1e-6*max(1, math.Abs(x))) {
				t.Fatalf("row %d, label %d: logit %v, the model has %v", i, label, logit, x)
			}
			if s := scores[label](x); !(math.Abs(got.Score[3*i+label]-s) <= 1e-6*max(1, math.Abs(s))) {
				t.Fatalf("row %d, label %d: score %v, the model has %v", i, label, got.Score[3*i+label], s)
			}
		}
	}
}

// TestONNXLists: features without a separator have inputs of lists if their field has lists, and so have crosses of
// them and features with weights.
func TestONNXLists(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for i := range 600 {
		tags, w := fmt.Sprintf(`"t%d"`, i%7), "1"
		if i > 50 { // after those of check.json
			tags, w = fmt.Sprintf(`["t%d","t%d"]`, i%7, i%5), "[1,0.5]"
		}
		fmt.Fprintf(&b, `{"click":%d,"tags":%s,"w":%s,"user":"u%d"}`+"\n", i%3%2, tags, w, i%9)
	}
	file := filepath.Join(dir, "a.jsonl")
	fatal.If(t, os.WriteFile(file, []byte(b.String()), 0o644))
	c, err := config.Parse("lists.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], format: jsonl}
label: {field: click}
features:
  - {field: tags, encode: vocabulary}
  - {field: tags, name: weighted, encode: vocabulary, weights: w}
  - {field: tags, name: hashed, encode: hash}
  - {field: user, encode: vocabulary}
crosses: [{of: [tags, user]}]
model: {embedding_dim: 3, hidden: [4]}
train: {epochs: 1, batch: 64}
`, file)))
	fatal.If(t, err)
	r, err := train.NewJob(collective.New(mem.New(1, 2)[0]), trace.New(0), train.Options{Config: c, Out: dir}).Run(t.Context())
	fatal.If(t, err)
	trained, err := train.OpenTrained(t.Context(), r.RunDir, func(line string) { t.Error(line) })
	fatal.If(t, err)
	if keys := predictKeys(t, r.RunDir, file)["hashed:key"]; len(keys) != 600 || strings.Count(keys[0], "|") != 0 || strings.Count(keys[599], "|") != 1 {
		t.Errorf("keys of the first and the last record: %q, %q", keys[0], keys[599])
	}
	for _, rows := range []bool{false, true} {
		out := filepath.Join(dir, fmt.Sprint("onnx-", rows))
		w, err := export.WriteONNX(t.Context(), source(trained), out, export.OnnxOptions{Rows: rows})
		fatal.If(t, err)
		var lists, others []string
		for _, in := range w.Inputs {
			if in.List {
				lists = append(lists, in.Name)
			} else {
				others = append(others, in.Name)
			}
		}
		want := "[tags w hashed:key tags_x_user:key] [user]"
		if rows {
			want = "[tags:row weighted:row w hashed:row tags_x_user:row] [user:row]"
		}
		if got := fmt.Sprint(lists, others); got != want {
			t.Errorf("lists and others: %s\nwant %s", got, want)
		}
		if exec.Command("python3", "-c", "import numpy, onnxruntime").Run() != nil {
			continue
		}
		if said, code := checkWith(t, out, "onnxruntime"); code != 0 || !strings.Contains(said, ": 0 of 32 records differ") {
			t.Errorf("exit code %d: %s", code, said)
		}
	}
}
