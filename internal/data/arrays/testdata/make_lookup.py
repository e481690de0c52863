"""Writes lookup/: a checkpoint of tensorflow-cpu 2.21.0 with embeddings and the hash tables of their
values. Run in this folder."""
import tensorflow as tf

Table = tf.lookup.experimental.MutableHashTable


class Model(tf.Module):
    def __init__(self):
        self.item = tf.Variable(tf.reshape(tf.range(12, dtype=tf.float32), [4, 3]))
        self.item_table = Table(tf.string, tf.int64, default_value=0)
        self.item_table.insert(tf.constant(["i3", "i1", "naïve\nline"]), tf.constant([1, 3, 2], tf.int64))
        self.shop = tf.Variable(tf.reshape(tf.range(6, dtype=tf.float32), [2, 3]))
        self.shop_table = Table(tf.int64, tf.int64, default_value=-1)
        self.shop_table.insert(tf.constant([40, 3], tf.int64), tf.constant([0, 1], tf.int64))


tf.train.Checkpoint(model=Model()).write("lookup/ckpt")
