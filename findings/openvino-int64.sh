#!/usr/bin/env bash
# OpenVINO 2026.4.1 (CPU device): an ONNX graph over int64 is computed with 32 bits, without an error or a message. 2^32+5 equals 5;
# a sum returns the low half.
#
# Why it matters: ids of users and items, and hashes, are 64-bit numbers. A model that compares or looks up ids finds the
# row of another id. onnxruntime computes the same graph with 64 bits.
#
# Seen, for x = 5, 4294967301 (2^32+5) and 9007199254740993 (2^53+1):
#   x == 5        onnxruntime [True False False]  OpenVINO [True True False]
#   x + 0         onnxruntime [5 4294967301 9007199254740993]  OpenVINO [5 5 1]
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 numpy==2.4.6
cat >"$dir/run.py" <<'PY'
import sys

import numpy as np
import onnxruntime
import openvino
from onnx import TensorProto, helper

x = np.array([5, 2**32 + 5, 2**53 + 1])
wrong = []
for name, op, constant, kind in (("x == 5", "Equal", 5, TensorProto.BOOL), ("x + 0", "Add", 0, TensorProto.INT64)):
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "c"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [None])],
        [helper.make_tensor_value_info("y", kind, [None])],
        [helper.make_tensor("c", TensorProto.INT64, [1], [constant])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    true = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    got = next(iter(openvino.Core().compile_model(openvino.Core().read_model(model), "CPU")(x).values()))
    print(f"{name:8} onnxruntime {true}  OpenVINO {got}")
    if (true == got).all():
        wrong.append(name + " is right")
print("OpenVINO", openvino.__version__)
if wrong:
    sys.exit("the behaviour has changed: " + "; ".join(wrong))
PY
"$dir/venv/bin/python" "$dir/run.py"
