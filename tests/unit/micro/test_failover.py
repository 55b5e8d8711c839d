"""Who needs longer after a kill is of speed: it is said, and a busy machine is not judged."""

from __future__ import annotations

import pytest

from bench.micro.failover import judged
from emulator.servers.machine import Sharing

QUIET, BUSY = Sharing(2, 0.8, 0.1), Sharing(2, 0.8, 1.2)


@pytest.mark.parametrize(
    ("ours_s", "sharing", "word"),
    [(1.0, BUSY, "OK "), (3.0, QUIET, "FAILED "), (3.0, BUSY, "NOT JUDGED ")],
)
def test_a_slower_failover(ours_s: float, sharing: Sharing, word: str) -> None:
    rows = [
        {"what": "kill", "stack": stack, "first_change_s": took_s}
        for stack, took_s in (("ours", ours_s), ("kafka", 2.0), ("kafka", 2.0))
    ]
    line = judged([*rows, {"what": "commit", "stack": "ours"}], sharing)
    assert line.startswith(word)
    assert f"{ours_s:.2f} s, Kafka's 2.00 s; other programs used" in line
