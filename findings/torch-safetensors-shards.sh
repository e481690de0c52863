#!/usr/bin/env bash
# PyTorch 2.15.0: the distributed checkpoint writer for Hugging Face's format (HuggingFaceStorageWriter with
# save_distributed=True) writes one safetensors file a rank. Each file holds a part of a sharded tensor under the *same*
# name, with the part's shape; where the part belongs is only in the text of the file's metadata, under
# DCP_SHARDING_INFO. There is no index file. A reader that merges the files by tensor name, as is usual for models in
# several safetensors files, gets the last part as if it were the whole tensor, without an error.
#
# Why it matters: an embedding table that was sharded over ranks loses all rows but those of one rank.
#
# Seen: a table of 6 x 2 saved by 2 ranks; the files hold item.weight [3, 2] at [0, 0] and [3, 2] at [3, 0]; merged by name it has
# 3 of 6 rows.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 safetensors==0.8.0 numpy==2.4.6 packaging
cat >"$dir/run.py" <<'PY'
import glob
import json
import sys

import safetensors
import safetensors.torch
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.multiprocessing as mp
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

RANKS = 2


def save(rank, folder, meeting):
    dist.init_process_group("gloo", rank=rank, world_size=RANKS, init_method=f"file://{meeting}")
    table = torch.arange(12, dtype=torch.float32).reshape(6, 2)
    sharded = distribute_tensor(table, init_device_mesh("cpu", (RANKS,)), [Shard(0)])
    checkpoint.save({"item.weight": sharded}, storage_writer=HuggingFaceStorageWriter(folder, save_distributed=True))
    dist.destroy_process_group()


if __name__ == "__main__":
    folder = sys.argv[1] + "/saved"
    mp.spawn(save, (folder, sys.argv[1] + "/meeting"), RANKS)
    files = sorted(glob.glob(folder + "/*.safetensors"))
    merged, places = {}, []
    for path in files:
        with safetensors.safe_open(path, "pt") as f:
            for name in f.keys():
                info = json.loads(f.metadata()["DCP_SHARDING_INFO"])[name]
                places.append((name, f.get_slice(name).get_shape(), info["saved_offsets"]))
        merged.update(safetensors.torch.load_file(path))
    for name, shape, offset in places:
        print(f"{name} {shape} at {offset}")
    rows = merged["item.weight"].shape[0]
    index = glob.glob(folder + "/*.json")
    print(f"merged by name: {rows} of 6 rows; index files: {len(index)}")
    if len(files) != RANKS or rows != 3 or index or {tuple(p[2]) for p in places} != {(0, 0), (3, 0)}:
        sys.exit("the behaviour has changed")
PY
"$dir/venv/bin/python" -W ignore "$dir/run.py" "$dir"
