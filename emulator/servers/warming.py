"""Writes that make a ZooKeeper server's JIT compiler run before it is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from kazoo.client import KazooClient

from emulator.servers.waiting import PATIENCE_S

WARM_UP: Final = "/warm-up"
"""What warmed up the server lies below it."""
_MULTIS: Final = 40
_MULTI_OPS: Final = 250


@contextlib.contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    """A client with a session of 60 s, which waits for a server that is slow."""
    client = KazooClient(hosts=hosts, timeout=60)
    client.start(timeout=PATIENCE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def warm(client: KazooClient, singles: int = 2_000) -> None:
    """Write to it until its compiler has run: ``singles`` creations, then 40 multis of 250."""
    client.create(WARM_UP, b"")
    for pending in [
        client.create_async(f"{WARM_UP}/s{number}", b"x" * 100) for number in range(singles)
    ]:
        pending.get(timeout=60)
    for multi in range(_MULTIS):
        transaction = client.transaction()
        for number in range(_MULTI_OPS):
            transaction.create(f"{WARM_UP}/m{multi}-{number}", b"x" * 100)
        transaction.commit()
