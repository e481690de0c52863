"""Writes the fixtures of this folder with torch 2.15.0, safetensors 0.8.0 and numpy 2.4.6: python3 make.py"""
import json, os, struct, sys
import numpy as np
import torch
from torch import nn
from safetensors.torch import save_file

os.chdir(os.path.dirname(os.path.abspath(__file__)))
torch.manual_seed(7)


class Model(nn.Module):
    """Bags of two features and two numbers, through a perceptron, as in DLRM's bottom half."""

    def __init__(self):
        super().__init__()
        self.item = nn.EmbeddingBag(12, 4, mode="sum", padding_idx=0)
        self.user = nn.EmbeddingBag(7, 4, mode="sum")
        self.mlp = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, numbers, item, item_offsets, user):
        x = torch.cat([numbers, self.user(user[:, None]), self.item(item, item_offsets)], dim=1)
        return self.mlp(x)[:, 0]


model = Model()
rng = np.random.default_rng(3)
items = ["__PAD__", "__OOV__"] + [f"film {i}" for i in range(9)] + ["line\nfeed"]
users = [f"u{i}" for i in range(6)] + ["__OOV__"]
json.dump({v: i for i, v in enumerate(items)}, open("item.json", "w"))
json.dump(users, open("user.json", "w"))
lines, scores = [], []
with torch.no_grad():
    for r in range(40):
        chosen = [int(i) for i in rng.integers(1, 12, rng.integers(0, 4))]
        u = int(rng.integers(0, 7))
        a, b = [round(float(x), 3) for x in rng.normal(size=2)]
        ids = torch.tensor(chosen, dtype=torch.int64)
        score = model(torch.tensor([[a, b]]), ids, torch.tensor([0]), torch.tensor([u]))
        name = lambda list, i: "never seen" if list[i] == "__OOV__" else list[i]
        lines.append(json.dumps({"click": int(rng.integers(0, 2)), "user": name(users, u), "items": [name(items, i) for i in chosen], "a": a, "b": b}))
        scores.append(float(score[0]))
open("rows.jsonl", "w").write("\n".join(lines) + "\n")
json.dump(scores, open("scores.json", "w"))
state = model.state_dict()
torch.save({"model": state, "epoch": 3, "optimizer": {"lr": 0.1, "state": [None, True]}}, "model.pt")
save_file({k: v.contiguous() for k, v in state.items()}, "model.safetensors")

# strides and offsets: the storage of a slice is saved whole
base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
torch.save({"slice": base[1:3, 2:5], "turned": base.t(), "half": base.to(torch.bfloat16), "whole": base.to(torch.int64), "one": torch.tensor(5.0)}, "views.pt")
torch.save(model, "module.pt")  # a pickled object
np.savez("two.npz", a=np.arange(6, dtype="<f8").reshape(2, 3), b=np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)))
np.savez_compressed("packed.npz", a=np.arange(6, dtype="<f2").reshape(2, 3))

# the parts of two ranks, as the distributed writer lays them out
os.makedirs("sharded", exist_ok=True)
table = torch.arange(20, dtype=torch.float32).reshape(5, 4)
for rank, (lo, hi) in enumerate([(0, 3), (3, 5)]):
    info = {"emb": {"saved_offsets": [lo, 0]}}
    save_file({"emb": table[lo:hi].contiguous()}, f"sharded/shard-0000{rank + 1}-model-00001-of-00001.safetensors", metadata={"DCP_SHARDING_INFO": json.dumps(info), "DCP_VERSION": "1.0", "format": "pt"})

# vectors of items, as pyarrow writes them: lists of doubles, and lists of a fixed size
import pyarrow as pa
import pyarrow.parquet as pq
values = ["i1", "i2", "i3", "i4", "naïve\nline", "never seen"]
vectors = [[i + 0.5, -i, 0.25 * i] for i in range(6)]
pq.write_table(pa.table({"value": values, "vector": vectors}), "items.parquet")
pq.write_table(pa.table({"value": pa.array([3, 1, 40]), "vector": pa.array(vectors[:3], pa.list_(pa.float32(), 3)), "more": [1, 2, 3]}), "ids.parquet", compression="zstd")
pq.write_table(pa.table({"value": ["i1", "i2"], "vector": [[1.0, 2.0, 3.0], [1.0, float("nan"), 3.0]]}), "nan.parquet")
