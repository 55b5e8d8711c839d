"""What a request costs follows from its bytes, from those of its answer and from nothing else.

Every API in its oldest and newest version is asked for many things, on a controller and on a broker
of ours that hold 100,000 of each entity. Lines of Python that are executed are counted, those of
the generated codec included. They are the same on every machine; 20 ms are taken for 400,000 of
them, at 50 ns a line.

* No step may take more than that, however many entries the request has. Slices are made a tenth as
  long here, so that few entries are many slices; and what a step takes is measured with two sizes,
  and extended to the most entries that a request may have.
* Each byte of a request, of its answer and of its records costs at most four times what it costs in
  the request of the API that names distinct things which are there, and at most ``PER_BYTE``.
* An answer that lists nothing is not much longer than its request.
* Who asks for few things pays the same on a cluster with 500 of each entity.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import pytest

from emulator.broker.api import describe_delegation_token
from emulator.broker.registry import entries_max, offered
from emulator.controller.registry import ENTRIES_MAX, advertised
from tests.unit.controller.envelopes import enveloped
from tests.unit.cost.cluster import ME, Cost, CountedServer, OurBroker, OurController
from tests.unit.cost.contents import MANY, NEW, STYLES, Filler, special
from wire import codec
from wire.errors import EncodeError
from wire.frame import RequestHeader, encode_request
from wire.releases import forwardable
from wire.schema import layout, lookup, spec

STEP_LINES: Final = 400_000
SHORTER: Final = 10
"""Slices are so many times shorter here."""
FEW: Final = MANY // 4
PER_BYTE: Final = 60
DEARER: Final = 4
LONGER: Final = 16
"""Bytes of an answer for each of the request; a text for each entry is most of them."""
SMALL: Final = 30_000
"""Lines that any request may take: the first of its kind compiles its codec."""
LONG_REQUEST: Final = 1_000
"""Bytes of a request from which on each of them is judged."""
BIG, SMALL_CLUSTER = 100_000, 500
ENVELOPE: Final = 58
LISTS: Final = frozenset({3, 19, 29, 32, 35, 41, 46, 48, 50, 74, 75})
"""APIs whose answer lists what there is, or is made, and may be much longer than the request."""

AT_ONCE: Final[Mapping[tuple[str, int], int]] = MappingProxyType(
    {
        ("controller", 38): 22,
        ("controller", 56): 22,
        ("broker", 1): 50,
        ("broker", 3): 12,
        ("broker", 32): 28,
        ("broker", 44): 55,
    }
)
"""What is left: lines that one step still takes for each entry, of APIs that would pass the limit
with the most entries that a request may have (docs/divergence.md)."""
SHOWS: Final = frozenset({3, 75})
PER_TOPIC: Final = 400
"""Of all topics, Metadata and DescribeTopicPartitions find out which ones the caller may see."""


@cache
def server(which: str, count: int) -> CountedServer:
    return OurController(count) if which == "controller" else OurBroker(count)


def ranges(which: str) -> dict[int, tuple[int, int]]:
    found = advertised("3.9") if which == "controller" else offered("3.9", "kraft")
    return dict(found)


CELLS = [
    (which, key, version)
    for which in ("controller", "broker")
    for key, (low, high) in ranges(which).items()
    for version in sorted({low, high})
]
_FIRST = iter(range(0, 1 << 40, MANY))


def of(key: int, version: int, message: Any) -> bytes | None:
    """The frame; None if the version cannot carry it."""
    head = RequestHeader(api_key=key, api_version=version, correlation_id=7, client_id="me")
    try:
        return encode_request(head, message)
    except EncodeError:
        return None


def filled(key: int, version: int, style: str, many: int) -> Any:
    cls = lookup("request", key)
    assert cls is not None
    first = next(_FIRST)
    if cls.__name__ not in NEW:
        first %= BIG - MANY
    return Filler(style, first, many).message(layout(cls, version))


def most(which: str, key: int) -> int:
    return ENTRIES_MAX if which == "controller" else entries_max(offered("3.9", "kraft"))[key]


SLICES: Final = re.compile("[A-Z]+_(PER_SLICE|IN_PART)|SLICE|SLICED_BYTES")


@pytest.fixture(scope="module", autouse=True)
def _in_short_slices() -> Iterator[None]:
    """And tokens are told on a listener without a login."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(describe_delegation_token, "may_ask_for_tokens", lambda _: True)
        for codecs in ("_SLICED_DECODERS", "_SLICED_ENCODERS"):
            patch.setattr(codec, codecs, {})
        for name, module in sorted(sys.modules.items()):
            if name.startswith(("emulator.", "wire.")):
                for constant in filter(SLICES.fullmatch, dir(module)):
                    patch.setattr(module, constant, getattr(module, constant) // SHORTER)
        yield
    server.cache_clear()


def steps_are_short(which: str, key: int, few: Cost, many: Cost, what: str) -> None:
    """The longest slice at its full length; and of the longest request, if it grows as it did."""
    assert few.longest * SHORTER <= STEP_LINES, (what, few.longest)
    each = max(0, many.longest - few.longest) / (MANY - FEW)
    limit = max(STEP_LINES / most(which, key), AT_ONCE.get((which, key), 0))
    assert each <= limit, (what, few.longest, many.longest, each, limit)


def requests(key: int, version: int) -> Iterator[tuple[str, list[bytes]]]:
    """What it is, and frames with few, few others, and many entries."""
    for style in STYLES:
        found = [of(key, version, filled(key, version, style, n)) for n in (FEW, FEW, MANY)]
        frames = [one for one in found if one is not None]
        if len(frames) == len(found):
            yield style, frames


@pytest.mark.parametrize(("which", "key", "version"), CELLS)
def test_of_many_things(which: str, key: int, version: int) -> None:
    asked = server(which, BIG)
    bytes_of: dict[str, float] = {}
    for style, (first, few, many) in requests(key, version):
        asked.ask(first, counted=False)
        small, large = asked.ask(few), asked.ask(many)
        if style != "long":  # its entries are not as many as a request may have
            steps_are_short(which, key, small, large, style)
        if large.asked >= LONG_REQUEST:
            bytes_of[style] = max(0, large.lines - SMALL) / large.size
        told = len(large.answer or b"")
        assert key in LISTS or told <= LONGER * large.asked + 10_000, (style, told, large.asked)
    assert max(bytes_of.values(), default=0) <= PER_BYTE, bytes_of
    ordinary = bytes_of.get("known", 0)
    for style, per_byte in bytes_of.items():
        assert per_byte <= DEARER * max(ordinary, 1), (style, bytes_of)


SPECIAL = [(which, *one) for which in ("controller", "broker") for one in special()]


@pytest.mark.parametrize(
    ("which", "why", "message"), SPECIAL, ids=[f"{one[0]}-{one[1]}" for one in SPECIAL]
)
def test_of_what_no_form_tells(which: str, why: str, message: Any) -> None:
    key = spec(type(message)).key
    assert key is not None
    if key not in ranges(which):
        return
    asked = server(which, BIG)
    frame = of(key, ranges(which)[key][1], message)
    assert frame is not None, why
    asked.ask(frame, counted=False)
    cost = asked.ask(frame)
    assert cost.longest <= STEP_LINES, (why, cost.longest)
    assert max(0, cost.lines - SMALL) <= PER_BYTE * cost.size, (why, cost.lines, cost.size)
    assert len(cost.answer or b"") <= 1_100_000 + LONGER * cost.asked


def small_requests(which: str, key: int, version: int) -> Iterator[bytes]:
    """Those that name nothing, one thing that is there, and one that is not."""
    cls = lookup("request", key)
    assert cls is not None
    for message in (
        cls(),
        Filler("known", 7, 1).message(layout(cls, version)),
        Filler("unknown", 7, 1).message(layout(cls, version)),
    ):
        frame = of(key, version, message)
        if frame is not None:
            yield frame


@pytest.mark.parametrize(("which", "key", "version"), CELLS)
@pytest.mark.parametrize("caller", [ME, "User:u7"])
def test_of_few_things(which: str, key: int, version: int, caller: str) -> None:
    """Whoever may do everything, and who may do next to nothing."""
    for frame in small_requests(which, key, version):
        costs = []
        for count in (SMALL_CLUSTER, BIG):
            asked = server(which, count)
            # What it needs to find things is made at the first time, and kept.
            asked.ask(frame, counted=False, principal=caller)
            costs.append(asked.ask(frame, principal=caller))
        few, many = costs
        more = max(0, many.size - few.size)
        allowed = PER_BYTE * more
        if caller != ME and key in SHOWS:
            allowed += PER_TOPIC * BIG
        assert many.lines - few.lines - 2_000 <= allowed, (few.lines, many.lines, more)
        assert many.longest * SHORTER <= STEP_LINES, (few.longest, many.longest)


@pytest.mark.parametrize("key", sorted(forwardable("3.9") & advertised("3.9").keys()))
def test_in_an_envelope(key: int) -> None:
    """Opened, decided and closed in slices too."""
    version, asked = advertised("3.9")[key][1], server("controller", BIG)
    costs: list[Cost] = []
    for many in (FEW, FEW, MANY):
        inner = of(key, version, filled(key, version, "known", many))
        assert inner is not None
        frame = of(ENVELOPE, 0, enveloped(inner))
        assert frame is not None
        costs.append(asked.ask(frame))
    steps_are_short("controller", key, costs[1], costs[2], "in an Envelope")
