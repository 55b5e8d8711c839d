"""Topics that ZooKeeper holds before the migration, written by kazoo in large multis."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from typing import Any, Final

from kazoo.client import KazooClient

PREFIX: Final = "present"
_OPS: Final = 500
_WINDOW: Final = 4
_COMPARED: Final = 1_000
"""As many topics as share the first three of the six digits of their number."""
_PARTITIONS_COMPARED: Final = 20_000
_NO_CONFIG: Final = b'{"version":1,"config":{}}'


def present_name(number: int) -> str:
    """Name of a topic that is there from the start."""
    return f"{PREFIX}-{number:06d}"


def present_id(number: int) -> bytes:
    """Its id."""
    return hashlib.sha256(present_name(number).encode()).digest()[:16]


def unread(prefix: str, topics: int, partitions: int) -> list[str]:
    """Prefixes of topics that are not compared: reading all of very many would take minutes.

    The first thousand are compared, or none if those have more than 20,000 partitions.

    Args:
        prefix: of their names, before a hyphen and six digits.
        topics: how many there are.
        partitions: of each.
    """
    if min(topics, _COMPARED) * partitions > _PARTITIONS_COMPARED:
        return [f"{prefix}-"]
    thousands = range(1, -(-topics // _COMPARED))
    return [f"{prefix}-{number:03d}" for number in thousands]


def topics(client: KazooClient, count: int, partitions: int, brokers: int = 3) -> None:
    """Create topics of three replicas, as a ZooKeeper-mode controller does.

    The first partition of each is on brokers 0, 1, 2, of which 0 leads, the next on 1, 2, 3 and so
    on: with three brokers all are on the same.

    Raises:
        KazooException: ZooKeeper refuses one.
    """
    replicas = [_replicas(index, brokers) for index in range(partitions)]
    states = [_state(isr) for isr in replicas]
    assignment = {str(index): of_one for index, of_one in enumerate(replicas)}
    pending: deque[Any] = deque()
    transaction, ops = client.transaction(), 0

    def create(path: str, data: bytes | None) -> None:
        nonlocal transaction, ops
        transaction.create(path, data or b"")
        ops += 1
        if ops == _OPS:
            pending.append(transaction.commit_async())
            transaction, ops = client.transaction(), 0
            if len(pending) > _WINDOW:
                _check(pending.popleft().get(timeout=60))

    for number in range(count):
        name = present_name(number)
        topic_id = base64.urlsafe_b64encode(present_id(number)).rstrip(b"=").decode()
        body = {
            "removing_replicas": {},
            "partitions": assignment,
            "topic_id": topic_id,
            "adding_replicas": {},
            "version": 3,
        }
        create(f"/brokers/topics/{name}", json.dumps(body).encode())
        create(f"/config/topics/{name}", _NO_CONFIG)
        create(f"/brokers/topics/{name}/partitions", None)
        for index in range(partitions):
            create(f"/brokers/topics/{name}/partitions/{index}", None)
            create(f"/brokers/topics/{name}/partitions/{index}/state", states[index])
    if ops:
        pending.append(transaction.commit_async())
    for answer in pending:
        _check(answer.get(timeout=60))


def _replicas(index: int, brokers: int) -> list[int]:
    first = index % (brokers - 2)
    return [first, first + 1, first + 2]


def _state(isr: list[int]) -> bytes:
    leader = {"controller_epoch": 1, "leader": isr[0], "version": 1, "leader_epoch": 0, "isr": isr}
    return json.dumps(leader).encode()


def _check(results: list[Any]) -> None:
    for result in results:
        if isinstance(result, Exception):
            raise result
