// Package traintest contains data, configurations and groups for tests of trainings and of trained
// models.
package traintest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// Clicks writes a small click log with every kind of column: a category, a list of tags, a
// number with missing values, and a label that depends on all three.
func Clicks(t testing.TB, rows int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("click,site,tags,age\n")
	rng := rand.New(rand.NewPCG(7, 8))
	for range rows {
		site, age, z := rng.IntN(40), rng.IntN(60)+18, -1.0
		tags := make([]string, rng.IntN(4))
		for i := range tags {
			tag := rng.IntN(12)
			tags[i] = fmt.Sprint("t", tag)
			z += float64(float64(tag%3-1) * 0.5)
		}
		z += float64(float64(site%5-2)*0.6) + math.Abs(float64(age)-45)/20
		click, years := 0, fmt.Sprint(age)
		if rng.Float64() < 1/(1+math.Exp(-z)) {
			click = 1
		}
		if rng.IntN(20) == 0 {
			years = ""
		}
		fmt.Fprintf(&b, "%d,site%d,%s,%s\n", click, site, strings.Join(tags, "|"), years)
	}
	path := filepath.Join(t.TempDir(), "clicks.csv")
	fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// ClicksConfig returns a configuration for Clicks; train is appended to its train section.
func ClicksConfig(t testing.TB, path, model, train string) *config.Config {
	t.Helper()
	c, err := config.Parse("clicks.yaml", []byte(fmt.Sprintf(`
data: {train: [%[1]q], test: [%[1]q], header: true, valid_fraction: 0.2}
label: {field: click}
features:
  - {field: site, encode: hash}
  - {field: tags, encode: hash, separator: "|"}
  - {field: age, encode: quantile, buckets: 8}
  - {field: age, encode: standardise}
crosses:
  - {of: [site, age], buckets: 500}
model: {embedding_dim: 4, hidden: [16, 8]%s}
train: {global_batch: 64, epochs: 3, checkpoint: {every_steps: 20, keep: 100}%s}
`, path, model, train)))
	fatal.If(t, err)
	return c
}

// LabelsConfig writes data with several labels and a weight, and returns a configuration for
// it; label is added to the configuration.
func LabelsConfig(t testing.TB, label string) *config.Config {
	t.Helper()
	rng, dir := rand.New(rand.NewPCG(5, 6)), t.TempDir()
	path := func(name string, rows int) string {
		var b strings.Builder
		b.WriteString("site,age,w,click,watch,visits\n")
		for range rows {
			site, age := rng.IntN(12), rng.Float64()
			logit := float64(site)/3 - 5 + age
			click := 0
			if rng.Float64() < 1/(1+math.Exp(-logit)) {
				click = 1
			}
			fmt.Fprintf(&b, "s%d,%.3f,%d,%d,%.3f,%d\n", site, age, rng.IntN(3), click, 20+logit+rng.NormFloat64()/4, rng.IntN(site+1))
		}
		file := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(file, []byte(b.String()), 0o644))
		return file
	}
	c, err := config.Parse("labels.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], test: [%q], header: true}
%s
features: [{field: site, encode: vocabulary}, {field: age, encode: standardise}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 64, epochs: 4, slots: 4, optimizer: {dense: {kind: adam, learning_rate: 0.01}, deep: {kind: adam, learning_rate: 0.01}}}
`, path("train.csv", 12000), path("test.csv", 4000), label)))
	fatal.If(t, err)
	return c
}

// OnRanks runs f on every rank of a group of goroutines and fails the test on an error.
func OnRanks(t testing.TB, size int, f func(*collective.Comm) error) {
	t.Helper()
	if err := mem.Run(size, 2, f); err != nil {
		t.Error(err)
	}
}
