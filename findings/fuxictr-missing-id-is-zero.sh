#!/usr/bin/env bash
# FuxiCTR 2.3.10: in a categorical column of integers a missing value is filled with 0 before the vocabulary is made, and
# 0 is a token like any other. A missing id and the id 0 have one row of the embedding. (In a column of strings missing is
# "", which the vocabulary leaves out.) The setting `fill_na` of the column changes the number.
#
# Why it matters: ids that count from 0 are common. The first item gets the clicks of all samples without an item, and
# the samples without an item get the score of the first one.
#
# Seen: item [0, 0, 0, 1, None, None] becomes [1, 1, 1, 2, 1, 1]
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check fuxictr==2.3.10 polars==2.1.0 numpy==2.4.6 pandas==3.1.1 pyarrow==26.0.1 ray==2.60.0 torch==2.15.0
cat >"$dir/run.py" <<'PY'
import sys

import polars as pl
from fuxictr.preprocess import FeatureProcessor

folder = sys.argv[1]
item = [0, 0, 0, 1, None, None]
pl.DataFrame({"item": item, "click": [1., 1., 1., 0., 0., 0.]}).write_parquet(folder + "/train.parquet")
features = FeatureProcessor(
    feature_cols=[{"name": "item", "active": True, "dtype": "int", "type": "categorical"}],
    label_col={"name": "click", "dtype": "float"}, dataset_id="clicks", data_root=folder)
table = features.preprocess(features.read_data(folder + "/train.parquet", data_format="parquet"))
features.fit(table)
keys = list(features.transform(table.collect().to_pandas().to_dict("series"))["item"])
print(f"item {item} becomes {[int(k) for k in keys]}")
if keys[4] != keys[0] or keys[0] == keys[3]:
    sys.exit("the behaviour has changed")
PY
"$dir/venv/bin/python" "$dir/run.py" "$dir"
