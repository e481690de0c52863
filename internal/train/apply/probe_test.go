package apply

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/traintest"
	"github.com/wdlrun/wdlrun/trace"
)

// TestNumbersOutsideTheRangeOfTraining: ages in months, while training had years, are counted
// and reported once, on any number of ranks, with and without groups. Data of the same
// distribution is not reported.
func TestNumbersOutsideTheRangeOfTraining(t *testing.T) {
	t.Parallel()
	path := traintest.Clicks(t, 600)
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	months := filepath.Join(t.TempDir(), "months.csv")
	inMonths := regexp.MustCompile(`(?m)\d+$`).ReplaceAllStringFunc(string(b), func(years string) string {
		n, _ := strconv.Atoi(years)
		return strconv.Itoa(12 * n)
	})
	fatal.If(t, os.WriteFile(months, []byte(inMonths), 0o644))
	values := int64(strings.Count(string(b), "\n") - strings.Count(string(b), ",\n") - 1)
	for _, size := range []int{1, 3} {
		var warned []string
		warn := func(line string) { warned = append(warned, line) }
		lines := func(what string) (n int) {
			for _, line := range warned {
				if strings.HasPrefix(line, fmt.Sprintf("age: %d of %[1]d values of %s are outside 18 … 77, the range of training: is it the same unit?", values, what)) {
					n++
				}
			}
			return n
		}
		c := traintest.ClicksConfig(t, path, "", "")
		c.Train.Epochs = 1
		res := trainedWarning(t, size, c, warn)
		if len(res.TestOutside)+len(res.ValidOutside) > 0 || slices.ContainsFunc(warned, func(s string) bool { return strings.Contains(s, "outside") }) {
			t.Errorf("%d ranks, years: %v %v %q", size, res.TestOutside, res.ValidOutside, warned)
		}
		c.Data.Test = []string{months}
		res = trainedWarning(t, size, c, warn)
		want := []report.Outside{{Field: "age", Values: values, Outside: values, Min: 18, Max: 77}}
		if !slices.Equal(res.TestOutside, want) || lines("the test data") != 1 {
			t.Errorf("%d ranks, months: %v, want %v, %q", size, res.TestOutside, want, warned)
		}
		for _, group := range []string{"", "site"} {
			warned = nil
			traintest.OnRanks(t, size, func(comm *collective.Comm) error {
				e, err := NewEvaluation(comm, trace.New(0), EvalOptions{Resume: res.RunDir, Data: []string{months}, Group: group, Report: group != "", Warn: warn}).Run(context.Background())
				if err == nil && e.Quality != nil {
					if d := e.Quality.DenseInputs; len(d) != 1 || d[0].Field != "age" || d[0].Values != values || *d[0].Outside != values || *d[0].Coverage != float64(values)/600 || *d[0].Max != 77 {
						t.Errorf("%d ranks: dense inputs %+v", size, d)
					}
				}
				if comm.Rank() == 0 && err == nil && (!slices.Equal(e.Outside, want) || lines("["+months+"]") != 1 || *e.AUC != *res.TestAUC) {
					t.Errorf("%d ranks, group %q: %v, %q, AUC %v after %v", size, group, e.Outside, warned, *e.AUC, *res.TestAUC)
				}
				return err
			})
		}
	}
}
