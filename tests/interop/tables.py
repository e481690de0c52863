#!/usr/bin/env python3
"""Writes the same random table as Parquet, Arrow IPC and Avro with the libraries of others, and compares what wdlrun reads.

    pip install pyarrow==26.0.1 polars==2.1.0 fastavro==1.13.1 backports.zstd && python tables.py PROGRAM

Values, and not only shapes, must be equal: the output of `wdlrun data convert` for each Arrow file is that of Parquet, byte by
byte, and that for each Avro file has the values that were written.
"""

import datetime
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import fastavro
import polars
import pyarrow as pa
import pyarrow.parquet

ROWS = 500
R = random.Random(7)
EPOCH = datetime.datetime(1990, 1, 1)


def text():
    return R.choice(["", "a", "uvw", "ä" * 3, "x" * R.randrange(40), "1e3"])


def moment():
    return EPOCH + datetime.timedelta(seconds=R.randrange(10**9))


ARROW = {
    "bool": (pa.bool_(), lambda: R.random() < 0.4),
    "i8": (pa.int8(), lambda: R.randint(-128, 127)),
    "i64": (pa.int64(), lambda: R.randint(-(2**63), 2**63 - 1)),
    "u32": (pa.uint32(), lambda: R.randrange(2**32)),
    "u64": (pa.uint64(), lambda: R.randrange(2**64)),
    "f16": (pa.float16(), lambda: R.randrange(-50, 50) / 8),
    "f32": (pa.float32(), lambda: R.randrange(1000) / 10),
    "f64": (pa.float64(), lambda: R.gauss(0, 1e3)),
    "text": (pa.string(), text),
    "large": (pa.large_string(), text),
    "view": (pa.string_view(), text),
    "bytes": (pa.binary(), lambda: text().encode()),
    "decimal": (pa.decimal128(20, 3), lambda: R.randrange(-(10**9), 10**9)),
    "date": (pa.date32(), lambda: moment().date()),
    "time": (pa.time64("us"), lambda: moment().time()),
    "milli": (pa.timestamp("ms"), moment),
    "zone": (pa.timestamp("us", "Europe/Berlin"), lambda: moment().replace(tzinfo=datetime.timezone.utc)),
}


def column(kind, value, missing):
    return pa.array([None if R.random() < missing else value() for _ in range(ROWS)], kind)


def arrow_table():
    columns = {}
    for name, (kind, value) in ARROW.items():
        columns[name], columns[name + "_n"] = column(kind, value, 0), column(kind, value, 0.3)
        columns[name + "_list"] = column(pa.list_(kind), lambda value=value: [None if R.random() < 0.2 else value() for _ in range(R.randrange(4))], 0.2)
    columns["category"] = column(pa.string(), text, 0.2).dictionary_encode()
    columns["record"] = column(pa.struct([("a", pa.int32()), ("b", pa.string())]), lambda: {"a": R.randrange(9), "b": text()}, 0.2)
    return pa.table(columns)


def converted(program, file):
    out = file.parent / (file.name + ".jsonl")
    subprocess.run([program, "data", "convert", "-out", str(out), str(file)], check=True, capture_output=True)
    return out.read_bytes()


def check_arrow(program, folder):
    table = arrow_table()
    plain = table.set_column(table.column_names.index("category"), "category", table["category"].cast(pa.string()))
    pyarrow.parquet.write_table(plain, folder / "table.parquet", store_schema=False)
    want = converted(program, folder / "table.parquet")
    files = []
    for codec in None, "lz4", "zstd":
        options = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=True)
        for ending, new in (".arrow", pa.ipc.new_file), (".arrows", pa.ipc.new_stream):
            files.append(folder / f"{codec}{ending}")
            with pa.OSFile(str(files[-1]), "wb") as sink, new(sink, table.schema, options=options) as writer:
                for batch in table.to_batches(max_chunksize=97):
                    writer.write_batch(batch)
    for file in files:
        assert converted(program, file) == want, f"{file.name} differs from the Parquet file"
    rows = [json.loads(line) for line in want.splitlines()]
    for name in "i64", "u64", "f64", "bool", "text":
        want_column = table[name].to_pylist()
        assert [str(row[name]).lower() for row in rows] == [str(value if value != "" else row[name]).lower() for value, row in zip(want_column, rows)], name
    frame = polars.DataFrame({"i": [1, None, 3], "s": ["a", "", "ü" * 20], "l": [[1.5, None], [], None]})
    for codec in "uncompressed", "lz4", "zstd":
        frame.write_ipc(folder / f"polars-{codec}.feather", compression=codec)
    frame.write_parquet(folder / "polars.parquet")
    want = converted(program, folder / "polars.parquet")
    for file in folder.glob("polars-*.feather"):
        assert converted(program, file) == want, file.name
    return len(files) + 3


AVRO = {
    "bool": ("boolean", lambda: R.random() < 0.4),
    "int": ("int", lambda: R.randrange(-(2**31), 2**31)),
    "long": ("long", lambda: R.randrange(-(2**63), 2**63)),
    "float": ("float", lambda: R.randrange(100) / 8),
    "double": ("double", lambda: R.gauss(0, 1)),
    "text": ("string", lambda: text() or "b"),
}


def check_avro(program, folder):
    fields = []
    for name, (kind, _) in AVRO.items():
        fields += [{"name": name, "type": kind}, {"name": name + "_n", "type": ["null", kind]}, {"name": name + "_list", "type": {"type": "array", "items": kind}}]
    rows = []
    for _ in range(ROWS):
        row = {}
        for name, (_, value) in AVRO.items():
            row.update({name: value(), name + "_n": None if R.random() < 0.3 else value(), name + "_list": [value() for _ in range(2 + R.randrange(3))]})
        rows.append(row)
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    codecs = ["null", "deflate", "snappy", "zstandard", "bzip2"]
    for codec in codecs:
        file = folder / f"{codec}.avro"
        with open(file, "wb") as sink:
            fastavro.writer(sink, schema, rows, codec=codec, sync_interval=4000)
        read = [json.loads(line) for line in converted(program, file).splitlines()]
        assert len(read) == ROWS
        for i, (got, want) in enumerate(zip(read, rows)):
            for name, value in want.items():
                have = got.get(name)
                if isinstance(value, bool) or isinstance(value, list) and isinstance(value[0], bool):
                    value, have = json.dumps(value), json.dumps(have).replace('"', "")
                assert have == value, f"{file.name}, row {i}, {name}: {have!r}, want {value!r}"
    return len(codecs)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(check_arrow(sys.argv[1], Path(folder)) + check_avro(sys.argv[1], Path(folder)), "files have the values that were written")
