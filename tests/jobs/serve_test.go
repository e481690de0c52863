package jobs

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// bytesCodec passes messages as bytes, so that the client needs no generated code.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(b mem.BufferSlice, v any) error {
	*v.(*[]byte) = b.Materialize()
	return nil
}

func (bytesCodec) Name() string { return "proto" }

// wireField appends a field of type bytes.
func wireField[T string | []byte](dst []byte, number protowire.Number, b T) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	return append(protowire.AppendVarint(dst, uint64(len(b))), b...)
}

// stringTensors returns a PredictRequest with a DT_STRING tensor for each column.
func stringTensors(model string, names []string, rows [][]string) []byte {
	request := wireField(nil, 1, wireField(nil, 1, model))
	for k, name := range names {
		dim := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(len(rows)))
		tensor := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
		tensor = wireField(tensor, 2, wireField(nil, 2, dim))
		for _, r := range rows {
			tensor = wireField(tensor, 8, r[k])
		}
		request = wireField(request, 2, wireField(wireField(nil, 1, name), 2, tensor))
	}
	return wireField(request, 3, "logit")
}

// logitsOf reads the only output of a PredictResponse.
func logitsOf(t *testing.T, b []byte) (x []float32) {
	t.Helper()
	for _, number := range []protowire.Number{1, 2, 5} { // outputs, value, float_val
		var inner []byte
		for len(b) > 0 {
			n, kind, size := protowire.ConsumeTag(b)
			rest := protowire.ConsumeFieldValue(n, kind, b[size:])
			if rest < 0 {
				t.Fatalf("the message is no PredictResponse")
			}
			if n == number {
				inner, _ = protowire.ConsumeBytes(b[size:])
			}
			b = b[size+rest:]
		}
		b = inner
	}
	for ; len(b) >= 4; b = b[4:] {
		x = append(x, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return x
}

// freePort returns a port on which no process listens at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// server is a running `wdlrun serve`.
type server struct {
	grpc, rest string
	stop       func() outcome
	process    int
}

// startServer serves the models of dir and waits until the server answers.
func startServer(t *testing.T, dir string, flags ...string) server {
	t.Helper()
	return startServerAt(t, dir, freePort(t), freePort(t), flags...)
}

// startServerAt starts a server that listens on the given ports.
func startServerAt(t *testing.T, dir string, g, r int, flags ...string) server {
	t.Helper()
	cmd := command(t, dir, append([]string{"serve", "-port", strconv.Itoa(g), "-rest-port", strconv.Itoa(r)}, flags...)...)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	fatal.If(t, err)
	lines, text, done := bufio.NewScanner(out), "", make(chan struct{})
	for lines.Scan() {
		if text += lines.Text() + "\n"; strings.Contains(text, "REST on") {
			break
		}
	}
	go func() {
		defer close(done)
		for lines.Scan() {
			text += lines.Text() + "\n"
		}
	}()
	stop := func() outcome {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-done
		_ = cmd.Wait()
		return outcome{text, fmt.Sprint(cmd.Stderr), cmd.ProcessState.ExitCode()}
	}
	if !strings.Contains(text, "REST on") {
		t.Fatalf("serve does not start: %+v", stop())
	}
	return server{fmt.Sprintf("127.0.0.1:%d", g), fmt.Sprintf("http://127.0.0.1:%d", r), stop, cmd.Process.Pid}
}

// scoredRecords are records with the logit of each.
type scoredRecords struct {
	names  []string
	rows   [][]string
	labels []string
	logits []float32
}

// readScored reads the output of predict: the fields, followed by label, score and logit.
func readScored(t *testing.T, file string) (x scoredRecords) {
	t.Helper()
	f, err := os.Open(file)
	fatal.If(t, err)
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	fatal.If(t, err)
	n := len(all[0]) - 3
	x.names = all[0][:n]
	for _, r := range all[1:] {
		z, err := strconv.ParseFloat(r[n+2], 32)
		fatal.If(t, err)
		x.rows, x.labels, x.logits = append(x.rows, r[:n]), append(x.labels, r[n]), append(x.logits, float32(z))
	}
	return x
}

// TestServedLogitsAreThoseOfEval: train, eval, predict, export, serve and the clients of gRPC
// and REST compute the same bits, in requests of any size.
func TestServedLogitsAreThoseOfEval(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a model")
	}
	t.Parallel()
	dir := t.TempDir()
	model := train(t, dir, 2, "-set", "train.epochs=1").RunDir
	const fields = "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,capital_gain,capital_loss,hours_per_week,native_country"
	must(t, dir, "predict -resume "+model+" -data builtin:adult.test -label -logit -columns "+fields+" -out want.csv")
	want := readScored(t, filepath.Join(dir, "want.csv"))
	must(t, dir, "export -resume "+model+" -out models -name ctr")
	s := startServer(t, dir, "-model", "ctr=models/ctr")

	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal.If(t, err)
	var got []float32
	for lo, n := 0, 1; lo < len(want.rows); lo, n = lo+n, n*3%601+1 {
		request, answer := stringTensors("ctr", want.names, want.rows[lo:min(lo+n, len(want.rows))]), []byte(nil)
		fatal.If(t, conn.Invoke(context.Background(), "/tensorflow.serving.PredictionService/Predict", &request, &answer, grpc.ForceCodecV2(bytesCodec{})))
		got = append(got, logitsOf(t, answer)...)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	sameLogits(t, "gRPC", got, want.logits)
	sameLogits(t, "REST", restLogits(t, s.rest, want, 100), want.logits[:100])
	if o := s.stop(); o.code != 0 || !strings.Contains(o.stdout, "is unloaded") {
		t.Errorf("serve after SIGTERM: %+v", o)
	}

	var eval struct {
		LogLoss float64 `json:"logloss"`
	}
	text := must(t, dir, "eval -resume "+model+" --json").stdout
	fatal.If(t, json.Unmarshal([]byte(text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:]), &eval))
	if loss := logLossOf(got, want.labels); math.Abs(loss-eval.LogLoss) > 1e-12 {
		t.Errorf("log-loss of the served logits: %v, of eval: %v", loss, eval.LogLoss)
	}
}

func sameLogits(t *testing.T, who string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d logits, want %d", who, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: row %d: logit %v, want %v as from predict and eval", who, i, got[i], want[i])
		}
	}
}

