#!/usr/bin/env python3
"""Writes the same random table as Parquet, Arrow IPC, Avro, Delta, Iceberg, CSV and JSON with the programs of others, and compares
what wdlrun reads.

    pip install pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.0 fastparquet==2026.9.0 deltalake==1.6.6 fastavro==1.13.1 backports.zstd \
        pyspark==4.3.0 'pyiceberg[sql-sqlite,pyarrow]==0.12.0'          # and Java 17
    python tables.py PROGRAM

Values, and not only shapes, must be equal: the output of `wdlrun data convert` for each Arrow file is that of Parquet, byte by
byte, and that for each other file has the values that were written.
"""

import datetime
import decimal
import itertools
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import deltalake
import duckdb
import fastavro
import fastparquet
import polars
import pyarrow as pa
import pyarrow.parquet
import pyspark.ml.linalg
import pyspark.sql.types as spark_types
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

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


def plain_table():
    """Types that every writer has, with values that have been decoded wrong: wide integers, runs of truth values, NaN."""
    runs = list(itertools.chain.from_iterable([R.random() < 0.5] * R.randrange(1, 20) for _ in range(ROWS)))[:ROWS]
    columns = {
        "b": pa.array(runs),
        "i32": column(pa.int32(), lambda: R.randrange(-(2**31), 2**31), 0),
        "i64": column(pa.int64(), lambda: R.randint(-(2**63), 2**63 - 1) >> R.randrange(63), 0),
        "f32": column(pa.float32(), lambda: R.randrange(1000) / 8, 0),
        "f64": column(pa.float64(), lambda: R.choice([R.gauss(0, 1e3), math.inf, -0.0]), 0),
        "f64_n": column(pa.float64(), lambda: R.choice([R.gauss(0, 1e3), math.nan]), 0.3),
        "s": column(pa.string(), lambda: text() or "b", 0),
        "s_n": column(pa.string(), lambda: R.choice(["NULL", "nan", "ü"]), 0.3),
    }
    return pa.table(columns)


def nested_table():
    pair = pa.struct([("id", pa.string()), ("w", pa.float64())])
    pairs = lambda: [None if R.random() < 0.2 else {"id": R.choice(["a", "b", None]), "w": R.choice([R.random(), None])} for _ in range(R.randrange(4))]
    return pa.table({"h": column(pa.list_(pair), pairs, 0.2), "m": column(pa.map_(pa.string(), pa.int64()), lambda: [(c, R.choice([1, None])) for c in "xyz"[: R.randrange(4)]], 0.2)})


def shown(value):
    """A value as wdlrun writes it; an empty list, one of one null, and null are the same."""
    if isinstance(value, list):
        return value if len(value) > 1 or any(v is not None for v in value) else None
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def check_rows(program, file, rows, names):
    read = [json.loads(line) for line in converted(program, file).splitlines()]
    assert len(read) == len(rows), f"{file.name}: {len(read)} rows, want {len(rows)}"
    for i, (got, want) in enumerate(zip(read, rows)):
        for name in names:
            have, value = shown(got.get(name)), shown(want[name])
            if isinstance(value, list) and not isinstance(have, list):
                value = value[0] if len(value) == 1 else value
            missing = value is None or value == "nan" and file.suffix == ".fp"  # pandas has one word for both
            assert have == value or missing and have in (None, "nan"), f"{file.name}, row {i}, {name}: {have!r}, want {value!r}"


