"""Checks a runtime of ONNX with the records of check.json, beside the model: python3 check.py [onnxruntime] [openvino]

It needs numpy and one of these packages, and uses those that are installed. Exit code: 0 if all logits
are equal, 1 if one differs, 2 if there is no runtime that can run the model.
"""

import importlib.util
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODEL = str(HERE / "model.onnx")
TOLERANCE = 1e-4  # of a logit, times the logit if that is above 1


def onnxruntime(feed):
    import onnxruntime

    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    return onnxruntime.__version__, *session.run(["logit", "score"], feed)


def openvino(feed):
    import openvino

    # Processors with bfloat16 would compute in it.
    got = openvino.Core().compile_model(MODEL, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(feed)
    return openvino.__version__, got["logit"], got["score"]


def main(names):
    named = names
    names = names or [n for n in ("onnxruntime", "openvino") if importlib.util.find_spec(n)]
    if not names or not importlib.util.find_spec("numpy"):
        print("no runtime: pip install numpy onnxruntime, or numpy openvino")
        return 2
    import numpy as np

    types = {"double": np.float64, "float": np.float32, "int32": np.int32, "int64": np.int64, "string": object}
    check = json.loads((HERE / "check.json").read_text(encoding="utf-8"))
    value = lambda v: np.nan if v is None else v
    feed = {name: np.array([value(v) for v in x["values"]], types[x["type"]]).reshape(x["shape"]) for name, x in check["inputs"].items()}
    want = {name: np.array(check[name]) for name in ("logit", "score")}
    code, ran = 0, 0
    for name in names:
        try:
            version, logit, score = globals()[name](feed)
        except Exception as e:
            print(f"{name}: cannot run the model; export it with -ids rows if it lacks LabelEncoder: {str(e).strip().splitlines()[-1][:300]}")
            code = 1 if named else code
            continue
        ran += 1
        off = np.abs(logit - want["logit"]) / np.maximum(1, np.abs(want["logit"]))
        far = np.abs(score - want["score"]) / np.maximum(np.abs(want["score"]), 1e-30)
        wrong = int((~(off <= TOLERANCE)).any(axis=1).sum())
        code = max(code, int(wrong > 0))
        print(f"{name} {version}: {wrong} of {len(off)} records differ, a logit by up to {np.max(off):.1g}, a score by up to {np.max(far):.1g} of it")
    return code if ran or code else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
