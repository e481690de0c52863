package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// job runs wdlrun -np ranks ./embedding with the given flags and returns the RMSE on test
// ratings by epoch, and the bytes on the wire.
func job(t *testing.T, dir string, ranks int, flags ...string) (rmse []float64, wire int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patient.Longest)
	defer cancel()
	args := append([]string{"-np", fmt.Sprint(ranks), filepath.Join(dir, "embedding")}, flags...)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "wdlrun"), args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("wdlrun %v: %v\n%s%s", args, err, out, &stderr)
	}
	for _, m := range regexp.MustCompile(`([0-9.]+) on test ratings`).FindAllSubmatch(out, -1) {
		x, _ := strconv.ParseFloat(string(m[1]), 64)
		rmse = append(rmse, x)
	}
	if m := regexp.MustCompile(`(\d+) bytes on the wire`).FindSubmatch(out); m != nil {
		wire, _ = strconv.ParseInt(string(m[1]), 10, 64)
	} else {
		t.Fatalf("no report in\n%s", out)
	}
	return rmse, wire
}

// TestRanksLearnWhatIsPlanted: the best model leaves the noise, .4; guessing the
// mean leaves 1.2.
func TestRanksLearnWhatIsPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs two programs")
	}
	dir := t.TempDir()
	for name, pkg := range map[string]string{"embedding": ".", "wdlrun": "../../cmd/wdlrun"} {
		if out, err := exec.Command("go", "run", "-exec=cp", pkg, filepath.Join(dir, name)).CombinedOutput(); err != nil { // does not link again what it has linked before
			t.Fatalf("go run: %v\n%s", err, out)
		}
	}
	one, none := job(t, dir, 1)
	two, wire := job(t, dir, 2)
	if none != 0 || wire == 0 {
		t.Errorf("%d bytes on the wire of one rank, %d of two", none, wire)
	}
	if n := len(two); n != 10 || two[n-1] > 0.62 || two[n-1] < noise {
		t.Errorf("RMSE by epoch %v", two)
	}
	for i := range two {
		if i > 0 && two[i] > two[i-1] {
			t.Errorf("RMSE rises in epoch %d: %v", i+1, two)
		}
		if math.Abs(two[i]-one[i]) > 2e-3 {
			t.Errorf("epoch %d: RMSE %v on two ranks, %v on one", i+1, two[i], one[i])
		}
	}
}

func TestReadCSV(t *testing.T) {
	got, err := readCSV(strings.NewReader("userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n18446744073709551615,7,5\n"))
	if err != nil || len(got) != 2 || got[0] != (rating{1, 31, 2.5}) || got[1] != (rating{math.MaxUint64, 7, 5}) {
		t.Fatalf("%v, %v", got, err)
	}
	for in, want := range map[string]string{
		"1,2":            "line 1: \"1,2\" is not userId,movieId,rating",
		"1,2,3\nx,2,3":   "line 2: ",
		"1,-2,3":         "line 1: ",
		"1,2,NaN":        "a rating of NaN",
		"1,2,1000000000": "a rating of 1e+09",
	} {
		if _, err := readCSV(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}
