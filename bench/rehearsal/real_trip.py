"""What the model of docs/blocking.md says of production's own ZooKeeper: its round trip is real."""

from __future__ import annotations

import math
from typing import Final

from bench.lines import changes_a_second
from bench.predict import model
from bench.predict.trace import BOUND

STALLS_S: Final = (1.0, 10.0, 60.0)
"""As ``kraft-bridge predict`` has them."""
UNKNOWN: Final = "not known: a dump shows no round trip; give --zookeeper or --round-trip-ms"


def predicted(trip_ms: float | None, per_s: float, bound: int = BOUND) -> list[str]:
    """Sentences about a ZooKeeper so far away.

    Args:
        trip_ms: of a request that its leader answers; None: not known.
        per_s: changes a second, each the creation of a topic of one partition.
        bound: records that may wait to be written to ZooKeeper.
    """
    if trip_ms is None:
        return [UNKNOWN]
    speed = model.Speed(trip_ms / 1e3, model.OPERATION_S, model.COMMIT_S, model.APPEND_S)
    change = model.creation(1)
    border = model.border(change, bound, speed)
    told = "never" if math.isinf(border) else f"from {changes_a_second(round(border))} on"
    found = [f"at {trip_ms:.2f} ms a request changes wait for ZooKeeper {told}, without any stall"]
    for seconds in STALLS_S:
        waits = model.stalled(change, per_s, bound, speed, seconds)
        lasts = f"the longest {waits.longest_s:.1f} s" if waits.ends else "and the waiting goes on"
        what = f"{waits.operations:,} wait, {lasts}" if waits.operations else "no change waits"
        found.append(f"{seconds:g} s without ZooKeeper, at {changes_a_second(per_s)}: {what}")
    return found
