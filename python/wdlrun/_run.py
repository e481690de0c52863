"""A training and its run directory."""

from __future__ import annotations

import builtins
import html
import json
import os
import tempfile
from pathlib import Path

from ._binary import binary
from ._config import flags, load, named, propose
from ._process import Error, call
from ._serve import Server
from ._table import Written

PHASES = ("test", "valid")


def train(data=None, label=None, *, valid=None, test=None, np=1, config=None, start=None, out="runs", verbose=True, **settings):
    """Trains a model on a DataFrame (pandas, Polars), a Table of pyarrow, or files, and returns its Run.

    label    the column to predict; by default it is guessed, and the message says which
    valid    rows for early stopping; by default a tenth of data
    test     rows to evaluate at the end
    np       number of processes: one per core is best
    config   a Config, YAML, or the path of a YAML file; by default it is proposed from data, as wdlrun.init does
    start    a Run or a run directory with whose model the training begins (train -from). Without config, its settings apply
    out      the folder of run directories
    settings keys of the configuration, such as train__epochs=3 or model__kind="dcn_v2"
    """
    config = load(config)
    if data is None and config is not None:
        data = config.data
    if data is None and config is None:
        raise Error("no data: wdlrun.train(df, label=...)")
    with tempfile.TemporaryDirectory(prefix="wdlrun-") as folder:
        keys, command = dict(config.settings) if config else {}, ["-np", str(np), "train", "-json", "-out", os.fspath(out)]
        if data is not None:
            written = Written(data, folder, "train")
            if config is None and start is None:
                config = propose(written, data, label)
                label = None
                if verbose:
                    print(f"label {config.label}; wdlrun.init(data) shows the configuration", flush=True)
            keys["data.train"] = written.files
            if config is None:  # rows of the source's DataFrames are gone; a tenth of the new ones is held out instead
                keys.update({"data.test": [], "data.valid": [], "data.valid_fraction": 0.1})
            if written.kind != "paths":
                keys.update({"data.format": "parquet", "data.header": "", "data.delimiter": ""})
        if label is not None:
            keys["label.field"] = label
        for key, table in (("valid", valid), ("test", test)):
            if table is not None:
                keys["data." + key] = Written(table, folder, key).files
        if valid is not None:
            keys["data.valid_fraction"] = 0
        keys.update(named(settings))
        if config is not None:
            path = Path(folder, "config.yaml")
            path.write_text(config.text, encoding="utf-8")
            command += ["-config", str(path)]
        if start is not None:
            command += ["-from", os.fspath(start)]
        return _trained(call(binary(), command + flags(keys), verbose=verbose))


def _trained(output):
    return Run(json.loads(output.strip().rsplit("\n", 1)[-1])["run_dir"])


def open(path):
    """Returns the Run of a run directory."""
    return Run(path)


