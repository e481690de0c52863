package publish

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
)

// talks are windows and what the guard says. Each line is a window of 10,000 samples (log-loss, base log-loss, AUC,
// calibration, rate of positives if it is not .3), "published AUC" the same with the AUC of the last version on it,
// "recent N" the samples since the last version, "publish" a version, or "release"; then follows the verdict.
var talks = map[string]string{
	"a stream that improves": `
		.60 .65 .70 1.1: publish
		publish: publish
		.50 .65 .75 1.0: publish
		publish: publish`,
	"a new training is far from calibrated": `
		.69 .50 .50 2.5: publish
		publish: publish
		.64 .50 .55 2.4: publish
		publish: publish
		.55 .50 .60 1.5: publish
		publish: publish
		.49 .50 .70 1.1: publish
		publish: publish
		.49 .50 .70 1.5: the calibration of 10000 samples is 1.5`,
	"the log-loss rises and falls": `
		.50 .65 .75 1: publish
		publish: publish
		.58 .65 .75 1: the log-loss of 10000 samples is 0.58, before the last version it was 0.5
		.50 .65 .75 1: the log-loss of 10000 samples is 0.58
		.50 .65 .75 1: the log-loss of 10000 samples is 0.58
		.58 .65 .75 1: the log-loss of 10000 samples is 0.58
		.50 .65 .75 1: the log-loss
		.50 .65 .75 1: the log-loss
		.50 .65 .75 1: publish`,
	"slowly worse without a version in between": `
		.50 .65 .75 1: publish
		publish: publish
		.54 .65 .75 1: publish
		.56 .65 .75 1: publish
		.60 .65 .75 1: the log-loss`,
	"slowly worse with versions": `
		.50 .51 .75 1: publish
		publish: publish
		.54 .51 .75 1: publish
		publish: publish
		.59 .51 .75 1: the log-loss of 10000 samples is 0.59; predicting their base rate`,
	"a rate that explodes, first window": `
		40 .65 .5 1: the log-loss of 10000 samples is 40; a model without training has 0.6931`,
	"not finite": `
		nan .65 .75 1: the log-loss of 10000 samples is not finite
		inf .65 .75 1: the log-loss of 10000 samples is not finite`,
	"flipped labels": `
		.50 .65 .75 1: publish
		publish: publish
		.70 .65 .30 1: the log-loss
		.70 .65 .30 1: the log-loss`,
	"flipped labels that are learned": `
		.50 .65 .75 1: publish
		publish: publish
		.70 .65 .30 1 .7: the log-loss
		.50 .65 .75 1 .7: the rate of positive labels of 10000 samples is 0.7, before the last version it was 0.3
		.50 .65 .75 1 .7: the rate
		.50 .65 .75 1 .7: the rate
		.50 .65 .75 1 .7: the rate`,
	"flipped labels of balanced classes": `
		.50 .69 .75 1 .5: publish
		publish: publish
		.70 .69 .30 1 .5: the log-loss
		published .25 .50 .69 .75 1 .5: the last version has the AUC 0.25 on 10000 samples, before it was published it was 0.75
		published .25 .50 .69 .75 1 .5: the last version
		published .25 .50 .69 .75 1 .5: the last version
		published .75 .70 .69 .30 1 .5: the log-loss
		published .75 .50 .69 .75 1 .5: the log-loss
		published .70 .50 .69 .75 1 .5: the log-loss
		published .75 .50 .69 .75 1 .5: publish`,
	"the feedback of the first windows has not come yet": `
		.01 .01 nil nil 0: publish
		publish: publish
		.50 .65 .75 1: publish
		publish: publish
		.60 .65 .75 1: the log-loss of 10000 samples is 0.6, before the last version it was 0.5`,
	"clicks stop": `
		.50 .65 .75 1: publish
		publish: publish
		.40 .50 .75 1 .2: the rate of positive labels of 10000 samples is 0.2
		.01 0 nil nil 0: the rate of positive labels of 10000 samples is 0,`,
	"the rate of positives changes slowly": `
		.50 .65 .75 1 .3: publish
		publish: publish
		.50 .65 .75 1 .25: publish
		publish: publish
		.50 .65 .75 1 .2: publish`,
	"the ranking is lost": `
		.50 .65 .75 1: publish
		publish: publish
		.50 .65 .73 1: publish
		.50 .65 .68 1: the AUC of 10000 samples is 0.68, before the last version it was 0.75`,
	"released by hand": `
		.50 .65 .75 1: publish
		publish: publish
		.60 .65 .75 1: the log-loss
		release: publish
		.60 .65 .75 1: publish`,
	"samples since the last version": `
		.50 .65 .75 1: publish
		publish: publish
		recent 20 .9 .65 .5 1: publish
		recent 200 .9 .65 .3 1: the log-loss of 200 samples is 0.9
		recent 200 .5 .65 .6 1: publish
		recent 200 .5 .65 .3 1: the AUC of 200 samples is 0.3
		recent 20 .1 0 nil nil 0: publish
		recent 200 .1 0 nil nil 0: the rate
		recent 100 .5 .65 .75 1: publish`,
}

