"""Writes fuxictr/feature_vocab.json with the FeatureProcessor of fuxictr 2.3.7. Run in this folder."""
import os
import shutil

import polars as pl
from fuxictr.preprocess.feature_processor import FeatureProcessor

features = [
    {"name": ["item"], "active": True, "dtype": "str", "type": "categorical"},
    {"name": ["seen"], "active": True, "dtype": "str", "type": "categorical", "share_embedding": "item"},
    {"name": ["user"], "active": True, "dtype": "str", "type": "categorical"},
]
rows = {"item": ["i1", "i2", "i1", "i3"], "seen": ["i9", "i1", "i8", "i9"], "user": ["u1", "u1", "u2", "u2"], "click": [0.0, 1.0, 0.0, 1.0]}
p = FeatureProcessor(feature_cols=features, label_col={"name": "click", "dtype": "float"}, dataset_id="made", data_root=".")
p.fit(p.preprocess(pl.DataFrame(rows).lazy()), min_categr_count=1)
os.makedirs("fuxictr", exist_ok=True)
shutil.copy("made/feature_vocab.json", "fuxictr")
shutil.rmtree("made")
