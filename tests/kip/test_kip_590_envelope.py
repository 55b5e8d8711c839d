"""KIP-590, the controller's side of forwarding: "Envelope" request and its handling."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.controller.envelopes import GOLDEN, PRINCIPAL, enveloped, world_with_broker
from tests.unit.controller.world import World
from wire import messages as m
from wire.codec import encode
from wire.errors import ErrorCode
from wire.frame import decode_response


@pytest.mark.requirement("I08", "I13")
def test_the_golden_envelope_of_a_real_broker() -> None:
    """KIP-590: inner header, body, principal and address; the inner answer with its own header."""
    world = world_with_broker()
    answer = world.ask(enveloped(GOLDEN))
    assert answer.error_code == ErrorCode.NONE
    correlation_id, inner = decode_response(19, 5, answer.response_data)
    assert correlation_id == 7
    assert [(one.name, one.error_code) for one in inner.topics] == [("t1", 0)]
    again = world.ask(enveloped(GOLDEN))
    assert again.error_code == ErrorCode.NONE
    _, inner = decode_response(19, 5, again.response_data)
    assert inner.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.requirement("I13")
def test_bytes_after_the_inner_body_are_ignored() -> None:
    """As Kafka's servers do: librdkafka sends some with requests that its broker forwards."""
    world = world_with_broker()
    answer = world.ask(enveloped(GOLDEN + b"\x00"))
    assert answer.error_code == ErrorCode.NONE
    assert decode_response(19, 5, answer.response_data)[1].topics[0].error_code == 0


def with_key(key: int, version: int = 0) -> bytes:
    return key.to_bytes(2, "big") + version.to_bytes(2, "big") + GOLDEN[4:]


def principal_bytes_of(kind: str, name: str) -> bytes:
    return b"\0\0" + encode(m.DefaultPrincipalData(type=kind, name=name), 0)


BAD = [
    # Everything from here on is wrong in one way more than the row below.
    (
        {"request_principal": b"\x00", "client_host_address": b"", "request_data": b""},
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
    ),
    ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
    ({"request_principal": b"\x00\x01" + PRINCIPAL[2:]}, 97),
    ({"request_principal": PRINCIPAL[:-1]}, 97),
    *(
        ({"request_principal": principal_bytes_of(kind, name)}, 97)
        # As text the first two are User:u:v and :u, which are others' principals.
        for kind, name in (("User:u", "v"), (":", "u"), ("User:", ""))
    ),
    ({"client_host_address": b"\x7f", "request_data": b""}, ErrorCode.INVALID_REQUEST),
    ({"request_data": b""}, ErrorCode.UNSUPPORTED_VERSION),
    ({"request_data": GOLDEN[:9]}, ErrorCode.UNSUPPORTED_VERSION),
    ({"request_data": with_key(999)}, ErrorCode.UNSUPPORTED_VERSION),
    ({"request_data": with_key(18, 3)}, ErrorCode.INVALID_REQUEST),
    ({"request_data": with_key(56, 0)}, ErrorCode.INVALID_REQUEST),
    ({"request_data": with_key(19, 8)}, ErrorCode.UNSUPPORTED_VERSION),
    ({"request_data": GOLDEN[:-1]}, ErrorCode.UNSUPPORTED_VERSION),
]


@pytest.mark.parametrize(("fields", "code"), BAD)
@pytest.mark.requirement("I12")
def test_errors_of_the_envelope_itself(fields: dict[str, Any], code: int) -> None:
    world = world_with_broker()
    offset = world.log.log_end_offset
    (answer,) = world.send(enveloped(GOLDEN, **fields))
    assert answer == m.EnvelopeResponse(response_data=None, error_code=code)
    assert world.log.log_end_offset == offset


@pytest.mark.requirement("I12", "O03")
def test_not_controller_comes_out_without_data() -> None:
    """KIP-866 "Pre-Migration" and KIP-590: the broker goes on looking for the controller."""
    for world in (World(migration_enabled=True), World(activate=False)):
        (answer,) = world.send(enveloped(GOLDEN))
        assert answer == m.EnvelopeResponse(response_data=None, error_code=ErrorCode.NOT_CONTROLLER)
