"""Tests of the package with the program that pip installed, or WDLRUN_BINARY."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import wdlrun

ROWS = 3000


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    """Each test has a working folder, and a folder for temporary files that must be empty at its end."""
    monkeypatch.chdir(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    yield
    # Scikit-learn's checks of estimators remove their own folders when the process ends.
    assert [p for p in temporary.iterdir() if not p.name.startswith("sklearn_testing_")] == []
    assert _children() == []


def _children():
    listed = subprocess.run(["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if "wdlrun" in line]


def clicks(seed=1, rows=ROWS):
    """Clicks whose logit is known: city adds 2 or −2, price −1 per standard deviation, a tag 1.5."""
    random = np.random.default_rng(seed)
    city = random.choice(["Oslo", "Rome", "Lima", "Bonn"], rows)
    price = random.normal(20, 5, rows)
    tags = [list(random.choice(["new", "sale", "used"], random.integers(0, 3), replace=False)) for _ in range(rows)]
    logit = np.where(np.isin(city, ["Oslo", "Rome"]), 2, -2) - (price - 20) / 5 + np.array([1.5 * ("sale" in t) for t in tags])
    return pd.DataFrame({
        "city": pd.Categorical(city),
        "price": np.where(random.random(rows) < 0.05, np.nan, price),
        "visits": pd.array(random.integers(0, 9, rows), dtype="Int64"),
        "time": pd.Timestamp("2026-11-01", tz="Europe/Oslo") + pd.to_timedelta(random.integers(0, 86400 * 20, rows), unit="s"),
        "member": random.random(rows) < 0.5,
        "tags": tags,
        "click": (random.random(rows) < 1 / (1 + np.exp(-logit))).astype(int),
    })


def auc(scores, labels):
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(labels, scores)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return wdlrun.train(clicks(1), "click", np=2, out=tmp_path_factory.mktemp("shared"), verbose=False, train__epochs=6)


def test_training_and_scores(trained):
    rows = clicks(2)
    rows.index = rows.index + 7
    scores = trained.predict(rows.drop(columns="click"), np=2)
    assert list(scores.index) == list(rows.index)
    assert auc(scores, rows["click"]) > 0.87
    measured = trained.eval(rows)
    assert measured["auc"] == pytest.approx(auc(scores, rows["click"]), abs=1e-4)
    assert 0.8 < trained.metrics["auc"] <= 1
    history = trained.history
    assert {"event", "step", "epoch", "logloss"} <= set(history.columns)
    assert history[history.event == "valid"].epoch.tolist() == sorted(history[history.event == "valid"].epoch)


def test_kinds_of_tables(trained, tmp_path):
    rows = clicks(3, 200)
    scores = trained.predict(rows).tolist()
    assert scores == trained.predict(pl.from_pandas(rows)).to_list()
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    assert scores == trained.predict(tmp_path / "rows.parquet")
    assert isinstance(trained.predict([str(tmp_path / "rows.parquet")]), list)


def test_polars_trains(trained):
    run = wdlrun.train(pl.from_pandas(clicks(1)), "click", np=2, verbose=False, train__epochs=6)
    assert run.metrics["auc"] == trained.metrics["auc"]


def test_categories_and_missing_values(trained):
    """A value of a category, of a plain string and of an object column is the same; None and NaN are missing."""
    rows = clicks(4, 50)
    plain = rows.assign(city=rows["city"].astype(str), visits=rows["visits"].astype(float), member=rows["member"].astype(object))
    plain["price"] = [None if np.isnan(p) else p for p in rows["price"]]
    assert trained.predict(plain).tolist() == trained.predict(rows).tolist()


def test_server(trained):
    rows = clicks(5, 20).drop(columns=["click", "time"])
    rows.loc[3, "city"] = np.nan
    rows.loc[4, "visits"] = pd.NA
    with trained.serve(name="ctr") as server:
        answered = [p["score"] for p in server.predict(rows)]
        assert answered == [p["score"] for p in server.predict(rows.to_dict("records"))]
        with pytest.raises(wdlrun.Error, match="price"):
            server.predict([{"price": "cheap"}])
    assert answered == pytest.approx(trained.predict(rows.assign(time=pd.NaT)).tolist(), abs=1e-6)


def test_report_and_export(trained, tmp_path):
    assert "srcdoc" in trained.report()._repr_html_()
    assert (trained.export(tmp_path / "models", name="ctr") / "config.yaml").is_file()
    out = Path(trained.export(tmp_path / "onnx", clicks(rows=40), format="onnx"))
    assert list(out.glob("*.onnx"))
    assert len(json.loads((out / "check.json").read_text())["logit"]) == 32


def test_configuration():
    data = clicks(6)
    config = wdlrun.init(data, label="click")
    assert "field: city" in config.text and "{field: tags" in config.text
    config["train.epochs"] = 1
    run = wdlrun.train(config=config, verbose=False, model__hidden=[8])
    assert run.result["epochs"] == 1 if "epochs" in run.result else run.history.epoch.max() == 1
    assert "hidden: [8]" in run.config or "- 8" in run.config
    again = wdlrun.train(clicks(7), start=run, verbose=False)
    assert again.path != run.path and again.history.epoch.max() == 1  # the settings of the first apply
    assert wdlrun.train(clicks(7), config=run.config, verbose=False).history.epoch.max() == 1


def test_model_of_a_text_file(tmp_path):
    """A model that was trained on CSV scores DataFrames, and the next training on one begins with it."""
    clicks(1, 600).drop(columns=["tags", "time"]).to_csv(tmp_path / "clicks.csv", index=False)
    run = wdlrun.train(tmp_path / "clicks.csv", "click", verbose=False, train__epochs=1)
    rows = clicks(2, 50).drop(columns=["tags", "time"])
    rows.to_csv(tmp_path / "rows.csv", index=False)
    assert run.predict(rows).tolist() == pytest.approx(run.predict(tmp_path / "rows.csv"), abs=1e-6)
    assert wdlrun.train(clicks(3, 600).drop(columns=["tags", "time"]), start=run, verbose=False).result["steps"] > run.result["steps"]


def test_output_is_printed(capsys):
    wdlrun.train(clicks(8), "click", train__epochs=1)
    printed = capsys.readouterr().out
    assert "label click" in printed and "epoch 1 of 1" in printed


@pytest.mark.parametrize("data, text", [
    (pd.DataFrame({"a": [], "click": []}), "no rows"),
    (pd.DataFrame([[1, 2, 0]], columns=["a", "a", "click"]), "used by several columns, such as 'a'"),
    (pd.DataFrame({"a": [1, "x", 2.5], "click": [0, 1, 0]}), "values of several types"),
    (pd.DataFrame({0: [1], "click": [0]}), "has no text as its name"),
    (clicks(9, 100).assign(click=np.nan), "click"),
    ({"a": [1]}, "a dict"),
    ("no/such/file.parquet", "does not exist"),
])
def test_bad_tables(data, text):
    with pytest.raises(wdlrun.Error, match=text):
        wdlrun.train(data, "click", verbose=False)


def test_errors_are_the_programs(tmp_path):
    with pytest.raises(wdlrun.Error, match="nosuch") as fault:
        wdlrun.train(clicks(9, 500), "click", verbose=False, **{"train.nosuch": 1})
    assert fault.value.exit_code not in (0, None)
    with pytest.raises(wdlrun.Error, match="no run directory"):
        wdlrun.open(tmp_path)


def test_no_permission_in_the_folder(tmp_path):
    if os.getuid() == 0:
        (tmp_path / "runs").write_text("a file where the folder should be")
    else:
        tmp_path.chmod(0o555)
    with pytest.raises(wdlrun.Error, match="runs"):
        wdlrun.train(clicks(9, 500), "click", verbose=False)
    tmp_path.chmod(0o755)


def test_two_trainings_in_one_folder():
    runs = []
    threads = [threading.Thread(target=lambda seed=seed: runs.append(wdlrun.train(clicks(seed, 500), "click", verbose=False, train__epochs=2))) for seed in (1, 2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len({run.path for run in runs}) == 2


def test_two_notebooks_in_one_folder(tmp_path):
    """Two kernels train in one folder at the same time: each has a run of its own, and latest is one of them."""
    clicks(1, 500).to_parquet(tmp_path / "clicks.parquet", index=False)
    program = "import wdlrun; print(wdlrun.train('clicks.parquet', 'click', verbose=False, train__epochs=2).path)"
    kernels = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    done = [kernel.communicate(timeout=120) for kernel in kernels]
    assert [k.returncode for k in kernels] == [0, 0], done
    paths = {Path(out.strip()).resolve() for out, _ in done}
    assert len(paths) == 2 and Path("runs/latest").resolve() in paths
    for path in paths:
        assert len(wdlrun.open(path).predict("clicks.parquet")) == 500


@pytest.mark.parametrize("interrupts", [1, 2])
def test_interrupted(tmp_path, interrupts):
    """An interrupt leaves a run with a checkpoint; a second one ends the job. Nothing keeps running."""
    clicks(1).to_parquet(tmp_path / "clicks.parquet", index=False)
    program = "import wdlrun; wdlrun.train('clicks.parquet', 'click', np=2, train__epochs=100000, train__early_stop__patience=0)"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "epoch 3 of" not in child.stdout.readline():
        assert child.poll() is None
    for _ in range(interrupts):
        child.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, errors = child.communicate(timeout=60)
    assert child.returncode != 0 and "Interrupted" in errors
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True).stdout.split()
    assert left == []
    if interrupts == 1:
        run = wdlrun.open(next(Path("runs").glob("2*")))
        assert "resume()" in errors and len(run.predict("clicks.parquet")) == ROWS


def test_the_program_is_the_installed_one(tmp_path, monkeypatch):
    other = tmp_path / "wdlrun"
    other.write_text("#!/bin/sh\necho wdlrun version 9.9.9\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert wdlrun.version() != "9.9.9"
    printed = subprocess.run([sys.executable, "-m", "wdlrun", "--version"], capture_output=True, text=True, check=True).stdout
    assert wdlrun.version() in printed
    assert subprocess.run([sys.executable, "-m", "wdlrun", "nosuch"], capture_output=True).returncode not in (0, 1)


def test_a_wheel_of_another_platform(tmp_path, monkeypatch):
    """pip refuses the wheel, and a program of another platform, which was copied, says what to install."""
    program = tmp_path / "program"
    program.write_bytes(b"\xcf\xfa\xed\xfe" + bytes(1 << 21))  # the head of a program of macOS
    program.chmod(0o755)
    other = "linux-amd64" if sys.platform == "darwin" else "darwin-arm64"
    maker = Path(__file__).resolve().parents[1] / "wheel.py"
    subprocess.run([sys.executable, str(maker), str(program), other, str(tmp_path)], check=True, capture_output=True)
    wheel = next(tmp_path.glob("*.whl"))
    pip = subprocess.run([sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(tmp_path / "into"), str(wheel)], capture_output=True, text=True)
    assert pip.returncode != 0 and "not a supported wheel on this platform" in pip.stdout + pip.stderr
    monkeypatch.setenv("WDLRUN_BINARY", str(program))
    with pytest.raises(wdlrun.Error, match="Install the wheel of this platform"):
        wdlrun.train(clicks(9, 100), "click", verbose=False)


# What does not apply to a training in random order with adaptive optimizers.
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": "a sample of weight 2 is one step, two samples are two"}


def test_scikit_learn():
    from sklearn.utils.estimator_checks import check_estimator

    done = check_estimator(wdlrun.Classifier(), expected_failed_checks=EXPECTED, on_skip=None)
    assert sum(check["status"] == "passed" for check in done) >= 55


def test_classifier():
    train, test = clicks(1), clicks(2)
    y = np.where(train["click"] == 1, "yes", "no")
    classifier = wdlrun.Classifier(processes=2, settings={"train.epochs": 6}).fit(train.drop(columns="click"), y)
    assert list(classifier.classes_) == ["no", "yes"]
    again = pickle.loads(pickle.dumps(classifier))
    scores = again.predict_proba(test.drop(columns="click"))
    assert auc(scores[:, 1], test["click"]) > 0.87
    assert set(again.predict(test.drop(columns="click"))) == {"no", "yes"}
    weights = np.where(y == "yes", 1.0, 0.0)
    with pytest.raises(ValueError, match="class"):
        wdlrun.Classifier().fit(train.drop(columns="click"), y, sample_weight=weights)


def test_notebook(tmp_path):
    """The notebook runs from top to bottom with only the wheel: its working folder has nothing of the repository."""
    import nbclient
    import nbformat

    path = Path(__file__).resolve().parents[2] / "examples/python/clicks.ipynb"
    notebook = nbformat.read(path, 4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    assert any("<iframe" in o.get("data", {}).get("text/html", "") for o in shown)
    assert any("image/png" in o.get("data", {}) for o in shown)
    assert any("'score':" in o.get("data", {}).get("text/plain", "") for o in shown)
