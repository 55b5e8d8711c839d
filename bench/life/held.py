"""A copy that is under way until it is called off: ZooKeeper hears nothing more after the claim."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from bench.life.stage import Stage
from bench.rig.fault_proxy import FaultProxy
from bench.rig.waiting import wait_for

_SLOW_MS: Final = 500
"""What is asked after the claim comes later than the claim is seen: it is held back."""
_CLAIM_S: Final = 300.0
"""Two brokers restart before."""


@contextmanager
def held_copy(stage: Stage) -> Iterator[Callable[[], None]]:
    """Start the quorum that was planned; once it claims ``/controller`` ZooKeeper hears no more.

    Yields what waits until that is so. The files of the controllers name ZooKeeper itself, as an
    operator's do, and not the line by which they reach it.

    Raises:
        ProcessError: a controller failed.
        TimeoutError: none claims.
    """
    nodes = stage.controllers.nodes
    over = threading.Event()
    with FaultProxy(stage.zk.port) as line, ThreadPoolExecutor(1) as pool:
        line.delay(to_server_ms=_SLOW_MS)
        for node in nodes.values():
            node.zk = line.hosts
        stage.start_quorum()
        for node in nodes.values():
            node.zk = stage.zk.hosts
            node.write_properties()

        def hold() -> None:
            wait_for("claim", lambda: over.is_set() or _holder(stage) in nodes, _CLAIM_S)
            line.freeze()

        held = pool.submit(hold)
        try:
            yield held.result
        finally:
            over.set()


def _holder(stage: Stage) -> int | None:
    found = stage.znode("/controller")
    return None if found is None else int(found["brokerid"])
