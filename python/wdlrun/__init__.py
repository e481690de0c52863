"""Train Wide & Deep click models from Python.

    import wdlrun
    run = wdlrun.train(df, label="click", np=2)
    run.metrics["auc"], run.history, run.predict(tomorrow)

The package contains the program wdlrun, one static binary, and calls it. It needs nothing but the
standard library; with pandas or Polars, tables are DataFrames. Settings are the keys of the
configuration (`wdlrun help config`), with two underscores for a dot: train__epochs=3.
"""

from ._binary import binary, version
from ._config import Config, init
from ._process import Error, Interrupted
from ._run import Report, Run, Server, open, train

__all__ = ["Classifier", "Config", "Error", "Interrupted", "Report", "Run", "Server", "binary", "init", "open", "train", "version"]


def __getattr__(name):
    """Imports the estimator of scikit-learn only when it is used."""
    if name == "Classifier":
        from ._classifier import Classifier

        return Classifier
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'wdlrun' has no attribute {name!r}")
