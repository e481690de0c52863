"""Reads all columns of a file in Criteo's layout again and again, on one thread, and prints the
rows per second. Arguments: duckdb, polars, pyarrow or fastavro, the file, and seconds.

DuckDB computes a sum of logarithms of each number and an xor of hashes of each string, about
what a reader computes of them. Polars and PyArrow make a table in memory of the values, and fastavro a
dictionary for each record, one after the other.
"""
import os
import sys
import time

os.environ.update(POLARS_MAX_THREADS='1', OMP_NUM_THREADS='1')
library, file, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
parquet, arrow, avro = (file.endswith(end) for end in ('.parquet', '.arrow', '.avro'))
numbers = ['I%d' % k for k in range(1, 14)]
strings = ['C%d' % k for k in range(1, 27)]
names = ['label', *numbers, *strings]


def duckdb_reader():
    import duckdb
    connection = duckdb.connect(config={'threads': 1})
    values = ['count(*)', 'sum(label)', *('sum(ln(1 + greatest(%s, 0)))' % n for n in numbers), *('bit_xor(hash(%s))' % n for n in strings)]
    columns = ', '.join("'%s': '%s'" % (n, 'VARCHAR' if n in strings else 'FLOAT') for n in names)
    source = "read_parquet('%s')" % file if parquet else "read_csv('%s', delim='\t', header=false, auto_detect=false, quote='', escape='', columns={%s})" % (file, columns)
    return lambda: connection.execute('select %s from %s' % (', '.join(values), source)).fetchone()[0]


def polars_reader():
    import polars
    if parquet:
        return lambda: polars.read_parquet(file).height
    if arrow:
        return lambda: polars.read_ipc(file).height
    if avro:
        return lambda: polars.read_avro(file).height
    return lambda: polars.read_csv(file, separator='\t', has_header=False, new_columns=names, schema_overrides={n: polars.String for n in strings}).height


def pyarrow_reader():
    import pyarrow
    import pyarrow.csv
    import pyarrow.ipc
    import pyarrow.parquet
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    if parquet:
        return lambda: pyarrow.parquet.read_table(file, use_threads=False).num_rows
    if arrow:
        options = pyarrow.ipc.IpcReadOptions(use_threads=False)
        return lambda: pyarrow.ipc.open_file(file, options=options).read_all().num_rows
    read = pyarrow.csv.ReadOptions(use_threads=False, column_names=names)
    convert = pyarrow.csv.ConvertOptions(column_types={n: pyarrow.string() for n in strings})
    return lambda: pyarrow.csv.read_csv(file, read, pyarrow.csv.ParseOptions(delimiter='\t', quote_char=False), convert).num_rows


def fastavro_reader():
    import fastavro

    def read():
        with open(file, 'rb') as f:
            return sum(1 for _ in fastavro.reader(f))
    return read


read = {'duckdb': duckdb_reader, 'polars': polars_reader, 'pyarrow': pyarrow_reader, 'fastavro': fastavro_reader}[library]()
read()
rows, start = 0, time.perf_counter()
while time.perf_counter() - start < seconds:
    rows += read()
print(round(rows / (time.perf_counter() - start)))
