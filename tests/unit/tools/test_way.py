"""The way of one request through a node stays as short as it is: counted, not timed."""

from __future__ import annotations

from typing import Final

import pytest

from tools.way import KINDS, calls_of, counted

REACHED: Final = {
    "create-topics": (728, 81, 465),
    "alter-partition": (687, 78, 441),
    "heartbeat": (69, 22, 53),
    "envelope": (772, 86, 496),
    "control-request": (1_440, 94, 911),
}
"""Calls, files and moves. What makes them fewer writes the lower numbers here."""
SPARE: Final = 1.02


@pytest.mark.parametrize("kind", KINDS)
def test_the_way_of_a_request_becomes_no_longer(kind: str) -> None:
    found = counted(calls_of(kind))
    reached = dict(zip(("calls", "files", "moves"), REACHED[kind], strict=True))
    longer = {name: found[name] for name, most in reached.items() if found[name] > most * SPARE}
    assert not longer, f"{reached} was reached: python -m tools.way {kind} --files"


def test_who_is_not_stopping_is_not_asked_about_its_end() -> None:
    files = {code.co_filename.rpartition("/")[2] for code in calls_of("create-topics")}
    assert files.isdisjoint({"stopping.py", "inquiry.py", "finalising.py", "token_index.py"})
    assert "write_behind.py" in files
