"""Requests of clients to the APIs that a broker answers itself, without a network."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

from emulator.broker.cluster import ImageCluster
from emulator.broker.registry import Answer, Asked, PassOn, served
from emulator.config.broker import load_broker
from emulator.metadata.image import Image
from emulator.seam import whole
from tests.unit.controller.world import header
from wire.codec import decode, encode
from wire.releases import broker_ranges
from wire.schema import spec

PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker",
    "controller.quorum.voters": "3000@127.0.0.1:19093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "listeners": "INTERNAL://127.0.0.1:29091",
    "log.dirs": "logs",
}
ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def ask(
    image: Image,
    request: Any,
    version: int | None = None,
    *,
    properties: dict[str, str] | None = None,
    **fields: Any,
) -> Any:
    """What broker 1 makes of a request in a version; the newest of the release if not told."""
    config, _ = load_broker({**PROPERTIES, **(properties or {})}, "here")
    ranges = broker_ranges(config.release, mode="kraft")
    key = spec(type(request)).key
    assert key is not None
    head = header(request, ranges[key][1] if version is None else version)
    values: dict[str, Any] = {
        "config": config,
        "header": head,
        "advertised": ranges,
        "now_ms": 0,
        "rng": Random(1),
        "listener": "INTERNAL",
        **fields,
    }
    told = served()[key].function(ImageCluster("a-cluster", image), request, Asked(**values))
    if isinstance(told, Generator):
        told = whole(told)
    response = told.response if isinstance(told, Answer) else told
    if not isinstance(response, PassOn):
        # What cannot be written in the version of the request is no answer.
        written = encode(response, head.api_version)
        assert decode(type(response), head.api_version, written) is not None
    return told


def refused(request: Any, version: int, code: int) -> Any:
    """The answer with one error for everything, read back from its bytes."""
    key = spec(type(request)).key
    assert key is not None
    response = served()[key].refused(request, code, "why")
    return decode(type(response), version, encode(response, version))
