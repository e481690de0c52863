# One training step of a perceptron in PyTorch, for gpu-check. Standard input is a line of JSON
# and float32 numbers: inputs, logits to add, labels, then weights and biases of each layer. The
# answer is a line of JSON and, without "times", the gradient of the summed loss with respect to
# the inputs, then the parameters after the step.
import sys

if sys.path[:1] == [""]:
    del sys.path[0]  # a file of the current directory could be named as a module

import array
import json
import time

request = json.loads(sys.stdin.buffer.readline())


def answer(head, tensors=()):
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n")
    for t in tensors:
        sys.stdout.buffer.write(array.array("f", t.detach().cpu().flatten().tolist()).tobytes())
    sys.exit()


try:
    import torch
except Exception as e:
    answer({"skip": "python3 cannot import torch: %s" % e})
device = torch.device(request["device"])
cuda = device.type == "cuda"
if cuda and not torch.cuda.is_available():
    answer({"skip": "PyTorch %s cannot use CUDA" % torch.__version__})

torch.backends.cuda.matmul.allow_tf32 = False
data = torch.frombuffer(bytearray(sys.stdin.buffer.read()), dtype=torch.float32)
rows, layers, at = request["rows"], request["layers"], 0


def take(*shape):
    global at
    n = 1
    for s in shape:
        n *= s
    at += n
    return data[at - n : at].reshape(shape)


host = [take(rows, layers[0][0]), take(rows), take(rows)]
params = [p for i, o in layers for p in (take(i, o), take(o))]
params = [p.clone().to(device).requires_grad_() for p in params]
if cuda:
    host = [t.pin_memory() for t in host]
dx = torch.empty(rows, layers[0][0], pin_memory=cuda)
activation = {"tanh": torch.tanh, "relu": torch.relu}[request["activation"]]
optimizer = torch.optim.Adagrad(
    params, lr=request["rate"], eps=request["epsilon"], initial_accumulator_value=request["accumulator"]
)


def mean_loss(x, logit, label):
    for k in range(0, len(params), 2):
        x = torch.addmm(params[k + 1], x, params[k])
        if k + 2 < len(params):
            x = activation(x)
    return torch.nn.functional.binary_cross_entropy_with_logits(x.flatten() + logit, label)


def step(mean_loss):
    x, logit, label = (t.detach().to(device, non_blocking=True) for t in host)
    x.requires_grad_()
    optimizer.zero_grad(set_to_none=True)
    loss = mean_loss(x, logit, label)
    loss.backward()
    dx.copy_(x.grad, non_blocking=True)
    optimizer.step()
    return loss


def end():
    if cuda:
        torch.cuda.synchronize()


head = {"torch": torch.__version__, "compiled": False, "loss": 0, "seconds": 0}
if not request["times"]:
    head["loss"] = step(mean_loss).item() * rows
    end()
    answer(head, [dx * rows] + params)
if cuda and hasattr(torch, "compile"):
    try:
        compiled = torch.compile(mean_loss)
        step(compiled)
        mean_loss, head["compiled"] = compiled, True
    except Exception as e:
        print("not compiled: %s" % e, file=sys.stderr)
for _ in range(3):
    step(mean_loss)
end()
began = time.perf_counter()
for _ in range(request["times"]):
    step(mean_loss)
end()
head["seconds"] = (time.perf_counter() - began) / request["times"]
answer(head)
