"""What the demonstration shows of the lag is what the controllers counted between its looks."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from bench.demo.controllers import Controllers
from bench.demo.narrator import Narrator
from bench.demo.watch import Watch
from emulator.servers.waiting import wait_for


class _Leaders(Controllers):
    """Two leaders, one after the other, each of which was far behind when nobody looked."""

    def __init__(self) -> None:
        self.left = [("DUAL_WRITE", 455), ("DUAL_WRITE", 1_312), ("SYNC", None), ("DUAL_WRITE", 3)]

    def status(self) -> dict[str, Any]:
        state, longest = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        lag = {"records": 0, "longest_records": longest, "ms": 0}
        migration = {"driver_state": state, "waiting": [], "records_copied": 9, "lag": lag}
        return {"migration": migration, "brokers": []}


def test_the_longest_lag_is_what_leaders_counted() -> None:
    leaders = _Leaders()
    with Watch(leaders, Narrator(), []) as watch:
        wait_for("all looks", lambda: len(leaders.left) == 1)
    assert watch.lag_max == 1_312


@pytest.mark.parametrize("width", [40, 60, 120])
def test_a_narrow_terminal_cuts_what_is_said_and_not_of_what(width: int) -> None:
    leaders = _Leaders()
    status = leaders.status()
    status["migration"] |= {"committed_offset": 1_247, "confirmed_offset": 1_107}
    watch = Watch(leaders, Narrator(), [0])
    watch.states, watch.status = ["INACTIVE", "WAIT_FOR_CONTROLLER_QUORUM", "DUAL_WRITE"], status
    console = Console(file=io.StringIO(), width=width)
    console.print(watch.table())
    file: Any = console.file
    lines = file.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "driver",
        "broker 0",
        "waiting",
        "copied",
        "lag",
        "offsets",
    ]
    assert max(map(len, lines)) <= width
