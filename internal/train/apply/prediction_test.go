package apply

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// memoryOutput is an output in memory.
type memoryOutput struct {
	bytes.Buffer
	write.Writer
	format              string // "": csv
	rows, most          int    // Write fails after most rows, if most is not 0
	finished, abandoned bool
}

var errFull = errors.New("no space left")

func (w *memoryOutput) Write(lists []value.List) error {
	if w.rows++; w.most > 0 && w.rows > w.most {
		return errFull
	}
	return w.Writer.Write(lists)
}

func (w *memoryOutput) Finish() error { w.finished = true; return w.Writer.Close() }
func (w *memoryOutput) Abandon()      { w.abandoned = true }

// predict runs a prediction on some ranks.
func predict(t *testing.T, size int, o PredictOptions, out *memoryOutput) (res PredictResult, err error) {
	t.Helper()
	var failed error
	format := cmp.Or(out.format, "csv")
	o.Text = format == "csv"
	o.Open = func(columns []write.Column) (PredictOutput, error) {
		var err error
		out.Writer, err = write.New(&out.Buffer, write.Layout{Format: format}, columns)
		return out, err
	}
	if err := CheckPredict(context.Background(), o); err != nil {
		return res, err
	}
	run := func(comm *collective.Comm) error {
		r, err := NewPrediction(comm, trace.New(0), o).Run(context.Background())
		if comm.Rank() == 0 {
			res, failed = r, err
		}
		return err
	}
	if out.most > 0 { // which is an error on every rank
		_ = mem.Run(size, 2, run)
		return res, failed
	}
	traintest.OnRanks(t, size, run)
	return res, failed
}

