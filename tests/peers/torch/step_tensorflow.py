#!/usr/bin/env python3
"""The training step of w1 or w2 with TensorFlow on CPU: one table whose last column is the wide weight, Keras' layers,
and Adagrad by TensorFlow's own operations, all in one tf.function. Prints the line of wdl_torch.py --csv.
"""
import argparse, os, time

ap = argparse.ArgumentParser()
ap.add_argument('--workload', required=True, choices=['w1', 'w2'])
ap.add_argument('--data', required=True)
ap.add_argument('--batch', type=int, default=1024)
ap.add_argument('--steps', type=int, default=130)
ap.add_argument('--cpu-clock', action='store_true', help='CPU time of the process instead of time')
a = ap.parse_args()
os.environ.update(TF_CPP_MIN_LOG_LEVEL='3', OMP_NUM_THREADS='1')
import keras
import numpy as np
import tensorflow as tf

WARM = 10
PROFILE, DIM, EMBEDDING_RATE, DENSE_RATE = {'w1': ('meituan', 10, .02, .01), 'w2': ('criteo', 16, .05, .01)}[a.workload]
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)


def start(rows):
    t = np.zeros((rows, DIM + 1), np.float32)
    rng = np.random.default_rng(8)
    for at in range(0, rows, 1 << 20):
        part = t[at:at + (1 << 20), :DIM]
        part[:] = rng.standard_normal(part.shape, np.float32) * .01
    return t


def main():
    z = np.load(os.path.join(a.data, PROFILE + '_train.npz'))
    ids, label = z['ids'].astype(np.int32), z['label'].astype(np.float32)
    dense = np.log1p(np.maximum(z['dense'], 0)).astype(np.float32)
    fields, counts, rows = ids.shape[1], dense.shape[1], int(z['vocab'].sum())
    deep = keras.Sequential([keras.layers.Dense(256, 'relu') for _ in range(3)] + [keras.layers.Dense(1)])
    deep.build((a.batch, fields * DIM + counts))
    weights = [v.value for v in deep.trainable_variables]
    squares = [tf.Variable(tf.zeros_like(w)) for w in weights]
    table, table_squares = tf.Variable(start(rows)), tf.Variable(tf.zeros([rows, DIM + 1]))

    @tf.function
    def step(i, d, y):
        e = tf.gather(table, i)
        with tf.GradientTape() as tape:
            tape.watch(e)
            x = tf.reshape(e[:, :, :DIM], [a.batch, fields * DIM])
            if counts:
                x = tf.concat([x, d], 1)
            logit = deep(x)[:, 0] + tf.reduce_sum(e[:, :, DIM], 1)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logit))
        of_rows, *of_weights = tape.gradient(loss, [e] + weights)
        unique, place = tf.unique(tf.reshape(i, [-1]))
        sums = tf.math.unsorted_segment_sum(tf.reshape(of_rows, [-1, DIM + 1]), place, tf.size(unique))
        tf.raw_ops.ResourceSparseApplyAdagradV2(var=table.handle, accum=table_squares.handle, lr=EMBEDDING_RATE, epsilon=1e-10, grad=sums, indices=unique)
        for w, s, g in zip(weights, squares, of_weights):
            tf.raw_ops.ResourceApplyAdagradV2(var=w.handle, accum=s.handle, lr=DENSE_RATE, epsilon=1e-10, grad=g)
        return loss

    clock, took = time.process_time if a.cpu_clock else time.perf_counter, []
    for k in range(a.steps):
        at = k % (len(label) // a.batch) * a.batch
        batch = [x[at:at + a.batch] for x in (ids, dense, label)]
        begin = clock()
        step(*map(tf.constant, batch)).numpy()
        took.append(clock() - begin)
    print('%s,tensorflow,1,1,%d,%.0f,' % (a.workload, a.batch, a.batch / np.median(took[WARM:])), flush=True)


main()