// restLogits requests the logits of the first n rows by REST.
func restLogits(t *testing.T, url string, x scoredRecords, n int) (logits []float32) {
	t.Helper()
	var request struct {
		Instances []map[string]any `json:"instances"`
	}
	for _, r := range x.rows[:n] {
		row := map[string]any{}
		for k, name := range x.names {
			if row[name] = r[k]; regexp.MustCompile(`^\d+$`).MatchString(r[k]) {
				row[name] = json.Number(r[k])
			}
		}
		request.Instances = append(request.Instances, row)
	}
	body, err := json.Marshal(request)
	fatal.If(t, err)
	a, err := http.Post(url+"/v1/models/ctr:predict", "application/json", strings.NewReader(string(body)))
	fatal.If(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	fatal.If(t, err)
	var answer struct{ Predictions []struct{ Logit float32 } }
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Predictions) != n {
		t.Fatalf("%v: %.300s", err, text)
	}
	for _, p := range answer.Predictions {
		logits = append(logits, p.Logit)
	}
	return logits
}

// logLossOf returns the mean log-loss of logits.
func logLossOf(logits []float32, labels []string) (loss float64) {
	for i, x := range logits {
		z := float64(x)
		if labels[i] == "1" || strings.HasPrefix(labels[i], ">") {
			z = -z
		}
		loss += (max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))) / float64(len(logits))
	}
	return loss
}

