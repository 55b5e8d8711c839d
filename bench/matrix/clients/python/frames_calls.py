"""Calls no library makes, over bare frames: ``python -m bench.matrix.clients.python.frames_calls``.

Producer ids, coordinators, every version of ApiVersions and Metadata, versions and APIs that a
broker does not serve.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

from bench.load.connection import Connection, address_of
from bench.matrix.clients.python.loop import Calls, serve
from wire import messages as m
from wire.errors import ErrorCode

_ids = itertools.count(1)
_TIMEOUT_S: Final = 10.0
_NEVER: Final = 99
"""A version that no release has."""
_CREATE_TOPICS, _ENVELOPE, _BROKER_HEARTBEAT, _ALTER_PARTITION, _VOTE = 19, 58, 63, 56, 52


def calls(address: str) -> Calls:
    """Every call, in order."""

    def ask(request: Any, version: int | None = None) -> Callable[[], Any]:
        return lambda: _ask(address, request, version)

    def bare(key: int, version: int) -> Callable[[], Any]:
        return lambda: _bare(address, key, version)

    return {
        **{f"ApiVersions {version}": ask(_API_VERSIONS, version) for version in range(5)},
        "ApiVersions never": bare(18, _NEVER),
        **{
            f"describe all by Metadata {version}": ask(_metadata(version), version)
            for version in range(13)
        },
        "describe an unknown id by Metadata": ask(
            m.MetadataRequest(
                topics=[m.MetadataRequest.MetadataRequestTopic(topic_id=bytes(15) + b"\7")]
            )
        ),
        "describe and create by Metadata": ask(
            m.MetadataRequest(
                topics=[m.MetadataRequest.MetadataRequestTopic(name="nosuch")],
                allow_auto_topic_creation=True,
            )
        ),
        "InitProducerId": ask(m.InitProducerIdRequest(transaction_timeout_ms=1)),
        "InitProducerId, an id twice": lambda: len(
            {_call(address, m.InitProducerIdRequest(), 4).producer_id for _ in range(3)}
        ),
        "InitProducerId, no transactional id": ask(
            m.InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1)
        ),
        "find coordinator of a group": ask(_coordinator("g1", 0)),
        "find coordinator of a transaction": ask(_coordinator("t1", 1)),
        "find coordinator of nothing": ask(_coordinator("x", 9)),
        "find coordinators, version 3": ask(m.FindCoordinatorRequest(key="g1", key_type=0), 3),
        "describe cluster": ask(m.DescribeClusterRequest()),
        "describe controllers": ask(m.DescribeClusterRequest(endpoint_type=2)),
        "CreateTopics never": bare(_CREATE_TOPICS, _NEVER),
        "Envelope from a client": bare(_ENVELOPE, 0),
        "BrokerHeartbeat from a client": bare(_BROKER_HEARTBEAT, 0),
        "AlterPartition from a client": bare(_ALTER_PARTITION, 0),
        "Vote from a client": bare(_VOTE, 0),
        "an API of the future": bare(4000, 0),
    }


_API_VERSIONS: Final = m.ApiVersionsRequest(
    client_software_name="frames", client_software_version="1"
)


def _metadata(version: int) -> m.MetadataRequest:
    # In version 0 an empty list names all topics, in later ones none at all.
    topics: list[Any] | None = None if version else []
    return m.MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)


def _coordinator(key: str, kind: int) -> m.FindCoordinatorRequest:
    return m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])


def _call(address: str, request: Any, version: int | None) -> Any:
    async def call() -> Any:
        connection = await Connection.open(address_of(address), "frames", _ids)
        try:
            answer, _ = await connection.call(request, version)
            return answer
        finally:
            connection.close()

    return asyncio.run(call())


def _ask(address: str, request: Any, version: int | None) -> Any:
    found = _plain(_call(address, request, version))
    if "api_keys" in found:
        ranges = {one["api_key"]: one for one in found.pop("api_keys")}
        found |= {
            f"api {key}": [one["min_version"], one["max_version"]] for key, one in ranges.items()
        }
    if "producer_id" in found:
        found["producer_id"] = "given" if found["producer_id"] >= 0 else "none"
    return found


def _plain(value: Any) -> Any:
    """A message as maps and lists, error codes by name."""
    names = getattr(value, "__struct_fields__", None)
    if names is None:
        return [_plain(one) for one in value] if isinstance(value, list) else value
    found = {name: _plain(getattr(value, name)) for name in names}
    if "error_code" in found:
        found["error_code"] = ErrorCode(found["error_code"])
    if isinstance(found.get("topic_id"), bytes):
        found["topic_id"] = "A" * 22 if not any(found["topic_id"]) else "<id>"
    for name in ("leader_epoch", "finalized_features_epoch"):
        found.pop(name, None)
    return found


def _bare(address: str, key: int, version: int) -> str:
    """Send a header of version 1 without a body; what comes back, if anything."""
    header = struct.pack(">hhih", key, version, 7, -1)
    with socket.create_connection(address_of(address), _TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(header)) + header)
        try:
            with connection.makefile("rb") as answer:
                size = answer.read(4)
                if len(size) < 4:
                    return "closed"
                frame = answer.read(struct.unpack(">i", size)[0])
        except ConnectionResetError:
            return "closed"
    (code,) = struct.unpack_from(">h", frame, 4)
    return f"error {code}, {len(frame)} bytes"


def main() -> None:
    """Serve."""
    serve(calls(sys.argv[1]))


if __name__ == "__main__":
    main()
