#!/usr/bin/env python3
"""tensorboard.py WDLRUN: a real TensorBoard shows a training that was stopped and resumed.

    pip install tensorboard==2.21.0
    python3 tests/interop/tensorboard.py wdlrun

It trains on UCI Adult, stops the training with a signal, resumes it, and reads the pages of TensorBoard over HTTP: each
scalar has a point per step, none twice; the hyperparameters are of one session that succeeded, with the test AUC as
metric; the precision-recall curves have the steps of the evaluations."""
import json, os, signal, socket, subprocess, sys, tempfile, time, urllib.parse, urllib.request

wdlrun = os.path.abspath(sys.argv[1])
os.chdir(tempfile.mkdtemp())
settings = [w for s in ("data.valid_fraction=0.1", "train.epochs=6", "train.early_stop.patience=0") for w in ("-set", s)]
slow = ["-chaos", "slow:50x@1"]  # so that the signal arrives before the end, however late
training = subprocess.Popen([wdlrun, "-np", "2", "train", "-tensorboard", *slow, *settings], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
for line in training.stderr:
    if "epoch 2 of 6" in line:
        training.send_signal(signal.SIGINT)
        break
training.stderr.read()
assert training.wait() != 0, "the training was not stopped"
run = os.path.join("runs", sorted(os.listdir("runs"))[0])
subprocess.run([wdlrun, "-np", "2", "train", "-tensorboard", "-resume", run], check=True, capture_output=True)

with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
viewer = subprocess.Popen([os.path.join(os.path.dirname(sys.executable), "tensorboard"), "--logdir", os.path.join(run, "tb"), "--port", str(port), "--load_fast", "false"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask(path, body=None, **query):
    url = f"http://127.0.0.1:{port}/data/plugin/{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
    request = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


try:
    tags, end = {}, time.monotonic() + 180
    while not any("test" in r for r in tags) and time.monotonic() < end:
        time.sleep(1)
        try:
            tags = ask("scalars/tags")
        except OSError:
            pass
    series = [(r, tag) for r, all in tags.items() for tag in all]
    points = {x: [p[1] for p in ask("scalars/scalars", run=x[0], tag=x[1])] for x in series}
    for x, steps in points.items():
        assert steps and steps == sorted(set(steps)), (x, steps)
    losses = [steps for (r, tag), steps in points.items() if r.endswith("valid") and "loss" in tag]
    assert losses and all(len(steps) == 6 for steps in losses), points
    groups = ask("hparams/session_groups", {"startIndex": 0, "sliceSize": 10, "allowedStatuses": ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"], "colParams": []})["sessionGroups"]
    sessions = [s for g in groups for s in g["sessions"]]
    assert len(groups) == 1 and [s["status"] for s in sessions] == ["STATUS_SUCCESS"], groups
    values = [m["name"] for m in sessions[0]["metricValues"]]
    assert values and len(values) < 20 and any("auc" in m["tag"].lower() for m in values), values
    assert "train.epochs" in groups[0]["hparams"], groups[0]["hparams"]
    curves = {r: all for r, all in ask("pr_curves/tags").items() if all}
    drawn = [len(ask("pr_curves/pr_curves", run=r, tag=tag)[r]) for r, all in curves.items() for tag in all]
    assert drawn and max(drawn) == 6, (curves, drawn)
    print(f"ok: {len(points)} scalars, {len(values)} metrics of hyperparameters, {len(drawn)} precision-recall curves")
finally:
    viewer.terminate()
    viewer.wait()
