"""An estimator of scikit-learn."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy
import pandas
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ._binary import binary
from ._config import init
from ._process import call
from ._run import train

FEW_ROWS = 200  # below this, no rows are held out: the number of epochs is FEW_EPOCHS
FEW_EPOCHS = 20
LABEL, WEIGHT = "label of the row", "weight of the row"  # names of columns that are added to X


class Classifier(ClassifierMixin, BaseEstimator):
    """A Wide & Deep model of two classes, with fit, predict_proba and predict of scikit-learn.

    processes     number of ranks
    random_state  the seed of the training
    settings      keys of the configuration: {"train.epochs": 3, "model.kind": "dcn_v2"}
    verbose       print the progress

    Columns of a DataFrame keep their types; encodings are proposed from the values, as by
    wdlrun.init. The fitted estimator holds the exported model in memory, so it can be pickled and
    needs no folder.
    """

    def __init__(self, processes=1, random_state=1, settings=None, verbose=False):
        self.processes, self.random_state, self.settings, self.verbose = processes, random_state, settings, verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(self, X, y, sample_weight=None):
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, codes = numpy.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is multiclass: {len(self.classes_)} classes")
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {self.classes_[0]!r}")
        table = X.assign(**{LABEL: codes})
        config = init(table, LABEL)
        settings = {"train.seed": int(self.random_state or 0), **(self.settings or {})}
        if sample_weight is not None:
            table[WEIGHT] = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            if len(set(codes[table[WEIGHT] > 0])) < 2:
                raise ValueError("Classifier can't train when only one class has samples of weight above 0")
            settings["label.weight"] = WEIGHT
        if len(X) < FEW_ROWS:
            settings = {"data.valid_fraction": 0, "train.early_stop.patience": 0, "train.epochs": FEW_EPOCHS, "train.global_batch": 16, **settings}
        with tempfile.TemporaryDirectory(prefix="wdlrun-") as folder:
            run = train(table, config=config, np=self.processes, out=Path(folder, "runs"), verbose=self.verbose, **settings)
            model = run.export(Path(folder, "models"))
            self.model_ = {str(f.relative_to(model)): f.read_bytes() for f in model.rglob("*") if f.is_file()}
        return self

    def predict_proba(self, X):
        check_is_fitted(self)
        X, _ = self._checked(X)
        with tempfile.TemporaryDirectory(prefix="wdlrun-") as folder:
            model = Path(folder, "model")
            for name, content in self.model_.items():
                path = model / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            rows, scores = Path(folder, "rows.parquet"), Path(folder, "scores.csv")
            X.to_parquet(rows, index=False)
            call(binary(), ["-np", str(self.processes), "predict", "-model", str(model), "-data", str(rows), "-out", str(scores)], verbose=False)
            one = numpy.loadtxt(scores, skiprows=1, ndmin=1)
        return numpy.column_stack([1 - one, one])

    def predict(self, X):
        one = self.predict_proba(X)[:, 1] > 0.5
        return self.classes_[one.astype(int)]

    def _checked(self, X, y=None):
        """Returns X as a DataFrame with text as names, and y."""
        fitting = y is not None
        if isinstance(X, pandas.DataFrame):
            validate_data(self, X, reset=fitting, skip_check_array=True)
            if fitting:
                y = numpy.asarray(y)
            return X.rename(columns=str), y
        options = {"dtype": None, "ensure_all_finite": "allow-nan", "reset": fitting}
        if fitting:
            X, y = validate_data(self, X, y, **options)
        else:
            X = validate_data(self, X, **options)
        return pandas.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).infer_objects(), y
