#!/usr/bin/env python3
"""A whole training in PyTorch on CPU, from a TSV file to the AUC of another file: the peer of `wdlrun train`.

Wide&Deep as people write it: pandas reads both files and numbers the categories, one nn.Embedding has the
embeddings of all fields and the wide weight as its last column, torch.optim.SparseAdam and Adam, and
DistributedDataParallel over Gloo with two ranks. The files have Criteo's layout: a label, 13 counts, 26 categories.
Prints one line of JSON.
"""
import argparse, datetime, json, os, subprocess, sys, time, warnings

COUNTS, CATEGORIES = range(1, 14), range(14, 40)


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument('--np', type=int, default=1)
    ap.add_argument('--rank', type=int, default=-1)
    ap.add_argument('--train', required=True)
    ap.add_argument('--test', required=True)
    ap.add_argument('--batch', type=int, default=1024, help='global batch')
    ap.add_argument('--dim', type=int, default=16)
    ap.add_argument('--hidden', default='128,64')
    ap.add_argument('--lr', type=float, default=0.001)
    ap.add_argument('--port', type=int, default=29733)
    return ap.parse_args()


a = parse()
for k in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'):
    os.environ[k] = '1'  # before numpy loads the BLAS
if a.np > 1 and a.rank < 0:
    env = dict(os.environ, MASTER_ADDR='127.0.0.1', MASTER_PORT=str(a.port), GLOO_SOCKET_IFNAME='lo')
    ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], '--rank', str(r)], env=env) for r in range(a.np)]
    sys.exit(max(p.wait() for p in ranks))

warnings.filterwarnings('ignore')
import numpy as np
import pandas as pd
import torch
from torch import nn


def read(path, known=None):
    """Returns numbers of categories, counts, labels and the categories by column."""
    types = {0: np.float32, **{c: np.float32 for c in COUNTS}, **{c: 'category' for c in CATEGORIES}}
    t = pd.read_csv(path, sep='\t', header=None, dtype=types)
    found, numbers = [], np.empty((len(t), len(CATEGORIES)), np.int64)
    for i, c in enumerate(CATEGORIES):
        values = t[c].cat if known is None else t[c].cat.set_categories(known[i]).cat
        found.append(values.categories)
        numbers[:, i] = values.codes + 1  # 0: missing or unknown
    counts = np.log1p(np.maximum(t[list(COUNTS)].fillna(0).to_numpy(np.float32), 0))
    return numbers, counts, t[0].to_numpy(), found


class WideDeep(nn.Module):
    def __init__(self, rows, dim, hidden):
        super().__init__()
        weights = torch.zeros(rows, dim + 1)
        weights[:, :dim].normal_(0, 0.01)
        self.embedding = nn.Embedding(rows, dim + 1, sparse=True, _weight=weights)
        layers, width = [], len(CATEGORIES) * dim + len(COUNTS)
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU()]
            width = h
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))
        self.dim = dim

    def forward(self, ids, counts):
        e = self.embedding(ids)
        deep = torch.cat([e[:, :, :self.dim].reshape(len(ids), -1), counts], 1)
        return self.deep(deep).squeeze(1) + e[:, :, self.dim].sum(1)


def train(model, data, rank):
    """One epoch in random order; returns samples per second."""
    ids, counts, labels = data
    if a.np > 1:
        import torch.distributed as dist
        dist.init_process_group('gloo', rank=rank, world_size=a.np, timeout=datetime.timedelta(minutes=5))
    whole = nn.parallel.DistributedDataParallel(model) if a.np > 1 else model
    sparse = torch.optim.SparseAdam(list(model.embedding.parameters()), lr=a.lr)
    dense = torch.optim.Adam(model.deep.parameters(), lr=a.lr, foreach=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    begin, own = time.time(), a.batch // a.np
    for at in range(0, len(labels) - a.batch + 1, a.batch):
        p = order[at + rank * own:at + (rank + 1) * own]
        loss = nn.functional.binary_cross_entropy_with_logits(whole(ids[p], counts[p]), labels[p])
        sparse.zero_grad(set_to_none=True)
        dense.zero_grad(set_to_none=True)
        loss.backward()
        sparse.step()
        dense.step()
    return len(labels) / (time.time() - begin)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, begin = max(a.rank, 0), time.time()
    ids, counts, labels, known = read(a.train)
    sizes = np.array([len(k) + 1 for k in known])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    ids += first
    seconds = time.time() - begin
    model = WideDeep(int(sizes.sum()), a.dim, [int(h) for h in a.hidden.split(',')])
    speed = train(model, [torch.from_numpy(x) for x in (ids, counts, labels)], rank)
    if rank > 0:
        return
    from sklearn.metrics import roc_auc_score
    ids, counts, labels, _ = read(a.test, known)
    ids, counts = torch.from_numpy(ids + first), torch.from_numpy(counts)
    with torch.no_grad():
        logits = torch.cat([model(ids[k:k + 4096], counts[k:k + 4096]) for k in range(0, len(labels), 4096)])
    print(json.dumps({'read_seconds': seconds, 'samples_per_second': speed, 'test_auc': roc_auc_score(labels, logits.numpy())}))


main()
