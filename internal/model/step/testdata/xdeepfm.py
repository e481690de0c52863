"""Writes xdeepfm.json: the tiny model of parity.json as an xDeepFM (Lian et al. 2018),
with interaction layers of 3 and 2 feature maps. The formulas are those of the paper,
element by element, in Python's float64; gradients are by reverse accumulation over
scalars. Run it in this folder: python3 xdeepfm.py
"""
import json
import math
import random


class Number:
    """A scalar with the gradient of the loss by it."""

    def __init__(self, value, parents=()):
        self.value, self.grad, self.parents = value, 0.0, parents

    def __add__(self, other):
        return Number(self.value + other.value, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        return Number(self.value * other.value, ((self, other.value), (other, self.value)))

    def relu(self):
        return Number(max(self.value, 0.0), ((self, 1.0 if self.value > 0 else 0.0),))

    def loss(self, label):
        p = 1 / (1 + math.exp(-self.value))
        return Number(-math.log(p if label else 1 - p), ((self, p - label),))

    def backward(self):
        order, seen = [], set()

        def visit(n):
            if id(n) not in seen:
                seen.add(id(n))
                for parent, _ in n.parents:
                    visit(parent)
                order.append(n)

        visit(self)
        self.grad = 1.0
        for n in reversed(order):
            for parent, slope in n.parents:
                parent.grad += slope * n.grad


def total(numbers):
    out = Number(0.0)
    for n in numbers:
        out = out + n
    return out


def linear(x, w, b, relu):
    y = [total([b[j]] + [x[i] * w[i][j] for i in range(len(x))]) for j in range(len(b))]
    return [n.relu() for n in y] if relu else y


def logit(p, bags, dense, row):
    wide = total([p["bias_wide"][0]] + [p[f"wide{f}"][k] for f in range(F) for k in bags[f][row]])
    x0 = [[total([p[f"emb{f}"][k][e] for k in bags[f][row]]) for e in range(E)] for f in range(F)]
    x = [v for field in x0 for v in field] + [Number(d) for d in dense[row]]
    for w, b, relu in (("w1", "b1", True), ("w2", "b2", True), ("w3", "b3", False)):
        x = linear(x, p[w], p[b], relu)
    maps, sums = x0, []
    for layer, count in enumerate(MAPS):
        w = p[f"cin{layer}"]  # (maps below · F) × count
        maps = [[total([w[i * F + j][h] * maps[i][e] * x0[j][e] for i in range(len(maps)) for j in range(F)])
                 for e in range(E)] for h in range(count)]
        sums += [total(m) for m in maps]
    return wide + x[0] + linear(sums, p["cin_out"], p["cin_bias"], False)[0]


def walk(tree, f):
    return [walk(t, f) for t in tree] if isinstance(tree, list) else f(tree)


base = json.load(open("parity.json"))
F, E, MAPS, RATE = 3, 4, [3, 2], 0.1
rng = random.Random(18)
draw = lambda *shape: [draw(*shape[1:]) for _ in range(shape[0])] if shape else round(rng.uniform(-0.5, 0.5), 4)
init = dict(base["init"], cin0=draw(F * F, 3), cin1=draw(3 * F, 2), cin_out=draw(5, 1), cin_bias=draw(1))
params = {name: walk(value, Number) for name, value in init.items()}
run = {"losses": []}
for step in range(10):
    logits = [logit(params, base["bags"], base["dense"], r) for r in range(len(base["label"]))]
    mean = total([z.loss(y) for z, y in zip(logits, base["label"])]) * Number(1 / len(logits))
    mean.backward()
    run["losses"].append(mean.value)
    if step == 0:
        run["logits"] = [z.value for z in logits]
        run["grads"] = {name: walk(value, lambda n: n.grad) for name, value in params.items()}
    params = {name: walk(value, lambda n: Number(n.value - RATE * n.grad)) for name, value in params.items()}
run["params"] = {name: walk(value, lambda n: n.value) for name, value in params.items()}
out = {"init": init, "bags": base["bags"], "dense": base["dense"], "label": base["label"], "runs": {"sgd": run}}
rounded = json.loads(json.dumps(out), parse_float=lambda s: round(float(s), 10))
json.dump(rounded, open("xdeepfm.json", "w"), separators=(",", ":"))
