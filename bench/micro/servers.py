"""The controllers under measurement: ours and Kafka 3.9.2's, each configured for speed."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KraftController

OURS: Final = "ours"
KAFKA: Final = "kafka"
BOTH: Final = (OURS, KAFKA)
RELEASE: Final = "3.9.2"
CLUSTER_ID: Final = "cnBjLWJlbmNoLWNsdXN0ZQ"

Server: TypeAlias = Bridge | KraftController


def made(
    name: str, folder: Path, zk: str | None = None, properties: Mapping[str, object] | None = None
) -> Server:
    """A controller that is not started; its folder is made anew.

    Args:
        name: :data:`OURS` or :data:`KAFKA`.
        folder: its own.
        zk: connect string; None: plain KRaft.
        properties: more of them.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if name == OURS:
        return Bridge(folder, zk, properties=properties).format(CLUSTER_ID)
    kafka = KraftController(RELEASE, folder, zk, CLUSTER_ID, properties=properties)
    return kafka.at_full_speed()


@contextlib.contextmanager
def running(
    name: str, folder: Path, zk: str | None = None, properties: Mapping[str, object] | None = None
) -> Iterator[Server]:
    """As :func:`made`, started: it answers. It is killed afterwards.

    Raises:
        ProcessError: it did not start.
    """
    server = made(name, folder, zk, properties)
    try:
        yield server.start().wait_started()
    finally:
        server.kill()


def pid_of(server: Server) -> int:
    """The process id of a controller that runs."""
    assert server.pid is not None, "it was started"
    return server.pid
