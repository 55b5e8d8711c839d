"""Which ips AlterClientQuotas takes: those that a broker can read wherever they are kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.controller.registry import handlers
from emulator.metadata import EMPTY
from tests.unit.controller.world import call, context, header
from wire import messages as m
from wire.errors import ErrorCode

Request = m.AlterClientQuotasRequest


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
    entity = [Request.EntityData(entity_type="ip", entity_name=name)]
    ops = [Request.OpData(key="connection_creation_rate", value=5.0)]
    request = Request(entries=[Request.EntryData(entity=entity, ops=ops)])
    surroundings = context(EMPTY, request)
    surroundings = replace(surroundings, call=call(request))
    result = handlers()[header(request).api_key].result(EMPTY, request, surroundings)
    (entry,) = result.response.entries
    assert entry.error_code == (ErrorCode.NONE if taken else ErrorCode.INVALID_REQUEST)
    assert bool(result.records) == taken
