"""Envelopes as brokers send them."""

from __future__ import annotations

from typing import Any

from tests.unit.controller.world import World
from wire import messages as m

PRINCIPAL = bytes.fromhex("000005557365720a414e4f4e594d4f55530000")
GOLDEN = bytes.fromhex(
    "0013 0005 00000007 0004 70757368 00 02 03 7431 00000001 0001 01 01 00 00000bb8 00 00"
)
"""CreateTopics v5 of topic t1 by client "push", correlation id 7, as a real broker sent it."""


def enveloped(inner: bytes, **fields: Any) -> m.EnvelopeRequest:
    values = {
        "request_data": inner,
        "request_principal": PRINCIPAL,
        "client_host_address": b"\x7f\x00\x00\x01",
        **fields,
    }
    return m.EnvelopeRequest(**values)


def world_with_broker() -> World:
    return World().join(0)