// predictAll is predict on 1, 2 and 3 ranks, whose outputs must be the same.
func predictAll(t *testing.T, o PredictOptions) (rows [][]string, res PredictResult) {
	t.Helper()
	var want string
	for size := 1; size <= 3; size++ {
		var out memoryOutput
		r, err := predict(t, size, o, &out)
		if err != nil || !out.finished || out.abandoned {
			t.Fatalf("%d ranks: %v, finished: %t, abandoned: %t", size, err, out.finished, out.abandoned)
		}
		if size == 1 {
			want, res = out.String(), r
		} else if out.String() != want {
			t.Errorf("the output of %d ranks differs from the output of one", size)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(want)).ReadAll()
	fatal.If(t, err)
	if int64(len(rows)-1) != res.Rows || !slices.Equal(rows[0], res.Columns) {
		t.Errorf("%d rows of %q; reported are %d of %q", len(rows)-1, rows[0], res.Rows, res.Columns)
	}
	return rows, res
}

// floats returns the numbers of a column.
func floats(t *testing.T, rows [][]string, column string) (x []float32) {
	t.Helper()
	i := slices.Index(rows[0], column)
	for _, r := range rows[1:] {
		y, err := strconv.ParseFloat(r[i], 32)
		fatal.If(t, err)
		x = append(x, float32(y))
	}
	return x
}

// counted returns the metrics of predictions.
func counted(t *testing.T, tally interface {
	Add(logit, label, weight []float32)
	Reduce(*collective.Comm) (metrics.Metrics, error)
}, logit, label, weight []float32) metrics.Metrics {
	t.Helper()
	tally.Add(logit, label, weight)
	m, err := tally.Reduce(collective.New(mem.New(1, 2)[0]))
	fatal.If(t, err)
	return m
}

// trained trains a model on some ranks.
func trained(t *testing.T, size int, c *config.Config) (res report.Result) {
	t.Helper()
	return trainedWarning(t, size, c, nil)
}

// trainedWarning is trained with a receiver of warnings.
func trainedWarning(t *testing.T, size int, c *config.Config, warn func(line string)) (res report.Result) {
	t.Helper()
	opt := train.Options{Config: c, Out: t.TempDir(), Warn: warn}
	traintest.OnRanks(t, size, func(comm *collective.Comm) error {
		r, err := train.NewJob(comm, trace.New(100), opt).Run(t.Context())
		if comm.Rank() == 0 {
			res = r
		}
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	return res
}

// evaluation returns the result of an evaluation.
func evaluation(t *testing.T, o EvalOptions) (res EvalResult) {
	t.Helper()
	traintest.OnRanks(t, 2, func(comm *collective.Comm) (err error) {
		r, err := NewEvaluation(comm, trace.New(0), o).Run(context.Background())
		if comm.Rank() == 0 {
			res = r
		}
		return err
	})
	return res
}

// TestPredictionsAreThoseOfEval: the written logits have the metrics of an evaluation, bit
// for bit. Without labels in the file, the scores are the same.
func TestPredictionsAreThoseOfEval(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 2500)
	r := trained(t, 2, traintest.ClicksConfig(t, path, "", ""))
	want := evaluation(t, EvalOptions{Resume: r.RunDir, Data: []string{path}})
	eval := EvalOptions{Resume: r.RunDir, Data: []string{path}}
	rows, res := predictAll(t, PredictOptions{Eval: eval, Label: true, Logit: true, Columns: []string{"tags", "age"}})
	if !reflect.DeepEqual(res.Model, want.Model) || res.Rows != 2500 || res.Bad != 0 {
		t.Errorf("%+v, evaluated %+v", res, want)
	}
	logit, label, score := floats(t, rows, "logit"), floats(t, rows, "label"), floats(t, rows, "score")
	if got := counted(t, metrics.NewTally(), logit, label, nil); !reflect.DeepEqual(got, want.Metrics) {
		t.Errorf("metrics of the output %+v, of eval %+v", got, want.Metrics)
	}
	input, err := os.ReadFile(path)
	fatal.If(t, err)
	lines := strings.Split(strings.TrimSpace(string(input)), "\n")
	bare := []string{"site,tags,age"}
	for i, r := range rows[1:] {
		fields := strings.Split(lines[i+1], ",")
		if r[0] != fields[2] || r[1] != fields[3] || r[2] != fields[0] || score[i] != float32(metrics.Probability(float64(logit[i]))) {
			t.Fatalf("line %d is %q, the record %q", i+1, r, fields)
		}
		bare = append(bare, strings.Join(fields[1:], ","))
	}
	file := filepath.Join(t.TempDir(), "bare.csv")
	fatal.If(t, os.WriteFile(file, []byte(strings.Join(bare, "\n")+"\n"), 0o644))
	eval.Data = []string{file}
	for _, set := range [][]string{nil, {"data.header=false", "data.fields=[site, tags, age]"}} {
		if eval.Set = set; set != nil { // the same records without a header
			fatal.If(t, os.WriteFile(file, []byte(strings.Join(bare[1:], "\n")+"\n"), 0o644))
		}
		rows, _ = predictAll(t, PredictOptions{Eval: eval})
		if !slices.Equal(rows[0], []string{"score"}) || !slices.Equal(floats(t, rows, "score"), score) {
			t.Errorf("scores of records without labels differ, with %q", set)
		}
	}
	if err := CheckPredict(t.Context(), PredictOptions{Eval: eval, Label: true}); err == nil || !strings.Contains(err.Error(), "label.field") {
		t.Errorf("labels that the fields lack: %v", err)
	}
}

// TestPredictKeys: keys match the formula in docs/serving.md, on any number of ranks.
func TestPredictKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "r.csv")
	text := "y,word,tags,day,size,rate\n"
	for i := range 100 {
		rate := map[int]string{0: "-inf", 1: "nan"}[i]
		text += fmt.Sprintf("%d,w%d,%s,2026-11-%02d,%d,%s\n", i%2, i%9, strings.Repeat("a|", i%3)+"b", i%28+1, i%31, cmp.Or(rate, fmt.Sprint(float64(i)+.5)))
	}
	fatal.If(t, os.WriteFile(file, []byte(text), 0o644))
	c, err := config.Parse("keys.yaml", []byte(`
data: {train: [`+file+`], header: true}
label: {field: y}
features:
  - {field: word, encode: hash, buckets: 50}
  - {field: tags, encode: hash, separator: "|"}
  - {field: day, encode: weekday}
  - {field: day, name: days, encode: age}
  - {field: size, encode: standardise}
crosses: [{of: [word, day]}]
model: {embedding_dim: 2, hidden: [4]}
train: {epochs: 1, batch: 20}
`))
	fatal.If(t, err)
	r := trained(t, 1, c)
	o := PredictOptions{Eval: EvalOptions{Resume: r.RunDir, Data: []string{file}}, Columns: []string{"day"}, Keys: true}
	rows, _ := predictAll(t, o)
	if want := []string{"day", "word:key", "tags:key", "day:key", "word_x_day:key", "days:value", "score"}; !slices.Equal(rows[0], want) {
		t.Fatalf("columns %q, want %q", rows[0], want)
	}
	const seed = 0x7764_6C72_756E_0001
	key := func(text string) uint64 { return xxh3.HashStringSeed(text, seed) }
	signed := func(key uint64) string { return strconv.FormatInt(int64(key), 10) }
	for i, row := range rows[1:] {
		word, day := key(fmt.Sprintf("w%d", i%9))%50, uint64(i+6)%7 // the first is a Sunday
		if i%28 != i {
			day = uint64(i%28+6) % 7
		}
		both := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, word), day)
		want := []string{fmt.Sprintf("2026-11-%02d", i%28+1), signed(word), strings.Repeat(signed(key("a"))+"|", i%3) + signed(key("b")), signed(day), signed(key(string(both)))}
		if !slices.Equal(row[:5], want) {
			t.Fatalf("row %d is %q, want %q", i, row, want)
		}
	}
	o.Columns, o.Eval.Set = []string{"size"}, []string{`data.missing=["0"]`} // of fields, not of keys
	out := memoryOutput{format: "jsonl"}
	_, err = predict(t, 1, o, &out)
	if first, _ := out.ReadString('\n'); err != nil || strings.Contains(first, `"size":0`) {
		t.Errorf("the first line is %q, %v; its size is missing", first, err)
	}
	if second, _ := out.ReadString('\n'); !strings.Contains(second, `"size":1,`) || !strings.Contains(second, `"day:key":0,`) {
		t.Errorf("the second line is %q, want the size 1 and a Monday, whose key is 0", second)
	}
	o.Columns, o.Eval.Set = []string{"word", "size"}, []string{`data.missing=["w0", "0"]`}
	out = memoryOutput{format: "jsonl"}
	_, err = predict(t, 1, o, &out)
	if first, _ := out.ReadString('\n'); err != nil || !strings.HasPrefix(first, `{"word":"w0","size":null,`) {
		t.Errorf("the first line is %q, %v; want the string that means missing, and no size", first, err)
	}
	checkInfinities(t, o)
	days := floats(t, rows, "days:value")
	if days[0] <= days[1] || days[0] != days[28] {
		t.Errorf("days %v", days[:29])
	}
}

