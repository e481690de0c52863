"""Writes adamw.json: ten steps of AdamW (Loshchilov and Hutter 2019, algorithm 2) on the
tiny Wide & Deep model of parity.json, in Python's float64. Rows take a step only where a
batch has their key. Run it in this folder: python3 adamw.py
"""
import json
import math

RATE, BETA1, BETA2, EPSILON, DECAY = 0.01, 0.9, 0.999, 1e-8, 0.5
base = json.load(open("parity.json"))
F, E, BATCH = 3, 4, len(base["label"])


def zeros(tree):
    return [zeros(t) for t in tree] if isinstance(tree, list) else 0.0


def forward(p, row):
    """The logit, and each layer's input."""
    x = [sum(p[f"emb{f}"][k][e] for k in base["bags"][f][row]) for f in range(F) for e in range(E)] + base["dense"][row]
    wide = p["bias_wide"][0] + sum(p[f"wide{f}"][k] for f in range(F) for k in base["bags"][f][row])
    inputs = []
    for layer in "123":
        inputs.append(x)
        w, b = p["w" + layer], p["b" + layer]
        x = [b[j] + sum(x[i] * w[i][j] for i in range(len(x))) for j in range(len(b))]
        if layer != "3":
            x = [max(v, 0.0) for v in x]
    return wide + x[0], inputs


def gradients(p):
    loss, logits, g = 0.0, [], {name: zeros(value) for name, value in p.items()}
    for row, label in enumerate(base["label"]):
        z, inputs = forward(p, row)
        logits.append(z)
        loss += (math.log1p(math.exp(-z)) + (1 - label) * z) / BATCH
        dy = [(1 / (1 + math.exp(-z)) - label) / BATCH]
        g["bias_wide"][0] += dy[0]
        for f in range(F):
            for k in base["bags"][f][row]:
                g[f"wide{f}"][k] += dy[0]
        for layer in "321":
            x, w = inputs[int(layer) - 1], p["w" + layer]
            for j, d in enumerate(dy):
                g["b" + layer][j] += d
                for i in range(len(x)):
                    g["w" + layer][i][j] += x[i] * d
            dx = [sum(w[i][j] * d for j, d in enumerate(dy)) for i in range(len(x))]
            dy = dx if layer == "1" else [d if v > 0 else 0.0 for d, v in zip(dx, x)]
        for f in range(F):
            for k in base["bags"][f][row]:
                for e in range(E):
                    g[f"emb{f}"][k][e] += dy[f * E + e]
    return loss, logits, g


def update(w, g, m, v, step):
    for i in range(len(w)):
        if isinstance(w[i], list):
            update(w[i], g[i], m[i], v[i], step)
            continue
        m[i] = BETA1 * m[i] + (1 - BETA1) * g[i]
        v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] ** 2
        w[i] -= RATE * (m[i] / (1 - BETA1**step) / (math.sqrt(v[i] / (1 - BETA2**step)) + EPSILON) + DECAY * w[i])


p, run = base["init"], {"losses": []}
m, v = ({name: zeros(value) for name, value in p.items()} for _ in range(2))
for step in range(1, 11):
    loss, logits, g = gradients(p)
    run["losses"].append(loss)
    if step == 1:
        run["logits"], run["grads"] = logits, g
    for name in p:
        if name[:-1] in ("emb", "wide"):
            for k in {k for bag in base["bags"][int(name[-1])] for k in bag}:
                w, gk, mk, vk = ([x[name][k]] for x in (p, g, m, v))
                update(w, gk, mk, vk, step)
                p[name][k], m[name][k], v[name][k] = w[0], mk[0], vk[0]
        else:
            update(p[name], g[name], m[name], v[name], step)
run["params"] = p
rounded = json.loads(json.dumps({"runs": {"adamw": run}}), parse_float=lambda s: round(float(s), 10))
json.dump(rounded, open("adamw.json", "w"), separators=(",", ":"))
