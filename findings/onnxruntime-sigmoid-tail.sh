#!/usr/bin/env bash
# onnxruntime 1.32.0 (CPU, float32): the operator Sigmoid loses the tail. At a logit of -14 it is 7 % off, at -16 47 %, and
# from -18 on it gives exactly 0. Neg, Exp, Add and Reciprocal, of which the operator's definition consists, keep seven
# digits down to -80 in the same session.
#
# Why it matters: an exported click model whose events are rare (conversions, fraud) has logits around -15. Its scores
# lose their order and their calibration, and a score of 0 has an infinite log-loss.
#
# Seen, by logit: the true value, both results, and their relative errors:
#   -14  true 8.3153e-07  Sigmoid 7.7486e-07 (off by 6.8e-02)  Neg, Exp, Add, Reciprocal 8.3153e-07 (off by 1.6e-08)
#   -18  true 1.5230e-08  Sigmoid 0.0000e+00 (off by 1.0e+00)  Neg, Exp, Add, Reciprocal 1.5230e-08 (off by 8.7e-08)
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >"$dir/run.py" <<'PY'
import math
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper


def session(nodes, constants=()):
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])],
        list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
operator = session([helper.make_node("Sigmoid", ["x"], ["y"])])
parts = session([
    helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Exp", ["n"], ["e"]),
    helper.make_node("Add", ["e", "one"], ["d"]), helper.make_node("Reciprocal", ["d"], ["y"])], [one])

logits = np.array([-5, -10, -12, -14, -16, -18, -20, -40, -80], dtype=np.float32)
a, b = (s.run(None, {"x": logits})[0] for s in (operator, parts))
wrong = []
for x, op, four in zip(logits, a, b):
    true = 1 / (1 + math.exp(-float(x)))
    e_op, e_four = abs(float(op) - true) / true, abs(float(four) - true) / true
    print(f"{x:5.0f}  true {true:.4e}  Sigmoid {op:.4e} (off by {e_op:.1e})  Neg, Exp, Add, Reciprocal {four:.4e} (off by {e_four:.1e})")
    if e_four > 1e-5:
        wrong.append(f"{x}: the four operators are off by {e_four:.1e}")
    if x <= -18 and op != 0:
        wrong.append(f"{x}: Sigmoid gives {op}, not 0")
    if x == -16 and e_op < .01:
        wrong.append(f"{x}: Sigmoid is right to {e_op:.1e}")
if wrong:
    sys.exit("the behaviour has changed: " + "; ".join(wrong))
PY
"$dir/venv/bin/python" "$dir/run.py"
