"""The controllers under measurement: ours and Kafka 3.9.2's, plain KRaft, without ZooKeeper."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from bench.beside.contenders import KAFKA_FLAGS
from bench.rig.bridge import Bridge
from bench.rig.kafka import KraftController
from bench.rpc.cluster import CLUSTER_ID, PROPERTIES

OURS: Final = "ours"
KAFKA: Final = "kafka"
RELEASE: Final = "3.9.2"
_LINGER: Final = "controller.quorum.append.linger.ms"
"""0: a record is written as soon as it is there, as ours does."""
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

Server: TypeAlias = Bridge | KraftController


def made(name: str, folder: Path, *, acls: bool = False) -> Server:
    """A controller that is not started; its folder is made anew.

    Args:
        name: :data:`OURS` or :data:`KAFKA`.
        folder: of all controllers.
        acls: whether it has an authorizer, for which every caller is a super user.
    """
    own = folder / name
    shutil.rmtree(own, ignore_errors=True)
    properties: dict[str, object] = dict(PROPERTIES) | (_AUTHORIZER if acls else {})
    if name == OURS:
        return Bridge(own, None, properties=properties).format(CLUSTER_ID)
    properties |= {_LINGER: 0}
    kafka = KraftController(RELEASE, own, None, CLUSTER_ID, properties=properties)
    kafka.heap = "1g"
    kafka.java_flags = KAFKA_FLAGS
    return kafka


@contextlib.contextmanager
def running(name: str, folder: Path, *, acls: bool = False) -> Iterator[Server]:
    """A controller that is started and answers; it is killed afterwards.

    Raises:
        ProcessError: it did not start.
    """
    server = made(name, folder, acls=acls)
    try:
        yield server.start().wait_started()
    finally:
        server.kill()


def pid_of(server: Server) -> int:
    """The process id of a controller that runs."""
    assert server.pid is not None, "it was started"
    return server.pid
