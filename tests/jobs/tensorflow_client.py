# Asks a server with the client of TensorFlow Serving: tensorflow_client.py GRPC REST MODEL, with a JSON
# object of the expected scores on standard input. It prints "ok" and the number of comparisons.
# Packages: tensorflow-serving-api==2.21.0 tensorflow-cpu==2.21.0
import base64, gzip, json, sys, urllib.error, urllib.request

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import classification_pb2, get_model_metadata_pb2, inference_pb2, model_management_pb2
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc, predict_pb2, prediction_service_pb2_grpc, regression_pb2
from tensorflow_serving.config import model_server_config_pb2

address, rest, model = sys.argv[1:4]
want = json.load(sys.stdin)  # cities, ages, scores and logits of the same rows
cities, ages = want["cities"], want["ages"]
channel = grpc.insecure_channel(address)
stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
control = model_service_pb2_grpc.ModelServiceStub(channel)
compared = 0


def same(got, expected, what):
    global compared
    compared += 1
    got, expected = np.asarray(got, np.float32), np.asarray(expected, np.float32)
    assert got.shape == expected.shape and (got == expected).all(), (what, got, expected)


def fails(code, text, call):
    global compared
    compared += 1
    try:
        call()
    except grpc.RpcError as e:
        assert e.code() == code and text in e.details(), (e.code(), e.details(), text)
        return
    raise AssertionError(text + ": no error")


def example(city, age):
    features = {"city": tf.train.Feature(bytes_list=tf.train.BytesList(value=[city.encode()])), "age": tf.train.Feature(int64_list=tf.train.Int64List(value=[age]))}
    return tf.train.Example(features=tf.train.Features(feature=features))


def predict(signature="", **inputs):
    r = predict_pb2.PredictRequest()
    r.model_spec.name, r.model_spec.signature_name = model, signature
    for name, value in inputs.items():
        r.inputs[name.replace("__", "/")].CopyFrom(value if isinstance(value, tensor_pb2.TensorProto) else tf.make_tensor_proto(value))
    return {name: tf.make_ndarray(t) for name, t in stub.Predict(r, 10).outputs.items()}


serialised = [example(*row).SerializeToString() for row in zip(cities, ages)]
for signature in ["", "serving_default", "predict", "serve"]:
    out = predict(signature, city=cities, age=ages)
    same(out["score"], want["scores"], signature)
    same(out["logit"], want["logits"], signature)
same(predict(city=[[c] for c in cities], age=np.array(ages, np.float32)[:, None])["score"], want["scores"], "columns")
for name in ["examples", "inputs", "input_example_tensor"]:
    same(predict(**{name: serialised})["score"], want["scores"], name)

# Every type of a number, as bytes (tensor_content) and as typed values; text too.
numbers = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"]
for name in numbers:
    packed = tf.make_tensor_proto(np.array(ages), getattr(tf, name))
    typed = tensor_pb2.TensorProto(dtype=packed.dtype, tensor_shape=packed.tensor_shape)
    values = tf.make_ndarray(packed)
    if name in ("float16", "bfloat16"):
        typed.half_val.extend(values.view(np.uint16).tolist())
    else:
        field = {"int64": "int64_val", "uint32": "uint32_val", "uint64": "uint64_val", "float32": "float_val", "float64": "double_val"}.get(name, "int_val")
        getattr(typed, field).extend(values.tolist())
    for tensor in packed, typed:
        same(predict(city=cities, age=tensor)["score"], want["scores"], name)
same(predict(city=cities, age=[str(a) for a in ages])["score"], want["scores"], "text")

# What tf.sparse and tf.ragged make; a value that all rows share.
of = tf.sparse.from_dense([[c] for c in cities])
same(predict(city__indices=of.indices.numpy(), city__values=of.values.numpy(), city__shape=of.dense_shape.numpy(), age=ages)["score"], want["scores"], "tf.sparse")
ragged = tf.ragged.constant([[cities[0]], []], dtype=tf.string)
of = ragged.to_sparse()
alone = predict(city=[cities[0], ""], age=ages)["score"]
same(predict(city__indices=of.indices.numpy(), city__values=of.values.numpy(), city__shape=of.dense_shape.numpy(), age=ages)["score"], alone, "tf.ragged")
same(predict(city=ragged.to_tensor(default_value="").numpy(), age=ages)["score"], alone, "tf.ragged, padded")
shared = predict(city=[cities[0]] * 2, age=ages)["score"]
for value in cities[0], [cities[0]]:
    same(predict(city=value, age=ages)["score"], shared, "a shared value")

# A sparse input, as the exporters of feature columns name it: row 0 has the second value.
n = len(cities)
indices, shape = np.array([[i, 0] for i in range(n)], np.int64), np.array([n, 1], np.int64)
same(predict(city__indices=indices, city__values=cities, city__shape=shape, age=ages)["score"], want["scores"], "sparse")
order = list(reversed(range(n)))
same(predict(city__indices=indices[order], city__values=[cities[i] for i in order], city__shape=shape, age=ages)["score"], want["scores"], "unsorted")
only = predict(city__indices=indices[:1], city__values=cities[:1], city__shape=shape, age=ages)["score"]
same(only[0], want["scores"][0], "sparse")
same(only[1], predict(city=[""], age=[ages[1]])["score"][0], "a row without values")
invalid = grpc.StatusCode.INVALID_ARGUMENT
fails(invalid, "has no tensor city/shape", lambda: predict(city__indices=indices, city__values=cities, age=ages))
fails(invalid, "outside the shape", lambda: predict(city__indices=indices + 1, city__values=cities, city__shape=shape, age=ages))
fails(invalid, "indices for", lambda: predict(city__indices=indices[:1], city__values=cities, city__shape=shape, age=ages))
fails(invalid, "has a shape of 1", lambda: predict(city__indices=indices, city__values=cities, city__shape=shape[:1], age=ages))
fails(invalid, "both", lambda: predict(city__indices=indices, city__values=cities, city__shape=shape, age=ages, city=cities))
fails(grpc.StatusCode.FAILED_PRECONDITION, "no signature", lambda: predict("classify", city=cities, age=ages))