def check_written(program, folder, table):
    """What wdlrun writes as Parquet, Arrow IPC and Avro is what others read, dates and times with their types."""
    times = {"date": (pa.date32(), lambda: moment().date()), "time": (pa.time64("us"), lambda: moment().time()), "milli": (pa.timestamp("ms"), moment)}
    times["zone"] = pa.timestamp("us", "UTC"), lambda: moment().replace(tzinfo=datetime.timezone.utc)
    for name, (kind, value) in times.items():
        table = table.append_column(name, column(kind, value, 0.3))
    pa.parquet.write_table(table, folder / "source.parquet", store_schema=False)
    subprocess.run([program, "data", "convert", "-out", str(folder / "written.parquet"), str(folder / "source.parquet")], check=True, capture_output=True)
    assert [{name: shown(value) for name, value in row.items()} for row in pa.parquet.read_table(folder / "written.parquet").to_pylist()] == [{name: shown(value) for name, value in row.items()} for row in table.to_pylist()]
    rows = [{name: shown(value) for name, value in row.items()} for row in table.to_pylist()]
    for codec in "none", "zstd":
        file = folder / f"written-{codec}.arrow"
        subprocess.run([program, "data", "convert", "-compress", codec, "-out", str(file), str(folder / "source.parquet")], check=True, capture_output=True)
        written = pa.ipc.open_file(file).read_all()
        written.validate(full=True)
        assert [{name: shown(value) for name, value in row.items()} for row in written.to_pylist()] == rows, file.name
        assert polars.read_ipc(file).height == len(rows)
    for codec in "none", "gzip", "snappy", "zstd":
        file = folder / f"written-{codec}.avro"
        subprocess.run([program, "data", "convert", "-compress", codec, "-out", str(file), str(folder / "source.parquet")], check=True, capture_output=True)
        with open(file, "rb") as source:
            assert [{name: shown(value) for name, value in row.items()} for row in fastavro.reader(source)] == rows, file.name


def check_parquet(program, folder):
    table, done = plain_table(), itertools.count(1)
    duckdb.register("written", table)
    check_written(program, folder, table)
    rows, names = table.to_pylist(), table.column_names

    def check(file):
        check_rows(program, file, rows, names)
        file.unlink()
        next(done)

    for codec, version, dictionary in itertools.product(["none", "snappy", "gzip", "brotli", "lz4", "zstd"], ["1.0", "2.0"], [True, False]):
        file = folder / f"pyarrow-{codec}-{version}-{dictionary}.parquet"
        pa.parquet.write_table(table, file, compression=codec, data_page_version=version, use_dictionary=dictionary, data_page_size=700, row_group_size=190, write_batch_size=50)
        check(file)
    for codec in "uncompressed", "snappy", "gzip", "brotli", "lz4", "zstd":
        polars.from_arrow(table).write_parquet(folder / f"polars-{codec}.parquet", compression=codec, row_group_size=120, data_page_size=500)
        check(folder / f"polars-{codec}.parquet")
        for version in "v1", "v2":
            file = folder / f"duckdb-{codec}-{version}.parquet"
            duckdb.execute(f"copy (select * from written) to '{file}' (format parquet, codec '{codec.replace('lz4', 'lz4_raw')}', parquet_version {version})")
            check(file)
    frame = table.to_pandas()
    for codec in None, "SNAPPY", "GZIP", "BROTLI", "LZ4", "ZSTD":
        file = folder / f"fastparquet-{codec}.parquet.fp"
        fastparquet.write(str(file), frame, compression=codec, row_group_offsets=[0, 100, 333])
        check(file)
    nested = nested_table()
    want = []
    for row in nested.to_pylist():
        h, m = row["h"] or [], row["m"] or []
        want.append({"h.id": [v and v["id"] for v in h], "h.w": [v and v["w"] for v in h], "m.key": [k for k, _ in m], "m.value": [v for _, v in m]})
    for version in "1.0", "2.0":
        file = folder / f"nested-{version}.parquet"
        pa.parquet.write_table(nested, file, data_page_version=version, data_page_size=300)
        check_rows(program, file, want, list(want[0]))
    with pa.OSFile(str(folder / "nested.arrow"), "wb") as sink, pa.ipc.new_file(sink, nested.schema) as writer:
        for batch in nested.to_batches(max_chunksize=97):
            writer.write_batch(batch)
    check_rows(program, folder / "nested.arrow", want, list(want[0]))
    pair = {"type": "record", "name": "pair", "fields": [{"name": "id", "type": ["null", "string"]}, {"name": "w", "type": ["null", "double"]}]}
    fields = [{"name": "h", "type": ["null", {"type": "array", "items": ["null", pair]}]}, {"name": "m", "type": ["null", {"type": "map", "values": ["null", "long"]}]}]
    with open(folder / "nested.avro", "wb") as sink:
        records = [{"h": row["h"], "m": None if row["m"] is None else dict(row["m"])} for row in nested.to_pylist()]
        fastavro.writer(sink, fastavro.parse_schema({"type": "record", "name": "row", "fields": fields}), records, sync_interval=4000)
    check_rows(program, folder / "nested.avro", want, list(want[0]))
    deltalake.write_deltalake(str(folder / "delta"), table)
    deltalake.DeltaTable(str(folder / "delta")).delete("i32 < 0")
    check_rows(program, folder / "delta", [row for row in rows if row["i32"] >= 0], names)
    check_rows(program, folder / "delta@v0", rows, names)
    return next(done) + 5