// TestServerOfTheDocument runs the first commands for the server in docs/serving.md.
func TestServerOfTheDocument(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	text, err := os.ReadFile("../../docs/serving.md")
	fatal.If(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Server\n")
	lines := regexp.MustCompile(`(?m)^    (\S.*)$`).FindAllStringSubmatch(section, 5)
	if len(lines) != 5 || !strings.HasPrefix(lines[0][1], "CGO_ENABLED=0 go build -o wdlrun ") || !strings.HasPrefix(lines[4][1], "curl -d '") {
		t.Fatalf("%q", lines)
	}
	dir := t.TempDir()
	must(t, dir, strings.TrimPrefix(lines[1][1], "./wdlrun ")+" -set train.epochs=1")
	found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
	if len(found) != 1 {
		t.Fatalf("runs %v", found)
	}
	must(t, dir, regexp.MustCompile(`runs/\S+`).ReplaceAllLiteralString(strings.TrimPrefix(lines[2][1], "./wdlrun "), found[0]))
	s := startServer(t, dir, strings.Fields(strings.TrimPrefix(lines[3][1], "./wdlrun serve "))...)
	defer s.stop()
	body := strings.Split(lines[4][1], "'")[1]
	a, err := http.Post(s.rest+"/v1/models/ctr:predict", "", strings.NewReader(body))
	fatal.If(t, err)
	defer a.Body.Close()
	answer, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 || !strings.Contains(string(answer), `{"predictions": [{"score": 0.`) {
		t.Errorf("%d %s %v", a.StatusCode, answer, err)
	}
}

// TestServeFlags: invalid flags are rejected before the server starts.
func TestServeFlags(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("models.config", "model_config_list { config { nam: 'ctr' } }")
	write("none.config", "# nothing")
	for _, sub := range []string{"run/checkpoints", "models/ctr/640"} {
		fatal.If(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	write("models/ctr/640/MANIFEST.json", "{}")
	write("ssl.config", `server_key: "x" server_cert: "y"`)
	for flags, want := range map[string]string{
		"":                                         "no model: give -model NAME=DIR",
		"-model ctr":                               `-model "ctr" is not NAME=DIR`,
		"-model ctr=" + dir + " more":              `takes no arguments, but got "more"; models are given as -model`,
		"-model a=x -model a=y":                    "model a is given twice",
		"-model ctr=" + dir:                        "; with -wait, serve starts",
		"-model ctr=nowhere":                       "no such file or directory",
		"-model ctr=run":                           "this is a run directory; export its model first: wdlrun export -resume run -out models -name ctr",
		"-model ctr=models":                        "this folder holds models; give the folder of one model: models/ctr",
		"-model ctr=models/ctr/640":                "this folder is one version; give the folder that holds it: models/ctr",
		"-model_config_file models.config":         "-model_config_file models.config: ",
		"-model_config_file none.config":           "it names no model",
		"-model ctr=x -model_config_file f":        "leave -model out",
		"-model ctr=x -invalid drop":               "there are missing and reject",
		"-model ctr=x -use_alts_credentials":       "-ssl_config_file",
		"-model ctr=x -admin 0.0.0.0:0":            "open to other machines: give -admin-token-file",
		"-model ctr=x -admin-token-file f":         "needs -admin ADDRESS",
		"-model ctr=x -port 0 -rest-port 0":        "would listen nowhere",
		"-model ctr=x -threads -1":                 "it must be above 0",
		"-model ctr=x -precision int8":             `-precision "int8" is not known; there are fp32 and bf16`,
		"-model ctr=x -ssl_config_file none":       "-ssl_config_file none",
		"-model ctr=x -ssl_config_file ssl.config": "server_key and server_cert: ",
	} {
		port := fmt.Sprint(freePort(t))
		args := append([]string{"serve"}, strings.Fields(flags)...)
		if !strings.Contains(flags, "-port") {
			args = append([]string{"serve", "-port", port, "-rest-port", "0"}, strings.Fields(flags)...)
		}
		if o := run(t, dir, args...); o.code != 1 || !strings.Contains(o.stderr, want) {
			t.Errorf("serve %s: exit code %d\n%s\nwant %s", flags, o.code, o.stderr, want)
		}
	}
}

// statusOf returns the status of model ctr as text with single spaces.
func statusOf(t *testing.T, s server) string {
	t.Helper()
	a, err := http.Get(s.rest + "/v1/models/ctr")
	fatal.If(t, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	fatal.If(t, err)
	return strings.Join(strings.Fields(string(b)), " ")
}

// TestServeSwitchesVersions: a version exported while the server runs is soon served. A damaged
// version is rejected, and the previous one is still served.
func TestServeSwitchesVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a model")
	}
	t.Parallel()
	dir := t.TempDir()
	model := train(t, dir, 1, "-set", "train.epochs=1").RunDir
	export := "export -resume " + model + " -out models -name ctr -version "
	must(t, dir, export+"1")
	s := startServer(t, dir, "-model_name", "ctr", "-model_base_path", "models/ctr", "-file_system_poll_wait_seconds", "0.05", "-enable_batching")
	status := func() string { return statusOf(t, s) }
	must(t, dir, export+"2")
	eventually(t, "version 2", func() bool {
		text := status()
		return strings.Contains(text, `"version": "2", "state": "AVAILABLE"`) && strings.Contains(text, `"version": "1", "state": "END"`)
	})
	must(t, dir, "export -resume "+model+" -out other -name ctr -version 3")
	bad := filepath.Join(dir, "other", "ctr", "3", "table-0000.bin")
	b, err := os.ReadFile(bad)
	fatal.If(t, err)
	b[0] ^= 1
	fatal.If(t, os.WriteFile(bad, b, 0o644))
	fatal.If(t, os.Rename(filepath.Join(dir, "other", "ctr", "3"), filepath.Join(dir, "models", "ctr", "3")))
	eventually(t, "the fault of version 3", func() bool {
		return strings.Contains(status(), `"version": "3", "state": "END", "status": { "error_code": "DATA_LOSS"`)
	})
	if text := status(); !strings.Contains(text, "table-0000.bin") || !strings.Contains(text, `"version": "2", "state": "AVAILABLE"`) {
		t.Error(text)
	}
	time.Sleep(100 * time.Millisecond)
	o := s.stop()
	if o.code != 0 || strings.Count(o.stderr, "version 3: ") != 1 || !strings.Contains(o.stderr, "-enable_batching has no effect") {
		t.Errorf("serve with a damaged version: %+v", o)
	}
}
