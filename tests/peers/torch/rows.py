#!/usr/bin/env python3
"""Stores the rows of `wdlrun gen` as arrays, as package internal/bench/step makes batches of them.

  wdlrun gen -profile criteo -rows 1000000 -out rows.tsv
  rows.py criteo rows.tsv rows.npz

ids int32 [N,F] (the field's offset + token % its number of values, the offset if missing),
dense int32 [N,D] (-1 = missing), label uint8, vocab int64 [F].
"""
import sys
import numpy as np

VOCAB = {
    'criteo': [1460, 583, 400000, 300000, 305, 24, 12517, 633, 3, 93145, 5683, 350000, 3194, 27,
               14992, 250000, 10, 5652, 2173, 4, 300000, 18, 15, 159457, 105, 100000],
    'meituan': [v for v in (10, 100, 1000, 10000, 88890, 900000) for _ in range(10)],
}

profile, tsv, npz = sys.argv[1:]
vocab = np.array(VOCAB[profile], np.int64)
offset = np.concatenate([[0], np.cumsum(vocab)[:-1]])
ids, dense, label = [], [], []
for line in open(tsv):
    y, *fields = line.rstrip('\n').split('\t')
    d = len(fields) - len(vocab)
    label.append(int(y))
    dense.append(np.array([int(x or -1) for x in fields[:d]], np.int32))
    ids.append((offset + np.array([int(x or '0', 16) for x in fields[d:]], np.int64) % vocab).astype(np.int32))
np.savez(npz, ids=np.array(ids), dense=np.array(dense), label=np.array(label, np.uint8), vocab=vocab)
