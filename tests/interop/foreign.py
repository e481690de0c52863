#!/usr/bin/env python3
"""Compares what wdlrun reads from files of others, value by value, with what pyarrow and fastavro read from them.

    pip install pyarrow==26.0.1 fastavro==1.13.1 cramjam==2.14.0
    git clone https://github.com/apache/parquet-testing
    python foreign.py PROGRAM parquet-testing/data parquet-testing/variant

It prints one line for each file that wdlrun rejects, for each column that it names as unreadable or leaves out,
and for each wrong value. It fails if a value is wrong, if a column is left out without a word, or if wdlrun
panics or takes more than a minute.
"""

import collections
import decimal
import io
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import fastavro
import numpy
import pyarrow as pa
import pyarrow.parquet

SHOWN = 3  # wrong values of a column

# Values that pyarrow reads wrong, by file, column and row, as the file is described by those who made it.
OTHERS = {("int96_from_spark.parquet", "a", 5): "290000-12-30 23:00:00"}


def columns(name, kind, values):
    """The columns that wdlrun makes of one: members of structs and maps, and lists of them."""
    if pa.types.is_dictionary(kind):
        yield from columns(name, kind.value_type, values)
    elif pa.types.is_struct(kind):
        for i, field in enumerate(kind):
            if [f.name for f in kind].count(field.name) > 1:
                continue
            yield from columns(f"{name}.{field.name}", field.type, [None if v is None else v[i][1] for v in values])
    elif pa.types.is_map(kind):
        for i, member in enumerate((kind.key_field, kind.item_field)):
            yield from columns(f"{name}.{('key', 'value')[i]}", pa.list_(member), [None if v is None else [x[i] for x in v] for v in values])
    elif is_list(kind) and pa.types.is_struct(kind.value_type):
        for i, field in enumerate(kind.value_type):
            yield from columns(f"{name}.{field.name}", pa.list_(field), [None if v is None else [x and x[i][1] for x in v] for v in values])
    elif is_list(kind) and pa.types.is_dictionary(kind.value_type):
        yield name, pa.list_(kind.value_type.value_type), values
    else:
        yield name, kind, values


def is_list(kind):
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)


def pythonic(scalar):
    """A value without the loss of Python's types: structs are lists of pairs, and times are integers."""
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.ExtensionScalar):
        return pythonic(scalar.value)
    if isinstance(scalar, pa.StructScalar):
        return [(field.name, pythonic(scalar[i])) for i, field in enumerate(scalar.type)]
    if isinstance(scalar, pa.MapScalar):
        return [(pythonic(x[0]), pythonic(x[1])) for x in scalar.values]
    if isinstance(scalar, (pa.ListScalar, pa.FixedSizeListScalar, pa.LargeListScalar, pa.ListViewScalar, pa.LargeListViewScalar)):
        return [pythonic(x) for x in scalar.values]
    if isinstance(scalar, pa.DictionaryScalar):
        return pythonic(scalar.value)
    if isinstance(scalar, (pa.TimestampScalar, pa.Time32Scalar, pa.Time64Scalar, pa.DurationScalar)):
        return scalar.value
    return scalar.as_py()


def clock(value, unit, moment):
    """The text of a time: no more digits than the value needs."""
    seconds, rest = divmod(value, {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit])
    text = str(numpy.datetime64(seconds, "s"))
    if rest:
        text += "." + str(rest).zfill({"ms": 3, "us": 6, "ns": 9}[unit]).rstrip("0")
    return text if moment else text.split("T")[1]


def same(kind, have, want):
    """Whether a text that wdlrun wrote stands for a value."""
    if isinstance(want, float):
        if math.isnan(want):
            return have.lower() == "nan"
        if pa.types.is_float64(kind):
            return float(have) == want
        return struct_float(float(have)) == want
    if isinstance(want, bool):
        return have in (want, str(want).lower())
    if isinstance(want, bytes):
        return have.encode("utf-8", "surrogateescape") == want or have == escaped(want)
    if isinstance(want, decimal.Decimal):
        return have == format(want, "f")
    if pa.types.is_timestamp(kind):
        far = {2**63 - 1: "infinity", 1 - 2**63: "-infinity"}  # the words of DuckDB
        return have.removesuffix("+00").replace(" ", "T") == clock(want, kind.unit, True) or have == far.get(want)
    if pa.types.is_time(kind):
        return have.removesuffix("+00") == clock(want, kind.unit, False) or have == "24:00:00" and want == {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit] * 86400
    return have == str(want)


def escaped(value):
    """Bytes that are no text, as DuckDB writes them."""
    return "".join(chr(c) if 32 <= c < 127 and c not in b"\\\"'" else f"\\x{c:02X}" for c in value)


def struct_float(value):
    return pa.scalar(value, pa.float32()).as_py()


def texts(value):
    return [value] if not isinstance(value, list) else value


def wrong(kind, have, want):
    """Whether what wdlrun wrote differs. An empty list, an empty text and null are all missing."""
    if is_list(kind):
        kind = kind.value_type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
    have, want = texts(have), texts(want)
    missing = lambda all: [None if x in ("", b"") else x for x in all]
    have, want = missing(have), missing(want)
    if not any(x is not None for x in have + want):
        return False
    return len(have) != len(want) or any((x is None) != (y is None) or x is not None and not same(kind, x, y) for x, y in zip(have, want))


def read(file):
    """The table that pyarrow or fastavro reads."""
    head = file.read_bytes()[:8]
    if head[:4] == b"Obj\x01":
        return avro(file)
    if head[:4] == b"PAR1":
        return pa.parquet.read_table(file, coerce_int96_timestamp_unit="us")
    if head[:6] == b"ARROW1":
        return pa.ipc.open_file(file).read_all()
    return pa.ipc.open_stream(file).read_all()


