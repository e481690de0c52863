package jobs

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// sklearnMetrics computes the metrics of eval from the predictions in scores.csv with
// scikit-learn. It compares the curves of eval.json with the nearest points of the exact curves.
const sklearnMetrics = `
import csv, json
import numpy as np
from sklearn import metrics as m
from sklearn.calibration import calibration_curve

rows = list(csv.DictReader(open("scores.csv")))
y = np.array([int(r["label"]) for r in rows])
z = np.array([float(r["logit"]) for r in rows])
p = 1 / (1 + np.exp(-z))
group = np.array([r["education"] for r in rows])
found = json.load(open("eval.json"))
q = found["quality"]

rate, predicted = calibration_curve(y, p, n_bins=20, strategy="quantile")
edges = np.percentile(p, np.linspace(0, 100, 21))
weight = np.bincount(np.searchsorted(edges[1:-1], p), minlength=20) / len(p)
bins = q["calibration"]

aucs = {g: (m.roc_auc_score(y[group == g], z[group == g]), (group == g).sum()) for g in set(group) if len(set(y[group == g])) == 2}
precision, recall, _ = m.precision_recall_curve(y, z)
fpr, tpr, _ = m.roc_curve(y, z, drop_intermediate=False)
def away(points, xs, ys):
    return max(np.min(np.abs(xs - a["x"]) + np.abs(ys - a["y"])) for a in points)

print(json.dumps({"wants": {
    "auc": m.roc_auc_score(y, z),
    "logloss": m.log_loss(y, p),
    "accuracy": m.accuracy_score(y, z > 0),
    "pr_auc": m.average_precision_score(y, z),
    "normalised_entropy": m.log_loss(y, p) / m.log_loss(y, np.full(len(y), y.mean())),
    "calibration": p.mean() / y.mean(),
    "ece": float((weight * np.abs(rate - predicted)).sum()),
    "gauc": sum(a * n for a, n in aucs.values()) / sum(n for _, n in aucs.values()),
}, "zeros": {
    "rates of the calibration bins": max(abs(b["rate"] - r) for b, r in zip(bins, rate)),
    "predictions of the calibration bins": max(abs(b["prediction"] - x) for b, x in zip(bins, predicted)),
    "ROC": away(q["roc"], fpr, tpr),
    "PR": away(q["pr"], recall, precision),
}, "bins": len(rate)}, default=float))
`

// TestScikitLearnComputesTheMetrics compares the metrics of a trained model with scikit-learn.
// The tolerance is the error of a histogram whose bins are 1/2,000 of a logit wide.
func TestScikitLearnComputesTheMetrics(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	interpreter := python(t, "sklearn")
	dir := t.TempDir()
	r := train(t, dir, 2, few(t)...)
	o := must(t, dir, "-np 2 eval --json -resume "+r.RunDir+" -report q.html -group education")
	write(t, dir, "eval.json", o.stdout)
	var e struct {
		Data    []string
		Groups  struct{ GAUC float64 }
		Quality struct {
			ECE         float64
			Calibration []struct{}
		}
	}
	got := map[string]any{}
	for _, to := range []any{&e, &got} {
		fatal.If(t, json.Unmarshal([]byte(o.stdout), to))
	}
	must(t, dir, "predict -resume "+r.RunDir+" -data "+e.Data[0]+" -label -logit -columns education -out scores.csv")
	var by struct {
		Wants, Zeros map[string]float64
		Bins         int
	}
	fatal.If(t, json.Unmarshal([]byte(inPython(t, interpreter, dir, sklearnMetrics)), &by))
	got["ece"], got["gauc"] = e.Quality.ECE, e.Groups.GAUC
	for name, want := range by.Wants {
		tolerance := map[string]float64{"auc": 1e-5, "pr_auc": 1e-4, "gauc": 1e-5, "ece": 1e-3}[name]
		if x, ok := got[name].(float64); !ok || math.Abs(x-want) > max(tolerance, 1e-6) {
			t.Errorf("%s: %v, scikit-learn %v", name, got[name], want)
		} else {
			t.Logf("%s: %v, scikit-learn %v", name, x, want)
		}
	}
	for name, d := range by.Zeros {
		if t.Logf("%s differs from scikit-learn by %v", name, d); d > 0.01 {
			t.Errorf("%s differs from scikit-learn by %v, want at most 0.01", name, d)
		}
	}
	if len(by.Wants) != 8 || by.Bins != 20 || len(e.Quality.Calibration) != 20 {
		t.Errorf("%d metrics, %d bins of scikit-learn, %d bins of eval", len(by.Wants), by.Bins, len(e.Quality.Calibration))
	}
}
