package jobs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// BenchmarkRuns measures wdlrun runs in a folder of 10,000 runs. It reports the wall time and
// the CPU time of the process in milliseconds:
//
//	go test ./tests/jobs -run - -bench BenchmarkRuns -benchtime 5x
//
// The runs are copies of two trainings, each with its own configuration and metrics.
func BenchmarkRuns(b *testing.B) {
	dir := tenThousand(b)
	timed := func(name string, prepare func(), args ...string) {
		b.Run(name, func(b *testing.B) {
			medians(b, func() map[string]float64 {
				prepare()
				cmd := command(b, dir, append([]string{"runs"}, args...)...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				began := time.Now()
				if err := cmd.Run(); err != nil || out.Len() < 100 {
					b.Fatalf("%v\n%s", err, out.Bytes())
				}
				return map[string]float64{"ms": ms(time.Since(began)), "cpu-ms": ms(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())}
			})
		})
	}
	none := func() {}
	timed("no-index", func() { os.Remove(filepath.Join(dir, "runs", runs.FileIndex)) })
	timed("index", none)
	timed("where", none, "-where", "auc>.92 model.kind=dcn_v2")
	timed("sort", none, "-sort", "auc")
	timed("json", none, "-json")
	timed("csv", none, "-csv")
	b.Run("web", func(b *testing.B) {
		medians(b, func() map[string]float64 { return map[string]float64{"ms": ms(firstList(b, dir))} })
	})
}

// firstList returns the time from the start of runs -web to its first response with the runs.
func firstList(b *testing.B, dir string) time.Duration {
	cmd := command(b, dir, "runs", "-web", "127.0.0.1:0")
	cmd.Stderr = nil
	errs, err := cmd.StderrPipe()
	fatal.If(b, err)
	began := time.Now()
	fatal.If(b, cmd.Start())
	line, err := bufio.NewReader(errs).ReadString('\n')
	fatal.If(b, err)
	answer, err := http.Get(strings.TrimSpace(strings.TrimPrefix(line, "page: ")) + "list?most=100")
	fatal.If(b, err)
	list, err := io.ReadAll(answer.Body)
	took := time.Since(began)
	answer.Body.Close()
	if err != nil || !bytes.Contains(list, []byte(`"found":10000`)) {
		b.Fatalf("%v\n%.300s", err, list)
	}
	cmd.Process.Kill()
	cmd.Wait()
	return took
}

// tenThousand creates 10,000 run directories in the folder runs of a folder, which it returns.
func tenThousand(b *testing.B) string {
	dir := b.TempDir()
	var models []string
	for _, kind := range []string{"wide_deep", "dcn_v2"} {
		if o := run(b, dir, "train", "-set", "train.epochs=10", "-set", "model.kind="+kind, "-out", kind); o.code != 0 {
			b.Fatal(o.stderr)
		}
		made, err := filepath.Glob(filepath.Join(dir, kind, "*"))
		if err != nil || len(made) != 1 {
			b.Fatal(made, err)
		}
		models = append(models, made[0])
	}
	random, past := rand.New(rand.NewPCG(1, 2)), time.Now().Add(-time.Hour)
	for i := range 10_000 {
		to := filepath.Join(dir, "runs", past.Add(time.Duration(i-10_000)*time.Minute).Format("20060102-150405"))
		fatal.If(b, os.MkdirAll(to, 0o755))
		for _, name := range []string{"config.yaml", "metrics.jsonl", "result.json", "run.json"} {
			text, err := os.ReadFile(filepath.Join(models[i%2], name))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name), varied(text, random), 0o644)
			}
			if err == nil {
				err = os.Chtimes(filepath.Join(to, name), past, past)
			}
			fatal.If(b, err)
		}
		fatal.If(b, os.Chtimes(to, past, past))
	}
	return dir
}

var variable = regexp.MustCompile(`(\n  dropout: |\n  seed: |learning_rate: |"auc": ?0\.9|"logloss": ?0\.2)[0-9.]*`)

// varied replaces settings and metrics with random ones.
func varied(text []byte, random *rand.Rand) []byte {
	return variable.ReplaceAllFunc(text, func(found []byte) []byte {
		name := variable.FindSubmatch(found)[1]
		number := fmt.Appendf(nil, "%d", random.IntN(100_000))
		switch {
		case bytes.HasSuffix(name, []byte("rate: ")), bytes.HasSuffix(name, []byte("dropout: ")):
			number = fmt.Appendf(nil, "0.%d", 1+random.IntN(1000))
		}
		return append(bytes.Clone(name), number...)
	})
}