class Run:
    """A run directory: the model with its settings, metrics and checkpoints."""

    def __init__(self, path):
        self.path = Path(path).resolve()
        if not (self.path / "config.yaml").is_file():
            raise Error(f"{path} is no run directory: it has no config.yaml")

    def __fspath__(self):
        return str(self.path)

    def __repr__(self):
        metrics = "".join(f", {name} {self.metrics[name]:.4f}" for name in ("auc", "logloss") if name in self.metrics)
        return f"<wdlrun.Run {self.path}{metrics}>"

    @property
    def config(self):
        """The configuration in effect, as YAML."""
        return (self.path / "config.yaml").read_text(encoding="utf-8")

    @property
    def result(self):
        """All of result.json; empty for a training that has no result."""
        try:
            return json.loads((self.path / "result.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    @property
    def metrics(self):
        """Metrics on the test rows, or else on the validation rows: auc, logloss, accuracy, and others."""
        result = self.result
        return next((result[phase] for phase in PHASES if result.get(phase)), {})

    @property
    def history(self):
        """The lines of metrics.jsonl: a DataFrame if pandas is installed, otherwise a list of dicts. Metrics of an
        evaluation are columns of their own."""
        with builtins.open(self.path / "metrics.jsonl", encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines if line.endswith("\n")]
        return _frame([{**event.pop("metrics", {}), **event} for event in events])

    def predict(self, data, *, np=1, logit=False, verbose=False):
        """Returns the scores of the rows of data, in their order: a Series for a DataFrame, otherwise a list.

        A model of several labels gives a column for each: a DataFrame, or a list of dicts.
        """
        with tempfile.TemporaryDirectory(prefix="wdlrun-") as folder:
            table = Written(data, folder, "data")
            out = Path(folder, "scores.csv")
            self._call(["-np", str(np), "predict", "-json", "-resume", str(self.path), *_inputs(table), "-out", str(out), *(["-logit"] if logit else [])], verbose)
            with builtins.open(out, encoding="utf-8") as lines:
                names = next(lines).rstrip("\n").split(",")
                values = [[float(x) if x else None for x in line.rstrip("\n").split(",")] for line in lines]
        return _scores(table, names, values)

    def eval(self, data, *, np=1, verbose=False, **settings):
        """Returns the metrics of the model on the rows of data, as a dict."""
        with tempfile.TemporaryDirectory(prefix="wdlrun-") as folder:
            table = Written(data, folder, "data")
            return json.loads(self._call(["-np", str(np), "eval", "-json", "-resume", str(self.path), *_inputs(table), *flags(named(settings))], verbose))

    def resume(self, *, np=1, verbose=True, **settings):
        """Continues a training that was interrupted. Data that came from a DataFrame is not in the run directory:
        such a training continues with wdlrun.train(df, start=run)."""
        return _trained(self._call(["-np", str(np), "train", "-json", "-resume", str(self.path), *flags(named(settings))], verbose))

    def export(self, path, data=None, *, name="model", format="model"):
        """Writes the model: for serving (format "model", into PATH/NAME/STEP), or as "onnx", "safetensors", "npy", "table".

        data: rows as for eval, the first of which go with the model, to warm a server up or, with
        "onnx", to check a runtime (check.json). The default is the training data, if it is in files.
        """
        command = ["export", "-json", "-resume", str(self.path), "-out", os.fspath(path), "-format", format]
        command += ["-name", name] if format == "model" else []
        with tempfile.TemporaryDirectory(prefix="wdlrun-") as folder:
            command += _inputs(Written(data, folder, "data")) if data is not None else []
            return Path(json.loads(self._call(command, False))["out"])

    def serve(self, *, name="model"):
        """Starts a server for the model on free ports of this machine: with run.serve() as server: server.predict(rows)."""
        return Server(self, name)

    def report(self):
        """Returns the report as a Report, which a notebook shows."""
        with tempfile.TemporaryDirectory(prefix="wdlrun-") as folder:
            out = Path(folder, "report.html")
            self._call(["report", "-json", "-out", str(out), str(self.path)], False)
            return Report(out.read_text(encoding="utf-8"))

    def _call(self, command, verbose):
        return call(binary(), command, verbose=verbose)


class Report:
    """A page of HTML that needs no network."""

    def __init__(self, text):
        self.html = text

    def save(self, path):
        """Writes the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self):
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:600px;border:0"></iframe>'


def _inputs(table):
    return [word for file in table.files for word in ("-data", file)]  # Parquet is recognised


def _frame(rows):
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def _scores(table, names, values):
    if len(names) == 1:
        column = [row[0] for row in values]
        if table.kind == "pandas":
            import pandas

            return pandas.Series(column, index=table.index, name=names[0], dtype=float)
        if table.kind == "polars":
            import polars

            return polars.Series(names[0], column, dtype=polars.Float64)
        return column
    rows = [dict(zip(names, row)) for row in values]
    if table.kind == "pandas":
        import pandas

        return pandas.DataFrame(rows, columns=names, index=table.index)
    if table.kind == "polars":
        import polars

        return polars.DataFrame(rows)
    return rows
