"""Writes tensorflow/ and partitioned/: checkpoints of tensorflow-cpu 2.21.0, with the arrays of
model.safetensors in partitioned/, kernels as input x output. Run in this folder."""
import os

import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file


class Model(tf.Module):
    def __init__(self):
        self.item = tf.Variable(tf.reshape(tf.range(24, dtype=tf.float32), [6, 4]))
        self.kernel = tf.Variable(tf.reshape(tf.range(6, dtype=tf.float64), [2, 3]))
        self.half = tf.Variable(tf.cast(tf.reshape(tf.range(6.0), [2, 3]), tf.bfloat16))
        self.step = tf.Variable(5, dtype=tf.int64)
        self.names = tf.Variable(["a", "bc"])


tf.train.Checkpoint(model=Model()).write("tensorflow/ckpt")

v1 = tf.compat.v1
with tf.Graph().as_default():
    arrays = load_file("model.safetensors")
    for name, x in arrays.items():
        name = name.replace(".", "/")
        if name.startswith("mlp") and x.ndim == 2:
            x = np.ascontiguousarray(x.T)
        if name == "item/weight":
            part = lambda shape, dtype=None, partition_info=None, x=x: x[partition_info.var_offset[0]:][: shape[0]]
            with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(3)):
                v1.get_variable(name, x.shape, initializer=part, use_resource=False)
        else:
            v1.get_variable(name, initializer=x)
    v1.get_variable("step", initializer=np.int64(7))
    os.makedirs("partitioned", exist_ok=True)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, "partitioned/model.ckpt", write_meta_graph=False, write_state=False)
