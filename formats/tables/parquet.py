"""Writes the flat table as Parquet, for pandas, Polars, DuckDB and Spark. Needs pyarrow."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any, BinaryIO, Final

from stalltop.formats.tables.columns import COLUMNS, table
from stalltop.model.errors import StalltopError
from stalltop.model.window import Window

INSTALL: Final = "pip install 'stalltop[parquet]', or pip install pyarrow; or --to csv, which needs nothing"
"""What to do if pyarrow is missing."""
ROWS_AT_ONCE: Final = 32_768
"""Least number of rows in a row group of the file; only the last row group may have fewer. A row group is
held in memory until it is complete."""
_TYPES: Final = {
    "text": "string",
    "count": "uint64",
    "number": "float64",
    "flag": "bool_",
}


def problem() -> str:
    """Return why Parquet cannot be written here; '' if it can."""
    return "" if importlib.util.find_spec("pyarrow") is not None else "Parquet needs the package pyarrow"


def write(windows: Iterable[Window], file: BinaryIO) -> None:
    """Write the rows of all ``windows`` to ``file``. Raises StalltopError if pyarrow is missing."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise StalltopError(problem() or f"pyarrow cannot be used: {error}", INSTALL) from None
    schema = pa.schema(
        [
            pa.field(
                column.name,
                getattr(pa, _TYPES[column.kind])(),
                metadata={"about": column.about},
            )
            for column in COLUMNS
        ]
    )
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for values in _together(windows):
            arrays = [pa.array(column, type=field.type) for column, field in zip(values, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _together(windows: Iterable[Window]) -> Iterable[list[list[Any]]]:
    """Yield the columns of one row group after the other."""
    held: list[list[Any]] = [[] for _ in COLUMNS]
    for window in windows:
        for column, values in zip(held, table(window), strict=True):
            column.extend(values)
        if len(held[0]) >= ROWS_AT_ONCE:
            yield held
            held = [[] for _ in COLUMNS]
    if held[0]:
        yield held
