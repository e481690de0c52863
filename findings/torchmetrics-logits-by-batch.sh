#!/usr/bin/env bash
# torchmetrics 1.9.0: BinaryAUROC accepts probabilities or logits and decides which they are anew in each update. A batch
# of logits that happen to lie between 0 and 1 is taken as probabilities, all others go through a sigmoid. With one sample
# an update, as in an evaluation of single requests, a third of the logits is left as it is and the AUC is wrong, without
# a warning: .6936 for .7388. With 1,000 samples an update the result is right.
#
# A second loss of the same step: the sigmoid is computed in float32. Logits around 20 all become 1, ties, and an AUC of
# .92 is reported as .63. Logits around -20 keep their order.
#
# Why it matters: click models are evaluated on logits, in streams and in small batches. Give the metric probabilities in
# float64, or compute the AUC of the logits themselves.
#
# Seen:
#   scikit-learn 0.7388, updates of 1000 samples 0.7388, updates of 1 sample 0.6936
#   logits around 20: scikit-learn 0.9219, torchmetrics 0.6281
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check torchmetrics==1.9.0 torch==2.15.0 scikit-learn==1.9.1 numpy==2.4.6
cat >"$dir/run.py" <<'PY'
import sys

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torchmetrics.classification import BinaryAUROC


def metric(logits, labels, size):
    auc = BinaryAUROC()
    for i in range(0, len(logits), size):
        auc.update(torch.tensor(logits[i:i + size], dtype=torch.float32), torch.tensor(labels[i:i + size]))
    return auc.compute().item()


def clicks(logits, shift=0):
    return (rng.random(len(logits)) < 1 / (1 + np.exp(-(logits - shift)))).astype(int)


rng = np.random.default_rng(0)
logits = rng.normal(0, 1, 20000)
labels = clicks(logits)
true, large, single = roc_auc_score(labels, logits), metric(logits, labels, 1000), metric(logits, labels, 1)
print(f"scikit-learn {true:.4f}, updates of 1000 samples {large:.4f}, updates of 1 sample {single:.4f}")

high = rng.normal(20, 3, 20000)
labels = clicks(high, 20)
true_high, metric_high = roc_auc_score(labels, high), metric(high, labels, 20000)
print(f"logits around 20: scikit-learn {true_high:.4f}, torchmetrics {metric_high:.4f}")
if abs(true - large) > 1e-3 or true - single < .02 or true_high - metric_high < .1:
    sys.exit("the behaviour has changed")
PY
"$dir/venv/bin/python" "$dir/run.py"
