#!/usr/bin/env bash
# DuckDB 2.0.0, PARQUET_VERSION v2: a column of 32-bit integers that spans more than 2^31 is written as
# DELTA_BINARY_PACKED with differences of 33 bits. The format lets differences wrap around at 32 bits, so that none is
# wider. Readers disagree about such a file: DuckDB and Polars 2.1.0 read what was written, pyarrow 26.0.1 rejects it,
# and fastparquet 2026.9.0 returns other values without an error (so do 32-bit decoders of some other libraries).
#
# Why it matters: hashed ids of categorical features are such integers, and training on other ids succeeds.
#
# Seen: of 400 values, DuckDB 0 and Polars 0 differ, fastparquet 397; pyarrow: "Unexpected end of stream: InitBlock EOF".
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv v
v/bin/pip install -q duckdb==2.0.0 pyarrow==26.0.1 polars==2.1.0 fastparquet==2026.9.0
v/bin/python - <<'PY'
import sys
import duckdb, fastparquet, polars, pyarrow.parquet

c = duckdb.connect()
c.execute("select setseed(0.3)")
c.execute("create table t as select i, (random() * 4e9 - 2e9)::int x from range(400) r(i)")
c.execute("copy t to 't.parquet' (format parquet, parquet_version v2)")
want = [r[0] for r in c.execute("select x from t order by i").fetchall()]
encodings = pyarrow.parquet.ParquetFile("t.parquet").metadata.row_group(0).column(1).encodings


def wrong(read):
    try:
        return sum(a != b for a, b in zip(read(), want, strict=True))
    except Exception as e:
        return f"rejects it ({e})"


found = {
    "duckdb": wrong(lambda: [r[0] for r in c.execute("select x from 't.parquet' order by i").fetchall()]),
    "polars": wrong(lambda: polars.read_parquet("t.parquet")["x"].to_list()),
    "pyarrow": wrong(lambda: pyarrow.parquet.read_table("t.parquet")["x"].to_pylist()),
    "fastparquet": wrong(lambda: fastparquet.ParquetFile("t.parquet").to_pandas()["x"].tolist()),
}
print(f"written as {encodings}; of {len(want)} values differ:", found)
if found["duckdb"] or found["polars"] or not str(found["pyarrow"]).startswith("rejects") or not found["fastparquet"]:
    print("the behaviour has changed")
    sys.exit(1)
PY
