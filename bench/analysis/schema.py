"""Spark schemas of the trace, derived from the row classes."""

from __future__ import annotations

from typing import Final

import msgspec
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from emulator.trace import rows

KEYS: Final = [rows.RUN_ID_COLUMN, rows.PROCESS_COLUMN]
"""What every table is partitioned by: offsets and request ids mean nothing outside of it."""

_TYPES: Final[dict[str, DataType]] = {
    "int": LongType(),
    "str": StringType(),
    "float": DoubleType(),
}


def struct_type(row: type[msgspec.Struct]) -> StructType:
    """Derive a table's schema from its row class; ``process`` and ``run_id`` come last."""
    fields = [_field(column) for column in rows.columns(row)]
    fields += [StructField(name, StringType(), nullable=False) for name in reversed(KEYS)]
    return StructType(fields)


def _field(column: rows.Column) -> StructField:
    if column.kind == "list":
        item = StructType([_field(field) for field in column.fields])
        return StructField(column.name, ArrayType(item, containsNull=False), column.nullable)
    return StructField(column.name, _TYPES[column.kind], column.nullable)