def avro(file):
    """The table that fastavro reads, without columns that are in themselves or of several types."""
    with open(file, "rb") as source:
        reader = fastavro.reader(source)
        schema, rows = reader.writer_schema, list(reader)
    if schema["type"] != "record":
        raise OSError("no records")
    made = {"": pa.nulls(len(rows))}
    for field in schema["fields"]:
        values = [row[field["name"]] for row in rows]
        try:
            made[field["name"]] = pa.array(values, arrow_type(field["type"], {}))
        except (KeyError, TypeError, pa.ArrowException) as err:
            print("unchecked", file, field["name"], err)
    return pa.table(made)


PRIMITIVE = {"boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "bytes": pa.binary(), "enum": pa.string(), "null": pa.null()}


def arrow_type(kind, named):
    if isinstance(kind, list):
        others = [k for k in kind if k != "null"]
        if len(others) != 1:
            raise TypeError("a union of several types")
        return arrow_type(others[0], named)
    if isinstance(kind, str):
        return PRIMITIVE[kind]
    name = kind["type"]
    if name == "record":
        return pa.struct([(f["name"], arrow_type(f["type"], named)) for f in kind["fields"]])
    if name == "array":
        return pa.list_(arrow_type(kind["items"], named))
    if name == "map":
        return pa.map_(pa.string(), arrow_type(kind["values"], named))
    logical = kind.get("logicalType")
    if logical == "decimal":
        return pa.decimal256(76, kind.get("scale", 0))
    if logical in ("timestamp-millis", "timestamp-micros"):
        return pa.timestamp("us", "UTC")
    if logical in ("local-timestamp-millis", "local-timestamp-micros"):
        return pa.timestamp("us")
    if logical == "date":
        return pa.date32()
    if logical:
        raise TypeError(f"the logical type {logical}")
    return pa.binary(kind["size"]) if name == "fixed" else arrow_type(name, named)


def nested(kind):
    """Whether wdlrun has to name a column instead of reading it."""
    if isinstance(kind, pa.BaseExtensionType):
        return True
    inner = kind.value_type if is_list(kind) else kind
    return is_list(inner) or pa.types.is_nested(inner) or pa.types.is_duration(inner) or pa.types.is_interval(inner) or pa.types.is_null(inner)


class Report:
    def __init__(self, program):
        self.program, self.counts = program, collections.Counter()

    def say(self, what, file, text):
        self.counts[what] += 1
        print(f"{what:9} {file}: {text}", flush=True)

    def convert(self, file, out):
        try:
            done = subprocess.run([self.program, "data", "convert", "-out", str(out), str(file)], capture_output=True, timeout=60, text=True, errors="replace")
        except subprocess.TimeoutExpired:
            self.say("HANG", file, "more than a minute")
            return None
        if "panic" in done.stderr or "goroutine" in done.stderr or done.returncode not in (0, 1, 2):
            self.say("PANIC", file, done.stderr[-2000:])
            return None
        return done

    def check(self, file):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.jsonl"
            done = self.convert(file, out)
            if done is None:
                return
            if done.returncode:
                self.say("rejected", file, done.stderr.strip()[:300])
                return
            rows = [json.loads(line, parse_int=str, parse_float=str, parse_constant=str) for line in io.StringIO(out.read_text("utf-8", "surrogateescape"), newline="\n")]
        try:
            table = read(file)
        except Exception as err:  # damaged files: fastavro has no class of its own for its errors
            self.say("unchecked", file, f"the other library: {str(err)[:200]}")
            return
        bad = self.counts["WRONG"]
        self.compare(file, table, rows, done.stderr)
        self.counts["equal"] += bad == self.counts["WRONG"]

    def compare(self, file, table, rows, messages):
        if len(rows) != table.num_rows:
            self.say("WRONG", file, f"{len(rows)} rows, want {table.num_rows}")
            return
        repeated = {name for name, n in collections.Counter(table.column_names).items() if n > 1}
        for i, field in enumerate(table.schema):
            if field.name in repeated:
                continue
            values = [pythonic(x) for chunk in table.column(i).chunks for x in chunk]
            for name, kind, want in columns(field.name, field.type, values):
                known = any(name in row for row in rows)
                if nested(kind):
                    if any(v is not None for v in want) and not known and name.split(".")[0] not in messages:
                        self.say("WRONG", file, f"{name} ({kind}) is left out without a word")
                    elif not known:
                        self.say("named", file, f"{name} ({kind})")
                    continue
                if not known and name.split(".")[0] in messages:
                    self.say("named", file, f"{name} ({kind})")
                    continue
                different = [(j, row.get(name), v) for j, (row, v) in enumerate(zip(rows, want)) if wrong(kind, row.get(name), v) and row.get(name) != OTHERS.get((file.name, name, j), "")]
                if different:
                    self.say("WRONG", file, f"{name} ({kind}): {len(different)} of {len(rows)} values, such as (row, read, want) {different[:SHOWN]}")


def main():
    report = Report(sys.argv[1])
    for folder in map(Path, sys.argv[2:]):
        for file in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            head = file.read_bytes()[:8] if file.is_file() else b""
            if head[:4] in (b"PAR1", b"PARE", b"\xff\xff\xff\xff") or head[:6] == b"ARROW1" or head[:4] == b"Obj\x01":
                report.check(file)
    print(dict(report.counts))
    sys.exit(any(report.counts[kind] for kind in ("WRONG", "PANIC", "HANG")))


if __name__ == "__main__":
    main()
