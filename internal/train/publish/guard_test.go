package publish

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
)

// talks are windows and what the guard says. Each line is a window (log-loss, base log-loss, AUC,
// calibration), "part" an incomplete one, "publish" a version, or "release"; then follows the verdict.
var talks = map[string]string{
	"a stream that improves": `
		.60 .65 .70 1.1: publish
		publish: publish
		.50 .65 .75 1.0: publish
		publish: publish`,
	"the log-loss rises and falls": `
		.50 .65 .75 1: publish
		publish: publish
		.56 .65 .75 1: the log-loss of 1000 samples is 0.56, before the last version it was 0.5
		.50 .65 .75 1: the log-loss of 1000 samples is 0.56
		.50 .65 .75 1: the log-loss of 1000 samples is 0.56
		.56 .65 .75 1: the log-loss of 1000 samples is 0.56
		.50 .65 .75 1: the log-loss
		.50 .65 .75 1: the log-loss
		.50 .65 .75 1: publish`,
	"slowly worse without a version in between": `
		.50 .65 .75 1: publish
		publish: publish
		.53 .65 .75 1: publish
		.54 .65 .75 1: publish
		.56 .65 .75 1: the log-loss`,
	"a rate that explodes, first window": `
		40 .65 .5 1: the log-loss of 1000 samples is 40; predicting their base rate for each has 0.65`,
	"not finite": `
		nan .65 .75 1: the log-loss of 1000 samples is not finite
		inf .65 .75 1: the log-loss of 1000 samples is not finite`,
	"flipped labels": `
		.50 .65 .75 1: publish
		publish: publish
		.70 .65 .30 1: the log-loss
		.70 .65 .30 1: the log-loss`,
	"the ranking is lost": `
		.50 .65 .75 1: publish
		publish: publish
		.52 .65 .74 1: publish
		.52 .65 .72 1: the AUC of 1000 samples is 0.72, before the last version it was 0.75`,
	"calibration": `
		.50 .65 .75 1.3: the calibration of 1000 samples is 1.3, more than 0.2 from 1
		.50 .65 .75 .75: the calibration of 1000 samples is 0.75`,
	"released by hand": `
		.50 .65 .75 1: publish
		publish: publish
		.60 .65 .75 1: the log-loss
		release: publish
		.60 .65 .75 1: publish`,
	"an incomplete window": `
		.50 .65 .75 1: publish
		publish: publish
		part 99 9 .65 .5 1: publish
		part 100 9 .65 .5 1: the log-loss of 100 samples is 9
		part 100 .5 .65 .75 1: publish`,
}

func TestGuardConversations(t *testing.T) {
	for name, talk := range talks {
		g := guard{limits: config.Guard{Window: 1000, LogLoss: .1, Calibration: .2, AUCDrop: .02, Action: "hold"}}
		for _, line := range strings.Split(strings.TrimSpace(talk), "\n") {
			input, want, _ := strings.Cut(strings.TrimSpace(line), ": ")
			part := metrics.Metrics{}
			words := strings.Fields(input)
			switch words[0] {
			case "publish":
				g.published()
			case "release":
				g.released()
			case "part":
				part = windowOf(t, words[2:])
				fmt.Sscan(words[1], &part.Samples)
			default:
				g.window(windowOf(t, words))
			}
			got := g.verdict(part)
			if want == "publish" && got != "" || want != "publish" && !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s: %q, want %q", name, input, got, want)
			}
		}
	}
}

func windowOf(t *testing.T, words []string) metrics.Metrics {
	t.Helper()
	var x [4]float64
	for i, w := range words {
		switch w {
		case "nan":
			x[i] = math.NaN()
		case "inf":
			x[i] = math.Inf(1)
		default:
			if _, err := fmt.Sscan(w, &x[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return metrics.Metrics{Samples: 1000, LogLoss: x[0], BaseLogLoss: x[1], AUC: &x[2], Calibration: &x[3]}
}