func TestGuardConversations(t *testing.T) {
	for name, talk := range talks {
		g := guard{limits: config.Guard{Window: 1000, LogLoss: .1, Calibration: .2, AUCDrop: .02, Action: "hold"}}
		for _, line := range strings.Split(strings.TrimSpace(talk), "\n") {
			input, want, _ := strings.Cut(strings.TrimSpace(line), ": ")
			recent := &evidence{}
			words := strings.Fields(input)
			switch words[0] {
			case "publish":
				g.published()
			case "release":
				g.released()
			case "recent":
				var n int64
				fmt.Sscan(words[1], &n)
				recent = windowOf(t, n, words[2:])
			case "published":
				old := windowOf(t, 10_000, words[2:])
				fmt.Sscan(words[1], old.AUC)
				g.window(windowOf(t, 10_000, words[2:]), old)
			default:
				g.window(windowOf(t, 10_000, words), nil)
			}
			got := g.verdict(recent).text
			if want == "publish" && got != "" || want != "publish" && !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s: %q, want %q", name, input, got, want)
			}
		}
	}
}

func windowOf(t *testing.T, samples int64, words []string) *evidence {
	t.Helper()
	x := [5]float64{4: .3}
	e := &evidence{Metrics: metrics.Metrics{Samples: samples, AUC: &x[2], Calibration: &x[3]}, spread: .5}
	for i, w := range words {
		switch w {
		case "nil":
			e.AUC, e.Calibration = nil, nil
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
	e.LogLoss, e.BaseLogLoss, e.BaseRate = x[0], x[1], x[4]
	e.Positives = int64(float64(samples) * x[4])
	return e
}

// TestEarlySamples: of samples that are negatives first and are repeated as positives, the calibration of a model that
// predicts the rate of feedback is 1, and of one that predicts twice as much it is about 2.
func TestEarlySamples(t *testing.T) {
	const impressions, clicks = 1000, 250
	for _, x := range []struct {
		early    bool
		p, want  float64
		weighted bool
	}{{false, .25, 1.25, false}, {true, .25, 1, false}, {true, .5, 5. / 3, false}, {true, .25, 1, true}} {
		s, b := newSums(x.early), &encode.Batch{Rows: impressions + clicks}
		var logit []float32
		for i := range b.Rows {
			label := float32(0)
			if i >= impressions {
				label = 1
			}
			b.Label, logit = append(b.Label, label), append(logit, float32(math.Log(x.p/(1-x.p))))
			if x.weighted {
				b.Weight = append(b.Weight, 2)
			}
		}
		s.add(logit, b)
		if got := *s.evidence().Calibration; math.Abs(got-x.want) > 1e-5 {
			t.Errorf("%+v: calibration %v", x, got)
		}
		if s.reset(); s.evidence().Calibration != nil {
			t.Errorf("%+v: a calibration without samples", x)
		}
	}
}

// TestEarlyEnd: the samples since the last version of an early stream are compared at the rate of positives that the
// reference has. Its last samples are all positives. A model that has become worse at one label is bad whatever the mix.
func TestEarlyEnd(t *testing.T) {
	const p = .1 // predicted, the rate of positives
	stream := func(negatives, positives int, logits ...float64) *evidence {
		s, b := newSums(true), &encode.Batch{Rows: negatives + positives}
		var z []float32
		for i := range b.Rows {
			label := float32(0)
			if i >= negatives {
				label = 1
			}
			shift := 0.
			for _, x := range logits {
				shift += x * float64(i%2)
			}
			b.Label, z = append(b.Label, label), append(z, float32(math.Log(p/(1-p))+float64(label)+.5*float64(i%3)+shift))
		}
		s.add(z, b)
		return s.evidence()
	}
	known := stream(900, 100)
	read := evidenceOf(known.window())
	for _, x := range []struct {
		name      string
		reference *evidence
		recent    *evidence
		want      string
	}{
		{"late positives", known, stream(0, 60), ""},
		{"late positives after a restart", read, stream(0, 60), ""},
		{"few negatives", known, stream(5, 60), ""},
		{"more positives than before", read, stream(60, 60), ""},
		{"more negatives than before", read, stream(900, 20), ""},
		{"no samples", known, stream(0, 0), ""},
		{"a model that is worse at both", known, stream(300, 60, 6), "logloss"},
		{"a model that is worse at positives", read, stream(0, 60, -12), "logloss"},
		{"a model that is worse at negatives", known, stream(200, 0, 6), "logloss"},
		{"not finite", known, &evidence{Metrics: metrics.Metrics{Samples: 60, Positives: 60, LogLoss: math.NaN()}}, "finite"},
		{"first samples, late positives", nil, stream(0, 60), ""},
		{"first samples of a model that is far too large", nil, stream(100, 10, 40), "logloss"},
	} {
		g := guard{limits: config.Guard{Window: 1000, LogLoss: .1, Calibration: .2, AUCDrop: .02, Action: "hold"}, early: true, reference: x.reference}
		if got := g.verdict(x.recent); got.check != x.want {
			t.Errorf("%s: %+v, want %q", x.name, got, x.want)
		}
	}
	g := guard{limits: config.Guard{Window: 1000, LogLoss: .1, Calibration: .2, AUCDrop: .02, Action: "hold"}, reference: known}
	if g.verdict(stream(0, 60)) == (fault{}) {
		t.Error("without early samples, only positives are no fault")
	}
}
