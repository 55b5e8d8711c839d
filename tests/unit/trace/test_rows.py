"""Rows and the columns derived from them."""

from __future__ import annotations

import msgspec
import pytest

from emulator.trace import rows


def test_every_row_class_is_one_table() -> None:
    assert set(rows.TABLES) >= {"requests", "ranges", "blocks", "multis", "stalls", "runs"}
    assert rows.TABLE_OF[rows.BlockRow] == "blocks"


def test_columns_follow_the_fields() -> None:
    assert rows.columns(rows.RangeRow)[:2] == (
        rows.Column("stage", "str", nullable=False),
        rows.Column("first_offset", "int", nullable=False),
    )
    by_name = {column.name: column for column in rows.columns(rows.RequestRow)}
    assert by_name["first_offset"] == rows.Column("first_offset", "int", nullable=True)
    nested = {column.name: column for column in rows.columns(rows.MultiRow)}["operations"]
    assert (nested.kind, [field.name for field in nested.fields]) == (
        "list",
        ["operation", "ops", "bytes"],
    )


def test_a_type_without_a_column_is_refused() -> None:
    class Odd(msgspec.Struct):
        seen: set[int]

    with pytest.raises(TypeError, match="seen"):
        rows.columns(Odd)


def test_rows_do_not_change() -> None:
    row = rows.StallRow(1, 2)
    with pytest.raises(AttributeError):
        row.end_ns = 3  # type: ignore[misc]
