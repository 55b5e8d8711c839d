"""Which entities and ips AlterClientQuotas takes: ips are those that a broker can read anywhere."""

from __future__ import annotations

import pytest

from emulator.metadata import EMPTY
from tests.kit.requests import quota
from tests.unit.controller.world import handle
from wire.errors import ErrorCode


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        (None, True),
        ("10.0.0.1", True),
        ("::1", True),
        ("[2001:db8::1]", True),
        ("localhost", False),
        ("fe80::1%eth0", False),
        ("10.0.0.1/8", False),
    ],
)
def test_addresses_are_taken_and_nothing_else(name: str | None, taken: bool) -> None:
    """A zone names an interface of one machine; a broker elsewhere could not resolve it."""
    result = handle(EMPTY, quota(5.0, name, kind="ip", key="connection_creation_rate"))
    (entry,) = result.response.entries
    assert entry.error_code == (ErrorCode.NONE if taken else ErrorCode.INVALID_REQUEST)
    assert bool(result.records) == taken


@pytest.mark.parametrize(
    ("kind", "key", "value", "why"),
    [
        ("ip", "connection_creation_rate", 2.0**31 - 1, ""),
        ("ip", "connection_creation_rate", 2.0**31, "is too large for an INT."),
        ("ip", "connection_creation_rate", 1.5, "cannot be a fractional value."),
        ("user", "producer_byte_rate", 2.0**63, ""),
        ("user", "consumer_byte_rate", 2.0**64, "is too large for a LONG."),
        ("user", "request_percentage", 1.5, ""),
        ("user", "controller_mutation_rate", 0.0, "must be greater than 0"),
    ],
)
def test_what_is_wrong_with_a_value_is_said_as_kafka_says_it(
    kind: str, key: str, value: float, why: str
) -> None:
    result = handle(EMPTY, quota(value, "10.0.0.1", kind=kind, key=key))
    (entry,) = result.response.entries
    assert (entry.error_message or "").endswith(why)
    assert bool(entry.error_code) == bool(why)


@pytest.mark.parametrize(
    ("entity", "why"),
    [
        ([], "Invalid empty client quota entity"),
        ([("host", "h")], "Unhandled client quota entity type: host"),
        ([("user", "a"), ("user", "b")], "duplicate entity entry user"),
        ([("user", "")], "Empty user not supported"),
        ([("ip", "10.0.0.1"), ("user", "a")], "IP entity shouldnot be combined"),
        ([("ip", "10.0.0.1"), ("client-id", None)], "IP entity shouldnot be combined"),
        ([("ip", "nowhere")], "nowhere is not a valid IP"),
        ([("user", "a"), ("client-id", None)], ""),
    ],
)
def test_entities_that_no_quota_can_be_of(entity: list[tuple[str, str | None]], why: str) -> None:
    request = quota(5.0, "a")
    kind = request.EntityData
    request.entries[0].entity[:] = [kind(entity_type=of, entity_name=name) for of, name in entity]
    (entry,) = handle(EMPTY, request).response.entries
    assert why in (entry.error_message or "")
    assert entry.error_code == (ErrorCode.INVALID_REQUEST if why else ErrorCode.NONE)
