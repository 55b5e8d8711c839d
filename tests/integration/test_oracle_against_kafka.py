"""Our controller answers and logs what Kafka's own does, but for what the table names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.commands.running import run
from tools.oracle import controllers

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def test_10_000_operations_differ_in_nothing_that_the_table_does_not_name(tmp_path: Path) -> None:
    with controllers(tmp_path) as (kafka, ours):
        places = ("--against", kafka, "--bootstrap-controller", ours, "--allow-disruptive")
        code, out, err = run("conformance", *places, "--operations", "10000", "--seed", "34")
    assert code == 0, out + err
    assert "comparison OK: nothing differs" in out
