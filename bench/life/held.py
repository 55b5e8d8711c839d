"""Keeps a copy from ending: after the claim no request of the controller reaches ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from bench.life.stage import Stage
from emulator.servers.fault_proxy import FaultProxy

_CLAIMS: Final = (b"\x00\x00\x00\x0b/controller", b"kraftControllerEpoch")
"""In a request that writes ``/controller``: its path with the length before it, and its content."""
_RESULT: Final = slice(12, 20)
"""Of the reply to a multi: its error, and the kind of its first result, -1 of one that failed."""


def claimed(request: bytes, reply: bytes) -> bool:
    """Whether a controller of KRaft mode has got ``/controller`` by this request to ZooKeeper."""
    error, kind = reply[_RESULT][:4], reply[_RESULT][4:]
    return all(each in request for each in _CLAIMS) and not any(error) and kind != b"\xff" * 4


@contextmanager
def held_copy(stage: Stage) -> Iterator[Callable[[], None]]:
    """Start the planned quorum; after its claim of ``/controller`` nothing reaches ZooKeeper.

    Yields what waits until that is so. The files of the controllers name ZooKeeper itself, as an
    operator's do, and not the line by which they reach it.

    Raises:
        ProcessError: a controller failed.
        TimeoutError: none claims.
    """
    nodes = stage.controllers.nodes
    over = threading.Event()
    with FaultProxy(stage.zk.port) as line:

        def look(request: bytes, reply: bytes) -> None:
            if claimed(request, reply):
                line.freeze(to_client=False)  # the controller still gets the answer to its claim
                over.set()

        line.watch_replies = look
        for node in nodes.values():
            node.zk = line.hosts
        stage.start_quorum()
        for node in nodes.values():
            node.zk = stage.zk.hosts
            node.write_properties()

        def held() -> None:
            stage.wait("claim", over.is_set)

        yield held
