#!/usr/bin/env bash
# LightGBM 4.7.0: a categorical column of integer ids loses every id from 2^31 on. Such an id is called a "negative value"
# in a warning, becomes a missing value, and the model cannot tell these ids apart: the same rows and the same training
# have an AUC of .87 with ids from 0, and of .50 with 2^40 added to each id.
#
# Why it matters: user ids and hashed ids of 64 bits are common in click logs. The documentation limits categories to
# the range of an int32; the warning names another cause, and the exit code is 0.
#
# Seen:
#   ids from 0: AUC 0.8653
#   ids from 2^40: AUC 0.5000, warning "Met negative value in categorical features, will convert it to NaN"
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check lightgbm==4.7.0 scikit-learn==1.9.1 numpy==2.4.6
cat >"$dir/run.py" <<'PY'
import sys

import lightgbm as lgb
import numpy as np
from sklearn.metrics import roc_auc_score


class Log:
    """The library sends its own warnings as information."""

    def __init__(self):
        self.texts = set()

    def info(self, text):
        self.texts.add(text.strip())

    warning = info


log = Log()
lgb.register_logger(log)
rng = np.random.default_rng(0)
rows, half = 20000, 10000
ids = rng.integers(0, 50, rows)
effect = rng.normal(0, 2, 50)
label = (rng.random(rows) < 1 / (1 + np.exp(-effect[ids]))).astype(int)


def auc(offset):
    log.texts.clear()
    x = (ids + offset).astype(np.float64).reshape(-1, 1)  # exact up to 2^53
    data = lgb.Dataset(x[:half], label[:half], categorical_feature=[0])
    booster = lgb.train({"objective": "binary", "num_threads": 1}, data, 20)
    return roc_auc_score(label[half:], booster.predict(x[half:]))


small = auc(0)
print(f"ids from 0: AUC {small:.4f}")
large = auc(2**40)
negative = [text for text in log.texts if "negative value" in text]
print(f"ids from 2^40: AUC {large:.4f}, {'; '.join(negative)}")
if small < .8 or large != .5 or not negative:
    sys.exit("the behaviour has changed")
PY
"$dir/venv/bin/python" "$dir/run.py"
