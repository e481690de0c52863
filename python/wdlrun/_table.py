"""Writes tables for the program. Tables travel as Parquet, which keeps the types of columns: categories, nullable
values, times with zones, lists."""

from __future__ import annotations

import os
from pathlib import Path

from ._process import Error


class Written:
    """The files of a table: those that were given, or one that was written into a temporary folder."""

    def __init__(self, data, folder, name):
        self.kind = _kind(data)
        self.index = getattr(data, "index", None) if self.kind == "pandas" else None
        if self.kind == "paths":
            self.files = [os.fspath(p) for p in (data if isinstance(data, (list, tuple)) else [data])]
            if not self.files:
                raise Error("no data: the list of files is empty")
            return
        path = Path(folder, name + ".parquet")
        _check(data)
        _write(data, self.kind, path)
        self.files = [str(path)]


def _kind(data):
    """Returns what data is, without importing a library that its user has not imported."""
    if isinstance(data, (str, os.PathLike, list, tuple)):
        return "paths"
    module = type(data).__module__.partition(".")[0]
    if module in ("pandas", "polars", "pyarrow") and type(data).__name__ in ("DataFrame", "LazyFrame", "Table"):
        return module
    raise Error(f"data is a {type(data).__name__}: give a DataFrame of pandas or Polars, a Table of pyarrow, or the path of a file")


def columns(data):
    """Returns the names of the columns of a table."""
    return list(data.column_names) if _kind(data) == "pyarrow" else [c for c in data.columns]


def _check(data):
    names = columns(data)
    other = [n for n in names if not isinstance(n, str)]
    if other:
        raise Error(f"column {other[0]!r} has no text as its name: rename the columns, as with df.columns = df.columns.map(str)")
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise Error(f"{len(twice)} names are used by several columns, such as {twice[0]!r}: rename them")
    if not names or (data.num_rows if _kind(data) == "pyarrow" else len(data)) == 0:
        raise Error(f"the table has {len(names)} columns and no rows" if names else "the table has no columns")


def _write(data, kind, path):
    if kind == "polars":
        data.write_parquet(path, compression="lz4", row_group_size=1 << 17)
        return
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Error("tables of pandas need pyarrow: pip install wdlrun[pandas]") from None
    if kind == "pandas":
        try:
            data = pyarrow.Table.from_pandas(data, preserve_index=False)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as fault:
            raise Error(f"a column has values of several types, which no file can hold: {fault}; convert it, as with df[column].astype(str)") from None
    pyarrow.parquet.write_table(data, path, compression="lz4", row_group_size=1 << 17)