for signature in ["", "classify", "classification"]:
    r = classification_pb2.ClassificationRequest()
    r.model_spec.name, r.model_spec.signature_name = model, signature
    r.input.example_list.examples.extend(example(*row) for row in zip(cities, ages))
    result = stub.Classify(r, 10).result.classifications
    same([c.classes[1].score for c in result], want["scores"], "classify")
    assert [c.label for c in result[0].classes] == ["0", "1"]
for signature in ["", "regress", "regression"]:
    r = regression_pb2.RegressionRequest()
    r.model_spec.name, r.model_spec.signature_name = model, signature
    r.input.example_list_with_context.examples.extend(tf.train.Example() for _ in range(2))
    r.input.example_list_with_context.context.CopyFrom(example(cities[0], ages[0]))
    same([x.value for x in stub.Regress(r, 10).result.regressions], [want["scores"][0]] * 2, "regress")
r = inference_pb2.MultiInferenceRequest()
r.input.example_list.examples.extend(example(*row) for row in zip(cities, ages))
for method, signature in [("classify", "classification"), ("regress", "regression")]:
    task = r.tasks.add()
    task.method_name, task.model_spec.name, task.model_spec.signature_name = "tensorflow/serving/" + method, model, signature
results = stub.MultiInference(r, 10).results
same([x.value for x in results[1].regression_result.regressions], want["scores"], "multi")
assert results[0].model_spec.signature_name == "classification"

r = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
r.model_spec.name = model
signatures = get_model_metadata_pb2.SignatureDefMap()
stub.GetModelMetadata(r, 10).metadata["signature_def"].Unpack(signatures)
assert {"serving_default", "predict", "classify", "regress"} == set(signatures.signature_def), signatures

# Empty batches, values that are not finite.
assert predict(city=np.zeros([0], object), age=np.zeros([0], np.int64))["score"].shape == (0,)
nan = predict(city=cities, age=np.array([np.nan, ages[1]]))["score"]
same(nan[1], want["scores"][1], "the row without NaN")

reload = model_management_pb2.ReloadConfigRequest()
one = reload.config.model_config_list.config.add()
one.name, one.base_path, one.model_platform = "other", "/nowhere", "tensorflow"
fails(invalid, "no model has changed", lambda: control.HandleReloadConfigRequest(reload, 10))
status = get_model_status_pb2.GetModelStatusRequest()
status.model_spec.name = model
assert control.GetModelStatus(status, 10).model_version_status[0].state == get_model_status_pb2.ModelVersionStatus.AVAILABLE


def post(path, body, headers={}):
    r = urllib.request.Request(rest + path, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(r))


rows = [{"city": c, "age": a} for c, a in zip(cities, ages)]
path = "/v1/models/%s:predict" % model
for value in [lambda v: v, lambda v: [v], lambda v: [[v]]]:
    answer = post(path, {"instances": [{k: value(v) for k, v in row.items()} for row in rows]})["predictions"]
    same([x["score"] for x in answer], want["scores"], "instances")
answer = post(path, {"inputs": {"city": [[c] for c in cities], "age": [[a] for a in ages]}})["outputs"]
same(answer["score"], want["scores"], "inputs")
for city in cities[0], [cities[0]]:
    same(post(path, {"inputs": {"city": city, "age": ages}})["outputs"]["score"], shared, "inputs that rows share")
for signature in ["", "classify"]:
    answer = post("/v1/models/%s:classify" % model, {"signature_name": signature, "examples": rows} if signature else {"examples": rows})["results"]
    same([dict(x)["1"] for x in answer], want["scores"], "classify")
    answer = post("/v1/models/%s:regress" % model, {"examples": [{"age": a} for a in ages], "context": {"city": cities[0]}})["results"]
    same(answer, shared, "regress with a context")
described = json.load(urllib.request.urlopen(rest + "/v1/models/%s/metadata" % model))["metadata"]["signature_def"]["signature_def"]
assert {"serving_default", "predict", "classify", "regress"} == set(described), described
for padding in ["=", ""]:
    examples = [{"b64": base64.b64encode(x).decode().rstrip("=" if padding == "" else " ")} for x in serialised]
    same([x["score"] for x in post(path, {"instances": [{"examples": x} for x in examples]})["predictions"]], want["scores"], "b64")
packed = gzip.compress(json.dumps({"instances": rows}).encode())
for name in ["gzip", "GZIP"]:
    same([x["score"] for x in post(path, packed, {"Content-Encoding": name})["predictions"]], want["scores"], name)
models = json.load(urllib.request.urlopen(rest + "/v1/models"))["models"]
assert [m["name"] for m in models] == [model] and int(models[0]["version"]) > 0, models
print("ok", compared)
