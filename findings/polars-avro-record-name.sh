#!/usr/bin/env bash
# Polars 2.1.0: write_avro without its argument `name` writes a record whose name is the empty string. The Avro
# specification demands a name, so the library of the Avro project (avro 1.12.2) refuses the file; fastavro 1.13.1 reads
# it. With name="row" both read it.
#
# Why it matters: a table that one program writes without a warning cannot be opened by the next one in the pipeline, and
# which of them can depends on the reader.
#
# Seen:
#   default: schema name '', fastavro reads 2 rows, avro: Named Schemas must have a non-empty name.
#   name="row": schema name 'row', fastavro reads 2 rows, avro reads 2 rows
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0 avro==1.12.2 fastavro==1.13.1
cat >"$dir/run.py" <<'PY'
import sys

import fastavro
import polars as pl
from avro.datafile import DataFileReader
from avro.errors import AvroException
from avro.io import DatumReader

table = pl.DataFrame({"click": [1, 0], "item": ["a", "b"]})


def read(path):
    with open(path, "rb") as f:
        reader = fastavro.reader(f)
        name, rows = reader.writer_schema["name"], len(list(reader))
    try:
        with open(path, "rb") as f:
            avro = f"avro reads {len(list(DataFileReader(f, DatumReader())))} rows"
    except AvroException as e:
        avro = f"avro: {e}"
    return f"schema name {name!r}, fastavro reads {rows} rows, {avro}"


folder = sys.argv[1]
table.write_avro(folder + "/default.avro")
table.write_avro(folder + "/named.avro", name="row")
default, named = read(folder + "/default.avro"), read(folder + "/named.avro")
print("default:", default)
print('name="row":', named)
if "name ''," not in default or "non-empty" not in default or "avro reads 2 rows" not in named:
    sys.exit("the behaviour has changed")
PY
"$dir/venv/bin/python" "$dir/run.py" "$dir"