// checkInfinities predicts with the field rate, of which -inf is the first value and nan the second.
func checkInfinities(t *testing.T, o PredictOptions) {
	t.Helper()
	o.Columns, o.Eval.Set = []string{"rate"}, []string{`data.missing=["-inf", "nan"]`} // an infinity is a number
	out := memoryOutput{format: "jsonl"}
	_, err := predict(t, 1, o, &out)
	for _, want := range []string{`{"rate":"-inf",`, `{"rate":null,`, `{"rate":2.5,`} {
		if line, _ := out.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Errorf("a line is %q, %v; want %s", line, err, want)
		}
	}
}

// TestShortKeys: a column with one key needs all of its bytes.
func TestShortKeys(t *testing.T) {
	for n := range 11 {
		k := keyColumn{kind: value.Int}
		b := append([]byte{1, 0, 0, 0}, make([]byte, 8)...)[:n]
		if _, err := k.takeKeys(new(value.List), b, true); err == nil {
			t.Errorf("%d bytes are accepted", n)
		}
	}
}

// TestPredictSeveralLabels: each label has its columns, which agree with an evaluation,
// and neither labels nor weights need exist.
func TestPredictSeveralLabels(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	c := traintest.LabelsConfig(t, "label: {field: click, weight: w}\nlabels: [{field: watch, kind: number, loss_weight: 0.1}, {field: visits, kind: number, loss: poisson, loss_weight: 0.5}]")
	c.Train.Epochs = 1
	r := trained(t, 1, c)
	eval := EvalOptions{Resume: r.RunDir, Data: c.Data.Test}
	want := evaluation(t, eval)
	rows, _ := predictAll(t, PredictOptions{Eval: eval, Label: true, Logit: true, Columns: []string{"w"}})
	columns := []string{"w", "label_click", "score_click", "logit_click", "label_watch", "prediction_watch", "logit_watch", "label_visits", "prediction_visits", "logit_visits"}
	if !slices.Equal(rows[0], columns) {
		t.Fatalf("columns %q", rows[0])
	}
	weight := floats(t, rows, "w")
	got := counted(t, metrics.NewTally(), floats(t, rows, "logit_click"), floats(t, rows, "label_click"), weight)
	for _, name := range []string{"watch", "visits"} {
		m := counted(t, metrics.NewNumbers(name == "visits"), floats(t, rows, "logit_"+name), floats(t, rows, "label_"+name), weight)
		got.Labels = append(got.Labels, metrics.Labelled{Label: name, Metrics: m})
	}
	if !reflect.DeepEqual(got, want.Metrics) {
		t.Errorf("metrics of the output %+v\nof eval %+v", got, want.Metrics)
	}
	var bare strings.Builder
	bare.WriteString("age,site\n")
	for i := range 1500 {
		fmt.Fprintf(&bare, "%.3f,s%d\n", float64(i%100)/100, i%12)
	}
	file := filepath.Join(t.TempDir(), "bare.csv")
	fatal.If(t, os.WriteFile(file, []byte(bare.String()), 0o644))
	eval.Data = []string{file}
	rows, _ = predictAll(t, PredictOptions{Eval: eval, Logit: true})
	if !slices.Equal(rows[0], []string{"score_click", "logit_click", "prediction_watch", "logit_watch", "prediction_visits", "logit_visits"}) {
		t.Errorf("columns %q", rows[0])
	}
	for i, r := range rows[1:] {
		if r[2] != r[3] || r[4] == r[5] {
			t.Fatalf("row %d: %q", i, r)
		}
	}
}