SPARK = {
    "b": (spark_types.BooleanType(), lambda: R.random() < 0.4),
    "i16": (spark_types.ShortType(), lambda: R.randrange(-(2**15), 2**15)),
    "i32": (spark_types.IntegerType(), lambda: R.randrange(-(2**31), 2**31)),
    "i64": (spark_types.LongType(), lambda: R.randint(-(2**63), 2**63 - 1) >> R.randrange(63)),
    "f32": (spark_types.FloatType(), lambda: R.randrange(1000) / 8),
    "f64": (spark_types.DoubleType(), lambda: R.gauss(0, 1e3)),
    "s": (spark_types.StringType(), lambda: R.choice(["a", "uvw", "ä" * 3, 'say "x"', "back\\slash", "x,y", "tab\tin", "1e3", " blank "])),
    "dec": (spark_types.DecimalType(9, 2), lambda: decimal.Decimal(R.randrange(-(10**8), 10**8)) / 100),
    "wide": (spark_types.DecimalType(30, 4), lambda: decimal.Decimal(R.randrange(-(10**27), 10**27)) / 10000),
    "day": (spark_types.DateType(), lambda: moment().date()),
    "at": (spark_types.TimestampType(), lambda: moment().replace(tzinfo=datetime.timezone.utc)),
    "local": (spark_types.TimestampNTZType(), moment),
    "tags": (spark_types.ArrayType(spark_types.StringType()), lambda: [R.choice(["x", "y", None]) for _ in range(2 + R.randrange(3))]),
}
FLAT = [name for name in SPARK if name != "tags"]


def spark_text(value):
    """A value of Spark as wdlrun writes it to JSON: decimals of text keep their digits."""
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S") + ("+00" if value.tzinfo else "")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def same_decimal(have, value):
    return (have is None) == (value is None) and (value is None or decimal.Decimal(str(have)) == value)


def check_spark_rows(program, source, rows, names, texts=False):
    """Rows may be in another order: they are sorted by their number."""
    out = source.parent / (source.name + ".out.jsonl")
    subprocess.run([program, "data", "convert", "-out", str(out), str(source)], check=True, capture_output=True)
    read = sorted((json.loads(line) for line in out.read_text().splitlines()), key=lambda row: int(row["n"]))
    assert len(read) == len(rows), f"{source.name}: {len(read)} rows, want {len(rows)}"
    for got, want in zip(read, rows):
        for name in names:
            have, value = got.get(name), want[name]
            if isinstance(value, decimal.Decimal):
                assert same_decimal(have, value), f"{source.name}, row {want['n']}, {name}: {have!r}, want {value!r}"
                continue
            value = spark_text(value)
            if texts and isinstance(value, float):
                have = None if have is None else float(have)
            if texts and isinstance(value, str) and value[4:5] == "-":
                have = have and have.replace("T", " ").replace(".000", "").replace("Z", "+00")
            if texts and isinstance(value, str):
                have, value = have and have.strip(), value.strip()  # blanks around a field without quotes are dropped
            assert have == value, f"{source.name}, row {want['n']}, {name}: {have!r}, want {value!r}"
    return 1


