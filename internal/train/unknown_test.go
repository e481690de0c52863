package train

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// TestNewKeysAreNotScoredByNoise: rows with users that training has not seen get equal scores
// and are counted.
func TestNewKeysAreNotScoredByNoise(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	const rows = 2000
	dir := t.TempDir()
	write := func(name string, user func(rng *rand.Rand, i int) string) string {
		rng := rand.New(rand.NewPCG(1, 8))
		var b strings.Builder
		b.WriteString("click,user,site\n")
		for i := range rows {
			site := rng.IntN(10)
			click := 0
			if rng.IntN(10) < site {
				click = 1
			}
			fmt.Fprintf(&b, "%d,%s,site%d\n", click, user(rng, i), site)
		}
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
		return path
	}
	train := write("train.csv", func(rng *rand.Rand, _ int) string { return fmt.Sprint("u", rng.IntN(100)) })
	many := write("many.csv", func(_ *rand.Rand, i int) string { return fmt.Sprint("new", i) })
	one := write("one.csv", func(*rand.Rand, int) string { return "new" })
	for _, strategy := range []string{"rows", "pooled"} {
		for size := 1; size <= 2; size++ {
			var res [2]report.Result
			for i, test := range []string{many, one} {
				c, err := config.Parse("new.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], test: [%q], header: true}
label: {field: click}
features: [{field: user, encode: hash}, {field: site, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
tables: [{name: user, strategy: %s}]
train: {global_batch: 32}
`, train, test, strategy)))
				fatal.If(t, err)
				res[i] = runJob(t, size, Options{Config: c})
				if n := res[i].TestUnknown; len(n) != 1 || n["user"] != rows {
					t.Errorf("%s, %d ranks: unknown %v, want %d users", strategy, size, n, rows)
				}
			}
			if *res[0].TestAUC != *res[1].TestAUC || *res[0].TestLogLoss != *res[1].TestLogLoss {
				t.Errorf("%s, %d ranks: new users AUC %v, log-loss %v; one new user %v, %v", strategy, size,
					*res[0].TestAUC, *res[0].TestLogLoss, *res[1].TestAUC, *res[1].TestLogLoss)
			}
		}
	}
}

// TestManyNewValuesAreReported: a feature with a fifth of unseen values is reported in one
// line, on any number of ranks; a cross of known values is not.
func TestManyNewValuesAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, rows, renamed int) string {
		rng := rand.New(rand.NewPCG(4, uint64(rows)))
		var b strings.Builder
		b.WriteString("click,user,site,tags\n")
		for i := range rows {
			user := fmt.Sprint("u", rng.IntN(30))
			if i < renamed {
				user = strings.ToUpper(user)
			}
			fmt.Fprintf(&b, "%d,%s,site%d,a|b\n", rng.IntN(2), user, rng.IntN(30))
		}
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
		return path
	}
	train, few, many := write("train.csv", 400, 0), write("few.csv", 100, 19), write("many.csv", 100, 20)
	for _, encoding := range []string{"hash", "vocabulary"} {
		for size := 1; size <= 2; size++ {
			for test, want := range map[string]string{few: "", many: "user: training has not seen 20 of 100 values of the test data: are they missing, or spelled differently than in training? If they are new, train on more recent data"} {
				c, err := config.Parse("new.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], test: [%q], header: true}
label: {field: click}
features: [{field: user, encode: %s}, {field: site, encode: hash}, {field: tags, encode: hash, separator: "|"}]
crosses: [{of: [user, site]}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 32, epochs: 1}
`, train, test, encoding)))
				fatal.If(t, err)
				var warned []string
				res := runJob(t, size, Options{Config: c, Warn: func(line string) {
					if strings.Contains(line, "has not seen") {
						warned = append(warned, line)
					}
				}})
				if n := res.TestUnknown["user_x_site"]; n < 20 || strings.Join(warned, "\n") != want {
					t.Errorf("%s, %d ranks, %s: %q, want %q; %d new crosses", encoding, size, filepath.Base(test), warned, want, n)
				}
			}
		}
	}
}

// TestUniqueValuesAreReported: a feature whose values do not recur in a random part of the
// training data is reported, and so is a file that is used twice.
func TestUniqueValuesAreReported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "train.csv")
	var b strings.Builder
	b.WriteString("click,request,site\n")
	for i := range 400 {
		fmt.Fprintf(&b, "%d,r%d,site%d\n", i*7%3&1, i, i%30)
	}
	fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
	for _, encoding := range []string{"hash", "vocabulary"} {
		for size := 1; size <= 2; size++ {
			c, err := config.Parse("unique.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], test: [%[1]q], header: true, valid_fraction: 0.2}
label: {field: click}
features: [{field: request, encode: %s}, {field: site, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 32, epochs: 1}
`, path, encoding)))
			fatal.If(t, err)
			unique, twice := 0, 0
			runJob(t, size, Options{Config: c, Warn: func(line string) {
				if strings.HasPrefix(line, "request: ") && strings.HasSuffix(line, "almost every value is unique, so the model cannot learn from it; remove the feature") {
					unique++
				} else if strings.HasPrefix(line, "data.train and data.test both have the file ") {
					twice++
				} else if strings.Contains(line, "unique") {
					t.Error(line)
				}
			}})
			if unique != 1 || twice != 1 {
				t.Errorf("%s, %d ranks: %d warnings of unique values, %d of a file that is used twice", encoding, size, unique, twice)
			}
		}
	}
}
