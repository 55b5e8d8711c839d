"""How long one large request keeps all others waiting: heartbeats beside it, one after the other.

The longest of their latencies while the request is served is what any caller may have to wait: the
longest step of the controller, its answer's encoding and the machine's other load included. The
requests are encoded before, and their answers decoded after it: this process sends the heartbeats.
"""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.micro import table
from bench.micro.client import Calls, call
from bench.micro.registrations import (
    BROKERS,
    PROPERTIES,
    RpcCluster,
    RpcRefusedError,
    create,
    creation,
    frame,
    registered,
)
from bench.micro.requests import KINDS
from bench.micro.servers import BOTH, running
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import decode_response
from wire.schema import spec

_SETTLE_S: Final = 0.3
"""Heartbeats alone, before and after the request."""
_ACL_COUNT: Final = 5_000
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Every caller is a super user."""


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--only", choices=BOTH, help="measure one controller only")
    parser.add_argument("--partitions", type=int, default=20_000, help="that are there before")


def rows(asked: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Send each large request once.

    Raises:
        RpcRefusedError: one is refused.
        OSError: the connection failed.
        ProcessError: a controller did not start.
    """
    for name in (asked.only,) if asked.only else BOTH:
        with running(name, folder / name, None, {**PROPERTIES, **_AUTHORIZER}) as server:
            cluster = registered(server.port)
            create(cluster, "there", asked.partitions // 100, 100)
            for what, request, version in _requests():
                row = asyncio.run(_one(cluster, what, request, version))
                yield {"controller": name, **row}


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Every row."""
    return table.plain(rows), True


def _requests() -> list[tuple[str, object, int]]:
    """Name, message and version of each, in an order in which later ones need earlier ones."""
    everything: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    acls = m.CreateAclsRequest(
        creations=[
            m.CreateAclsRequest.AclCreation(
                resource_type=2,
                resource_name=f"topic-{number % 500:04d}",
                resource_pattern_type=3,
                principal=f"User:u{number:05d}",
                host="*",
                operation=3,
                permission_type=3,
            )
            for number in range(_ACL_COUNT)
        ]
    )
    every = m.DeleteAclsRequest.DeleteAclsFilter(**everything)
    kinds = m.ListPartitionReassignmentsRequest
    many = [f"many-{number:05d}" for number in range(2_000)]
    return [
        ("CreateTopics, 1 topic of 2,000 partitions", creation(["wide"], 2_000), 7),
        ("CreateTopics, 1 topic of 9,000 partitions", creation(["wider"], 9_000), 7),
        ("CreateTopics, 2,000 topics of 1 partition", creation(many, 1), 7),
        ("ListPartitionReassignments, all", kinds(timeout_ms=60_000, topics=None), 0),
        ("ElectLeaders, all", m.ElectLeadersRequest(topic_partitions=None, timeout_ms=60_000), 2),
        (f"CreateAcls, {_ACL_COUNT:,}", acls, 3),
        (
            "DescribeAcls, all",
            m.DescribeAclsRequest(**everything),
            3,
        ),
        ("DeleteAcls, all", m.DeleteAclsRequest(filters=[every]), 3),
        (
            "DeleteTopics, 2,000 topics of 1 partition",
            m.DeleteTopicsRequest(
                topics=[m.DeleteTopicsRequest.DeleteTopicState(name=name) for name in many],
                timeout_ms=60_000,
            ),
            6,
        ),
        (
            "DeleteTopics, 1 topic of 9,000 partitions",
            m.DeleteTopicsRequest(
                topics=[m.DeleteTopicsRequest.DeleteTopicState(name="wider")], timeout_ms=60_000
            ),
            6,
        ),
    ]


async def _one(cluster: RpcCluster, what: str, request: object, version: int) -> dict[str, Any]:
    key = spec(type(request)).key
    assert key is not None, "a request has a key"
    data = frame(request, key, version)
    quiet = await _longest_ms(cluster, asyncio.sleep(_SETTLE_S))
    asked = Calls()

    async def ask() -> None:
        nonlocal asked
        await asyncio.sleep(_SETTLE_S / 3)
        asked = await call(cluster.port, [lambda: data], 0.0)
        await asyncio.sleep(_SETTLE_S / 3)

    longest = await _longest_ms(cluster, ask())
    _expect(what, decode_response(key, version, asked.last[0])[1])
    return {
        "request": what,
        "answer_ms": asked.longest_ms,
        "longest_wait_ms": longest,
        "longest_wait_before_ms": quiet,
    }


async def _longest_ms(cluster: RpcCluster, work: Awaitable[None]) -> float:
    """The longest latency of heartbeats, one after the other, while something is done."""
    kind = KINDS["heartbeat"]
    stop = asyncio.Event()
    beats = asyncio.ensure_future(
        call(cluster.port, [kind.source(cluster, BROKERS[-1])], 3_600, stop=stop)
    )
    try:
        await work
    finally:
        stop.set()
    calls = await beats
    kind.check(calls)
    return calls.longest_ms


def _expect(what: str, answer: Any) -> None:
    parts = [answer]
    for name in ("topics", "results", "filter_results", "responses"):
        parts += getattr(answer, name, None) or []
    for part in parts:
        code = getattr(part, "error_code", 0)
        if code:
            raise RpcRefusedError(f"{what} is answered with {ErrorCode(code).name}: {part}")