def check_spark(program, folder):
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = [{"n": n, **{name: None if R.random() < 0.2 else value() for name, (_, value) in SPARK.items()}} for n in range(ROWS)]
    fields = [spark_types.StructField("n", spark_types.LongType(), False)] + [spark_types.StructField(name, kind) for name, (kind, _) in SPARK.items()]
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], spark_types.StructType(fields)).repartitionByRange(3, "n")
    done = 0
    for version, codec, dictionary, legacy in itertools.product(["v1", "v2"], ["none", "snappy", "zstd", "lz4", "lz4_raw", "gzip"], ["true", "false"], ["false", "true"]):
        if legacy == "true" and codec != "snappy":
            continue
        spark.conf.set("spark.sql.parquet.writeLegacyFormat", legacy)
        spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96" if legacy == "true" else "TIMESTAMP_MICROS")
        target = folder / f"spark-{version}-{codec}-{dictionary}-{legacy}"
        frame.write.option("parquet.writer.version", version).option("parquet.enable.dictionary", dictionary).option("parquet.page.size", "2000").parquet(str(target), compression=codec)
        want = rows if legacy == "false" else [{**row, "at": row["at"] and row["at"].replace(tzinfo=None)} for row in rows]
        done += check_spark_rows(program, target, want, ["n", *SPARK])
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    frame.write.orc(str(folder / "spark-orc"))
    refused = subprocess.run([program, "data", "stats", str(folder / "spark-orc")], capture_output=True, text=True)
    assert refused.returncode == 1 and "ORC" in refused.stderr, refused.stderr
    for options in {"header": "true"}, {"header": "true", "compression": "gzip"}, {"header": "true", "compression": "bzip2"}, {"header": "true", "sep": "\t"}:
        target = folder / ("spark-csv-" + "-".join(options.values()).replace("\t", "tab"))
        frame.select("n", *FLAT).write.options(ignoreLeadingWhiteSpace="false", ignoreTrailingWhiteSpace="false", **options).csv(str(target))
        done += check_spark_rows(program, target, rows, ["n", *FLAT], texts=True)
    for compression in "none", "gzip", "snappy", "bzip2":
        target = folder / f"spark-json-{compression}"
        frame.write.json(str(target), compression=compression)
        done += check_spark_rows(program, target, rows, ["n", *SPARK], texts=True)
    vectors = [(n, pyspark.ml.linalg.Vectors.dense([R.random(), n, -1.5]) if n % 3 else pyspark.ml.linalg.Vectors.sparse(3, [1], [R.random()])) for n in range(100)]
    spark.createDataFrame(vectors, ["n", "v"]).write.parquet(str(folder / "spark-vectors"))
    done += check_spark_rows(program, folder / "spark-vectors", [{"n": n, "v": list(v.toArray())} for n, v in vectors], ["n", "v"])
    frame.withColumn("part", frame.n % 3).write.partitionBy("part").parquet(str(folder / "spark-parts"))
    done += check_spark_rows(program, folder / "spark-parts", [{**row, "part": row["n"] % 3} for row in rows], ["n", "part", *SPARK])
    spark.stop()
    return done + 1


def check_iceberg(program, folder):
    """The files of an Iceberg table may have rows that were deleted: it is rejected, with a command that exports the current rows."""
    warehouse = folder / "iceberg"
    warehouse.mkdir()
    catalog = SqlCatalog("local", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
    catalog.create_namespace("ads")
    table = catalog.create_table("ads.clicks", plain_table().schema)
    table.append(plain_table())
    table.delete("i32 < 0")
    location = Path(table.location().removeprefix("file://"))
    for name in location, location / "data", next((location / "data").rglob("*.parquet")):
        refused = subprocess.run([program, "data", "stats", str(name)], capture_output=True, text=True)
        assert refused.returncode == 1 and "the Iceberg table" in refused.stderr, refused.stderr
    export = refused.stderr.split('python3 -c "')[1].rsplit('"', 1)[0]
    subprocess.run([sys.executable, "-c", export], check=True, cwd=folder)
    want = table.scan().to_arrow()
    assert 0 < want.num_rows < ROWS
    check_rows(program, folder / "rows.parquet", want.to_pylist(), want.column_names)
    return 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(sum(check(sys.argv[1], Path(folder)) for check in (check_arrow, check_avro, check_parquet, check_iceberg, check_spark)), "files have the values that were written")
