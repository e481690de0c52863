#!/usr/bin/env python3
"""The training step of w1 or w2 with the embedding tables of TorchRec or FBGEMM, whose optimizer runs in their
backward pass, on CPU. Prints the line of wdl_torch.py --csv: workload,name,ranks,threads,batch,samples/s.

  --tables torchrec   an EmbeddingBagCollection, divided by tables over the ranks (Gloo), row-wise Adagrad
           fbgemm     one SplitTableBatchedEmbeddingBags with Adagrad, one rank

Rows have the embedding, the wide weight, and padding to the multiple of four that FBGEMM demands.
"""
import argparse, datetime, logging, os, subprocess, sys, time, warnings

ap = argparse.ArgumentParser()
ap.add_argument('--tables', default='torchrec', choices=['torchrec', 'fbgemm'])
ap.add_argument('--workload', required=True, choices=['w1', 'w2'])
ap.add_argument('--data', required=True)
ap.add_argument('--batch', type=int, default=1024, help='sum over the ranks')
ap.add_argument('--steps', type=int, default=130)
ap.add_argument('--np', type=int, default=1)
ap.add_argument('--rank', type=int, default=-1)
ap.add_argument('--port', type=int, default=29655)
ap.add_argument('--cpu-clock', action='store_true', help='CPU time of the process instead of time')
a = ap.parse_args()
os.environ.update(OMP_NUM_THREADS='1', MKL_NUM_THREADS='1', MASTER_ADDR='127.0.0.1', MASTER_PORT=str(a.port), GLOO_SOCKET_IFNAME='lo')
if a.np > 1 and a.rank < 0:
    ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], '--rank', str(r)],
                              env=dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(a.np))) for r in range(a.np)]
    sys.exit(max(p.wait() for p in ranks))

warnings.filterwarnings('ignore')
logging.disable(logging.WARNING)
import numpy as np
import torch
from torch import nn
import torch.distributed as dist

WARM = 10
PROFILE, DIM, EMBEDDING_RATE, DENSE_RATE = {'w1': ('meituan', 10, .02, .01), 'w2': ('criteo', 16, .05, .01)}[a.workload]
WIDTH = (DIM + 1 + 3) // 4 * 4
torch.set_num_threads(1)
torch.set_flush_denormal(True)
torch.manual_seed(1)


def start(rows):
    t = torch.zeros(rows, WIDTH)
    t[:, :DIM].normal_(0, .01)
    return t


def fbgemm(vocab, batch):
    """Returns a function from ids [batch, fields] to rows [batch, fields, WIDTH]."""
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, OptimType, SplitTableBatchedEmbeddingBagsCodegen
    rows, fields = int(vocab.sum()), len(vocab)
    bags = SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, WIDTH, EmbeddingLocation.HOST, ComputeDevice.CPU)], feature_table_map=[0] * fields,
        optimizer=OptimType.EXACT_ADAGRAD, learning_rate=EMBEDDING_RATE, eps=1e-10, pooling_mode=PoolingMode.SUM)
    bags.split_embedding_weights()[0].copy_(start(rows))
    ends = torch.arange(fields * batch + 1)
    return lambda ids: bags(ids.t().reshape(-1), ends).view(len(ids), fields, WIDTH)


def torchrec(vocab, batch):
    """Returns a function from ids [batch, fields] to rows [batch, fields, WIDTH]."""
    dist.init_process_group('gloo', rank=max(a.rank, 0), world_size=a.np, timeout=datetime.timedelta(minutes=2))
    from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints
    from torchrec.distributed.types import ShardingEnv
    from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
    from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
    cpu, fields = torch.device('cpu'), len(vocab)
    names = ['f%d' % f for f in range(fields)]
    tables = EmbeddingBagCollection(device=cpu, tables=[
        EmbeddingBagConfig(name=n, embedding_dim=WIDTH, num_embeddings=int(v), feature_names=[n]) for n, v in zip(names, vocab)])
    with torch.no_grad():
        for n, v in zip(names, vocab):
            tables.embedding_bags[n].weight.copy_(start(int(v)))
    apply_optimizer_in_backward(RowWiseAdagrad, tables.parameters(), {'lr': EMBEDDING_RATE, 'eps': 1e-10})
    sharder = EmbeddingBagCollectionSharder()
    only = {n: ParameterConstraints(sharding_types=['table_wise'], compute_kernels=['fused']) for n in names}
    holder = nn.Module()
    holder.tables = tables
    holder.forward = lambda keyed: holder.tables(keyed)
    plan = EmbeddingShardingPlanner(topology=Topology(world_size=a.np, compute_device='cpu'), batch_size=batch, constraints=only
                                    ).collective_plan(holder, [sharder], dist.group.WORLD)
    sharded = DistributedModelParallel(holder, device=cpu, env=ShardingEnv.from_process_group(dist.group.WORLD), plan=plan, sharders=[sharder])
    first = torch.from_numpy(np.concatenate([[0], np.cumsum(vocab)[:-1]]))
    lengths, ends = torch.ones(fields * batch, dtype=torch.int32), torch.arange(fields * batch + 1, dtype=torch.int32)

    def rows(ids):  # in the order of the sharded tables, which is that of every rank
        keyed = KeyedJaggedTensor(keys=names, values=(ids - first).t().reshape(-1), lengths=lengths, offsets=ends, stride=len(ids))
        return sharded(keyed).values().view(len(ids), fields, WIDTH)
    return rows


def main():
    z = np.load(os.path.join(a.data, PROFILE + '_train.npz'))
    ids, label = torch.from_numpy(z['ids'].astype(np.int64)), torch.from_numpy(z['label'].astype(np.float32))
    dense = torch.from_numpy(np.log1p(np.maximum(z['dense'], 0)).astype(np.float32))
    own, fields = a.batch // a.np, ids.shape[1]
    lookup = {'fbgemm': fbgemm, 'torchrec': torchrec}[a.tables](z['vocab'], own)
    layers, width = [], fields * DIM + dense.shape[1]
    for w in (256, 256, 256):
        layers += [nn.Linear(width, w), nn.ReLU(inplace=True)]
        width = w
    deep = nn.Sequential(*layers, nn.Linear(width, 1))
    optimizer = torch.optim.Adagrad(deep.parameters(), lr=DENSE_RATE, fused=True)
    if a.np > 1:
        deep = nn.parallel.DistributedDataParallel(deep)
    clock, took = time.process_time if a.cpu_clock else time.perf_counter, []
    for k in range(a.steps):
        at = k % (len(label) // a.batch) * a.batch + max(a.rank, 0) * own
        i, d, y = ids[at:at + own], dense[at:at + own], label[at:at + own]
        begin = clock()
        rows = lookup(i)
        x = rows[:, :, :DIM].reshape(own, -1)
        if dense.shape[1]:
            x = torch.cat([x, d], 1)
        logit = deep(x).squeeze(1) + rows[:, :, DIM].sum(1)
        nn.functional.binary_cross_entropy_with_logits(logit, y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        took.append(clock() - begin)
    if a.rank < 1:
        print('%s,%s,%d,1,%d,%.0f,' % (a.workload, a.tables, a.np, a.batch, a.batch / np.median(took[WARM:])), flush=True)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


main()
