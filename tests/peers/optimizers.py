#!/usr/bin/env python3
"""Three steps of the optimizers of PyTorch, Keras and TensorFlow on one embedding, as lines of Go for optim/peers_test.go.

    pip install torch==2.15.0 tensorflow-cpu==2.21.0
    python optimizers.py torch; python optimizers.py tensorflow

The embedding has six rows of two. Row 1 occurs twice in the first and third step, rows 0 and 5 in none. A gradient
belongs to an occurrence. Each optimizer adds the gradients of a row by its own rules.
"""

import sys

import numpy as np

ROWS, DIM, RATE = 6, 2, 0.1
START = np.array([[(7 * r + 3 * c) % 11 / 10 - 0.5 for c in range(DIM)] for r in range(ROWS)], np.float32)
BATCHES = [[1, 2, 1], [2, 3], [1, 1, 4]]


def gradient(step, place, column):
    return ((5 * step + 3 * place + 2 * column) % 7 - 3) / 4


def gradients(step):
    return np.array([[gradient(step, i, c) for c in range(DIM)] for i in range(len(BATCHES[step]))], np.float32)


def torch_steps(make, sparse):
    import torch

    table = torch.nn.Embedding(ROWS, DIM, sparse=sparse)
    table.weight.data.copy_(torch.tensor(START))
    optimizer = make(torch.optim, table.parameters())
    for step, keys in enumerate(BATCHES):
        optimizer.zero_grad()
        (table(torch.tensor(keys)) * torch.tensor(gradients(step))).sum().backward()
        optimizer.step()
    return table.weight.detach().numpy()


def tensorflow_steps(optimizer, apply):
    import tensorflow as tf

    table = tf.Variable(START)
    for step, keys in enumerate(BATCHES):
        slices = tf.IndexedSlices(tf.constant(gradients(step)), tf.constant(keys), tf.constant([ROWS, DIM]))
        apply(optimizer, slices, table)
    return table.numpy()


def torch_results():
    import torch

    print("// torch " + torch.__version__.split("+")[0])
    return {
        "torch SGD": torch_steps(lambda o, p: o.SGD(p, lr=RATE), True),
        "torch Adagrad, start 0": torch_steps(lambda o, p: o.Adagrad(p, lr=RATE), True),
        "torch Adagrad, start 0.1": torch_steps(lambda o, p: o.Adagrad(p, lr=RATE, initial_accumulator_value=0.1), True),
        "torch Adagrad, start 1": torch_steps(lambda o, p: o.Adagrad(p, lr=RATE, initial_accumulator_value=1), True),
        "torch SparseAdam": torch_steps(lambda o, p: o.SparseAdam(list(p), lr=RATE), True),
        "torch Adam": torch_steps(lambda o, p: o.Adam(p, lr=RATE), False),
        "torch AdamW, decay 0.1": torch_steps(lambda o, p: o.AdamW(p, lr=RATE, weight_decay=0.1), False),
    }


def tensorflow_results():
    import keras as k
    import tensorflow as tf

    print(f"// tensorflow {tf.__version__}, keras {k.__version__}")
    v1 = tf.compat.v1.train
    keras = lambda o, g, v: o.apply([g], [v])
    old = lambda o, g, v: o.apply_gradients([(g, v)])
    return {
        "Keras SGD": tensorflow_steps(k.optimizers.SGD(RATE), keras),
        "Keras Adagrad, start 0.1": tensorflow_steps(k.optimizers.Adagrad(RATE, initial_accumulator_value=0.1), keras),
        "Keras Adam": tensorflow_steps(k.optimizers.Adam(RATE), keras),
        "Keras Ftrl, start 0.1": tensorflow_steps(k.optimizers.Ftrl(RATE, initial_accumulator_value=0.1), keras),
        "TF1 SGD": tensorflow_steps(v1.GradientDescentOptimizer(RATE), old),
        "TF1 Adagrad, start 0.1": tensorflow_steps(v1.AdagradOptimizer(RATE, initial_accumulator_value=0.1), old),
        "TF1 Adam": tensorflow_steps(v1.AdamOptimizer(RATE), old),
        "TF1 Ftrl, start 0.1": tensorflow_steps(v1.FtrlOptimizer(RATE, initial_accumulator_value=0.1), old),
        "TF1 Ftrl, start 0, beta 1": tensorflow_steps(v1.FtrlOptimizer(RATE, initial_accumulator_value=0, beta=1), old),
    }


if __name__ == "__main__":
    # The two libraries do not load into one process.
    for name, table in (torch_results if sys.argv[1:] == ["torch"] else tensorflow_results)().items():
        print(f'{{"{name}", []float32{{{", ".join(f"{x:.7g}" for x in table.ravel())}}}}},')