// TestPredictMissingLabels: a further label that a record does not have is missing in the output.
func TestPredictMissingLabels(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("y,z,n,x\n")
	for i := range 200 {
		fmt.Fprintf(&b, "%d,%s,%s,%d\n", i%2, []string{"", "0", "1"}[i%3], []string{"1.5", ""}[i%4/3], i%7)
	}
	file := filepath.Join(t.TempDir(), "labels.csv")
	fatal.If(t, os.WriteFile(file, []byte(b.String()), 0o644))
	c, err := config.Parse("labels.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], header: true}
label: {field: y}
labels: [{field: z}, {field: n, kind: number}]
features: [{field: x, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 64, epochs: 1}
`, file)))
	fatal.If(t, err)
	rows, _ := predictAll(t, PredictOptions{Eval: EvalOptions{Resume: trained(t, 1, c).RunDir, Data: []string{file}}, Label: true})
	z, n := slices.Index(rows[0], "label_z"), slices.Index(rows[0], "label_n")
	for i, r := range rows[1:] {
		if want := []string{"", "0", "1"}[i%3]; r[z] != want || (r[n] == "") != (i%4 == 3) {
			t.Fatalf("row %d: %q", i, r)
		}
	}
}

// TestPredictBadRecords: a record that cannot be used gets a line without a prediction and
// does not change the other predictions.
func TestPredictBadRecords(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	path := traintest.Clicks(t, 400)
	r := trained(t, 1, traintest.ClicksConfig(t, path, "", ""))
	eval := EvalOptions{Resume: r.RunDir, Data: []string{path}}
	rows, _ := predictAll(t, PredictOptions{Eval: eval, Columns: []string{"site"}})
	input, err := os.ReadFile(path)
	fatal.If(t, err)
	lines := strings.Split(strings.TrimSpace(string(input)), "\n")
	lines, want := slices.Insert(lines, 1, "1,first,t1,old"), slices.Insert(rows, 1, []string{"first", ""})
	lines, want = slices.Insert(lines, 200, "1,short"), slices.Insert(want, 200, []string{"", ""})
	lines, want = append(lines, "1,last,t1,young"), append(want, []string{"last", ""})
	file := filepath.Join(t.TempDir(), "bad.csv")
	fatal.If(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	eval.Data, eval.Set = []string{file}, []string{"data.max_bad=3"}
	got, res := predictAll(t, PredictOptions{Eval: eval, Columns: []string{"site"}})
	if !reflect.DeepEqual(got, want) || res.Bad != 3 || res.Rows != 403 {
		t.Errorf("%d rows, %d of them bad; first %q, last %q", res.Rows, res.Bad, got[:3], got[len(got)-2:])
	}
	short, _ := predictAll(t, PredictOptions{Eval: eval})
	for i := range short {
		if short[i][0] != want[i][1] {
			t.Fatalf("row %d without copied fields: %q, want %q", i, short[i], want[i])
		}
	}
}

// TestPredictFaults: faults are reported before any rank starts, and an output that cannot be
// written is abandoned.
func TestPredictFaults(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 3000)
	r := trained(t, 1, traintest.ClicksConfig(t, path, "", ""))
	eval := EvalOptions{Resume: r.RunDir, Data: []string{path}}
	for want, o := range map[string]PredictOptions{
		`there is no field "user"`:                   {Eval: eval, Columns: []string{"user"}},
		`two columns of the output are named "site"`: {Eval: eval, Columns: []string{"site", "site"}},
		"-data FILE":    {Eval: EvalOptions{Resume: r.RunDir}},
		"-resume DIR":   {Eval: EvalOptions{Data: []string{path}}},
		"predict: -set": {Eval: EvalOptions{Resume: r.RunDir, Data: []string{path}, Set: []string{"train.epochs=3"}}},
	} {
		if err := CheckPredict(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q", err, want)
		}
	}
	for _, size := range []int{1, 2} {
		for _, most := range []int{1, 2000, 2999} {
			out := memoryOutput{most: most}
			if _, err := predict(t, size, PredictOptions{Eval: eval}, &out); err == nil || !strings.Contains(err.Error(), errFull.Error()) || out.finished || !out.abandoned {
				t.Errorf("%d ranks, %d rows fit: %v, finished: %t, abandoned: %t", size, most, err, out.finished, out.abandoned)
			}
		}
	}
}

// TestPredictNothing: the output for a file with only a header has no rows.
func TestPredictNothing(t *testing.T) {
	t.Parallel()
	r := trained(t, 1, traintest.ClicksConfig(t, traintest.Clicks(t, 300), "", ""))
	file := filepath.Join(t.TempDir(), "none.csv")
	fatal.If(t, os.WriteFile(file, []byte("site,tags,age\n"), 0o644))
	rows, res := predictAll(t, PredictOptions{Eval: EvalOptions{Resume: r.RunDir, Data: []string{file}}, Columns: []string{"site"}})
	if len(rows) != 1 || !slices.Equal(rows[0], []string{"site", "score"}) || res.Rows != 0 {
		t.Errorf("%q, %+v", rows, res)
	}
}

// TestPredictNumber: for a label that is a number the column is the number, for a count the
// rate. Both match an evaluation.
func TestPredictNumber(t *testing.T) {
	t.Parallel()
	for _, label := range []string{"{field: watch, kind: number}", "{field: visits, kind: number, loss: poisson}"} {
		c := traintest.LabelsConfig(t, "label: "+label)
		c.Train.Epochs = 1
		poisson := strings.Contains(label, "poisson")
		r := trained(t, 2, c)
		eval := EvalOptions{Resume: r.RunDir, Data: c.Data.Test}
		rows, _ := predictAll(t, PredictOptions{Eval: eval, Label: true, Logit: true})
		if !slices.Equal(rows[0], []string{"label", "prediction", "logit"}) {
			t.Fatalf("columns %q", rows[0])
		}
		logit, prediction := floats(t, rows, "logit"), floats(t, rows, "prediction")
		for i, z := range logit {
			want := z
			if poisson {
				want = float32(math.Exp(float64(z)))
			}
			if prediction[i] != want {
				t.Fatalf("%s: row %d: prediction %v of the logit %v", label, i, prediction[i], z)
			}
		}
		got, want := counted(t, metrics.NewNumbers(poisson), logit, floats(t, rows, "label"), nil), evaluation(t, eval).Metrics
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: metrics of the output %+v, of eval %+v", label, got, want)
		}
	}
}
