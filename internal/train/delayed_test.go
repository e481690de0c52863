package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestFakeNegatives: of samples that are negatives first and positives later, as wdlrun join -emit early writes them, a
// training with label.loss: fake_negative predicts the rate of feedback. With the log-loss it predicts less.
func TestFakeNegatives(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 8))
	var train, test strings.Builder
	train.WriteString("click,site\n")
	test.WriteString("click,site\n")
	late := map[int][]int{} // sites whose feedback arrives, by time
	for now := range 30_000 {
		for _, site := range late[now] {
			fmt.Fprintf(&train, "1,s%d\n", site)
		}
		site, click := rng.IntN(10), 0
		fmt.Fprintf(&train, "0,s%d\n", site)
		if rng.Float64() < .1+.06*float64(site) {
			click = 1
			at := now + 1 + rng.IntN(300)
			late[at] = append(late[at], site)
		}
		fmt.Fprintf(&test, "%d,s%d\n", click, site)
	}
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "train.csv"), []byte(train.String()), 0o644))
	fatal.If(t, os.WriteFile(filepath.Join(dir, "test.csv"), []byte(test.String()), 0o644))
	for loss, want := range map[string]float64{"": .73, ", loss: fake_negative": 1} {
		c, err := config.Parse("delayed.yaml", []byte(fmt.Sprintf(`
data: {train: [%q], test: [%q], header: true}
label: {field: click%s}
features: [{field: site, encode: hash}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 100, epochs: 3, seed: 5}
`, filepath.Join(dir, "train.csv"), filepath.Join(dir, "test.csv"), loss)))
		fatal.If(t, err)
		r := runJob(t, 2, Options{Config: c})
		if got := *r.Test.Calibration; math.Abs(got-want) > .05 {
			t.Errorf("label.loss%s: calibration %.3f, want %.2f", loss, got, want)
		}
	}
}
