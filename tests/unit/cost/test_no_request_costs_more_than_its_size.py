"""What a request costs follows from its bytes, from those of its answer and from nothing else.

Every API is asked for many things, on a controller and on a broker of ours that hold many of each
entity. Lines of Python that are executed are counted, those of the generated codec included. They
are the same on every machine; 20 ms are taken for 400,000 of them, at 50 ns a line: measured on 22
APIs with 800 entries, a line took 26 to 91 ns of CPU, the median 51.

* No step may take more than that, however many entries the request has. Slices are made a tenth as
  long here, so that few entries are many slices; and what a step takes is measured with two sizes,
  and extended to the most entries that a request may have.
* Each byte of a request, of its answer and of its records costs at most ``PER_BYTE``, twice what it
  costs with a quarter of the entries, and four times what it costs in the cheapest request of the
  API that names distinct things, be they there or not. Neither one thing that is named many times
  nor a long text is a measure: their bytes are hardly looked at, and cost a hundredth of a line.
* An answer that lists nothing is not much longer than its request.
* Who asks for few things pays the same on a cluster with 500 of each entity.

`make cost` asks for 100,000 of each entity, with all contents and in the oldest version too. And it
compares CPU times of the thread with each other: a regular expression, a search in a list or a copy
is one line, whatever it takes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

import pytest

from emulator.broker.registry import entries_max, offered
from emulator.broker.serving import token_requests
from emulator.controller.registry import ENTRIES_MAX, advertised
from emulator.controller.rules import delegation_tokens
from emulator.seam import whole
from tests.unit.controller.envelopes import enveloped
from tests.unit.cost.cluster import ME, Cost, CountedServer, OurBroker, OurController, cpu_of
from tests.unit.cost.contents import MANY, NEW, STYLES, Filler, special
from tests.unit.cost.plants import PLANTS, Plant
from wire import codec
from wire.errors import EncodeError
from wire.frame import RequestHeader, encode_request
from wire.releases import forwardable
from wire.schema import layout, lookup, spec

pytestmark = pytest.mark.xdist_group("cost")

COST: Final = bool(os.environ.get("COST"))
STEP_LINES: Final = 400_000
SHORTER: Final = 10
"""Slices are so many times shorter here."""
FEW: Final = MANY // 4
MORE: Final = MANY * 4
PER_BYTE: Final = 40
SEARCHED: Final = 60
"""The same where each entry is a search."""
DEARER: Final = 4
GROWS: Final = 2
LEAST: Final = 3
"""Lines that a byte may cost in the cheapest request, as where an entry is seventeen bytes."""
LONGER: Final = 16
"""Bytes of an answer for each of the request; a text for each entry is most of them."""
SMALL: Final = 30_000
"""Lines that any request may take: the first of its kind compiles its codec."""
LONG_REQUEST: Final = 1_000
"""Bytes of a request from which on each of them is judged."""
BIG, SMALL_CLUSTER = 100_000 if COST else 10_000, 500
MOST: Final = 4_000
"""Entries with which the CPU time for each byte is compared with that of FEW."""
SLACK_S: Final = 0.002
ENVELOPE: Final = 58
LISTS: Final = frozenset({3, 19, 29, 32, 35, 41, 46, 48, 50, 74, 75})
"""APIs whose answer lists what there is, or is made, and may be much longer than the request."""

AT_ONCE: Final[Mapping[tuple[str, int, bool], int]] = MappingProxyType(
    {("controller", 38, False): 15}
)
"""What is left: lines that one step still takes for each entry, of APIs that would pass the limit
with the most entries that a request may have (docs/divergence.md); True: of those inside one."""
SHOWS: Final = frozenset({3, 75})
PER_TOPIC: Final = 400
"""Of all topics, Metadata and DescribeTopicPartitions find out which ones the caller may see."""


@cache
def server(which: str, count: int) -> CountedServer:
    return OurController(count) if which == "controller" else OurBroker(count)


@pytest.fixture(autouse=True)
def _as_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds what another has changed: tests run in any order."""
    monkeypatch.setattr(sys.modules[__name__], "_FIRST", iter(range(0, 1 << 40, MANY)))
    for which in ("controller", "broker"):
        for count in (SMALL_CLUSTER, BIG):
            server(which, count).restore()


def ranges(which: str) -> dict[int, tuple[int, int]]:
    found = advertised("3.9") if which == "controller" else offered("3.9", "kraft")
    return dict(found)


CELLS = [
    (which, key, version)
    for which in ("controller", "broker")
    for key, (low, high) in ranges(which).items()
    for version in ({low, high} if COST else {high})
]
_FIRST = iter(range(0, 1 << 40, MANY))


def of(key: int, version: int, message: Any) -> bytes | None:
    """The frame; None if there is no message, or the version cannot carry it."""
    if message is None:
        return None
    head = RequestHeader(api_key=key, api_version=version, correlation_id=7, client_id="me")
    try:
        return encode_request(head, message)
    except EncodeError:
        return None


def filled(key: int, version: int, style: str, many: int) -> Any:
    cls = lookup("request", key)
    first = next(_FIRST)
    if cls.__name__ not in NEW:
        first %= BIG - MANY
    return Filler(style, first, many).message(layout(cls, version))


def most(which: str, key: int) -> int:
    return ENTRIES_MAX if which == "controller" else entries_max(offered("3.9", "kraft"))[key]


SLICES: Final = re.compile("[A-Z]+_(PER_SLICE|IN_PART)|SLICE|SLICED_BYTES")


@pytest.fixture(scope="module", autouse=True)
def _in_short_slices() -> Iterator[None]:
    """And tokens are told and made on a listener without a login."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_requests, "_UNKNOWN_CLIENTS", "")
        patch.setattr(delegation_tokens, "PLAINTEXT", "")
        for codecs in ("_SLICED_DECODERS", "_SLICED_ENCODERS"):
            patch.setattr(codec, codecs, {})
        for name, module in sorted(sys.modules.items()):
            if name.startswith(("emulator.", "wire.")):
                for constant in filter(SLICES.fullmatch, dir(module)):
                    patch.setattr(module, constant, getattr(module, constant) // SHORTER)
        yield
    server.cache_clear()


def steps_are_short(
    which: str,
    key: int,
    few: Cost,
    many: Cost,
    what: str,
    *,
    more: Callable[[], Cost] | None = None,
) -> None:
    """The longest slice at its full length; and of the longest request, if it grows as it did.

    ``more``: the cost of :data:`MORE` entries, after which a slice that was not full has ended.
    """
    assert few.longest * SHORTER <= STEP_LINES, (what, few.longest)
    each = max(0, many.longest - few.longest) / (MANY - FEW)
    limit = max(STEP_LINES / most(which, key), AT_ONCE.get((which, key, what == "inner"), 0))
    if each > limit and more is not None:
        each = max(0, more().longest - many.longest) / (MORE - MANY)
    assert each <= limit, (what, few.longest, many.longest, each, limit)


WORST: Final[Mapping[int, str]] = MappingProxyType({62: "long", 31: "equal", 45: "equal"})
"""What costs most, where it is none of these and not what has many inside."""
DISTINCT: Final = ("known", "unknown")


def requests(key: int, version: int) -> Iterator[tuple[str, list[bytes]]]:
    """What it is, and frames with few, few others, and many entries."""
    for style in STYLES if COST else (*DISTINCT, "ids", WORST.get(key, "inner")):
        found = [of(key, version, filled(key, version, style, n)) for n in (FEW, FEW, MANY)]
        frames = [one for one in found if one is not None]
        if len(frames) == len(found):
            yield style, frames


def _more(asked: CountedServer, key: int, version: int, style: str) -> Cost:
    frame = of(key, version, filled(key, version, style, MORE))
    assert frame is not None
    asked.restore()
    return asked.ask(frame)


@pytest.mark.parametrize(("which", "key", "version"), CELLS)
def test_of_many_things(which: str, key: int, version: int) -> None:
    asked = server(which, BIG)
    bytes_of: dict[str, float] = {}
    for style, (first, few, many) in requests(key, version):
        asked.ask(first, counted=False)
        small, large = asked.ask(few), asked.ask(many)
        if style != "long":  # its entries are not as many as a request may have
            more = partial(_more, asked, key, version, style)
            steps_are_short(which, key, small, large, style, more=more)
        if large.asked >= LONG_REQUEST:
            bytes_of[style] = max(0, large.lines - SMALL) / large.size
            assert bytes_of[style] <= GROWS * small.lines / small.size, style
        told = len(large.answer or b"")
        assert key in LISTS or told <= LONGER * large.asked + 10_000, (style, told, large.asked)
    assert max(bytes_of.values(), default=0) <= PER_BYTE, bytes_of
    cheapest = min((bytes_of[one] for one in DISTINCT if one in bytes_of), default=0)
    for style, per_byte in bytes_of.items():
        assert per_byte <= DEARER * max(cheapest, LEAST), (style, bytes_of)


def cpu(asked: CountedServer, frame: bytes, principal: str = "") -> tuple[float, float]:
    """Seconds of CPU for a request, and for each byte of it."""
    cost = asked.ask(frame, counted=False, principal=principal)
    return cost.cpu, cost.cpu / cost.asked


@cache
def second_of_a_line() -> float:
    """CPU seconds of an ordinary line, on this machine."""
    asked = server("broker", SMALL_CLUSTER)
    frame = of(3, 12, filled(3, 12, "known", MANY))
    assert frame is not None
    return min(cpu(asked, frame)[0] for _ in range(5)) / asked.ask(frame).lines


def is_as_long_as_its_lines(asked: CountedServer, frame: bytes, lines: int) -> None:
    """A line is no more than a few ordinary ones."""
    took = cpu(asked, frame)[0]
    assert took <= DEARER * second_of_a_line() * (lines + SMALL), (took, lines)


def what_is_no_line(which: str, key: int, version: int) -> None:
    """Many entries cost no more for each byte than few, also to read alone; nor do long texts."""
    asked = server(which, BIG)

    def frame(style: str, many: int) -> bytes:
        found = of(key, version, filled(key, version, style, many))
        assert found is not None
        return found

    cheapest = min(cpu(asked, frame("known", FEW))[1] for _ in range(4))
    for style in DISTINCT:
        took, per_byte = cpu(asked, frame(style, MOST))
        assert took <= SLACK_S or per_byte <= DEARER * cheapest, (style, took, cheapest)
    long_texts = frame("long", MANY)
    is_as_long_as_its_lines(asked, long_texts, asked.ask(long_texts).lines)
    read = []
    for many in (MOST, most(which, key)):
        message = filled(key, version, "unknown", many)
        body = codec.encode(message, version)
        reading = codec.decoding(type(message), version, body, 1 << 40)
        read.append((cpu_of(partial(whole, reading))[1], len(body)))
    (short, length), (long, longer) = read
    assert long <= SLACK_S or long / longer <= DEARER * short / length, read


if COST:
    test_what_is_no_line = pytest.mark.parametrize(("which", "key", "version"), CELLS)(
        what_is_no_line
    )


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
    assert max(0, cost.lines - SMALL) <= SEARCHED * cost.size, (why, cost.lines, cost.size)
    if COST:
        is_as_long_as_its_lines(asked, frame, cost.lines)
    assert len(cost.answer or b"") <= 1_100_000 + LONGER * cost.asked


def small_requests(which: str, key: int, version: int) -> Iterator[bytes]:
    """Those that name nothing, one thing that is there, and one that is not."""
    cls = lookup("request", key)
    assert cls is not None
    fillers = [Filler(*one, 1) for one in (("known", 7), ("unknown", 7), ("ids", 7), ("ids", 8))]
    for message in (cls(), *(one.message(layout(cls, version)) for one in fillers)):
        frame = of(key, version, message)
        if frame is not None:
            yield frame


@pytest.mark.parametrize(("which", "key", "version"), CELLS)
@pytest.mark.parametrize("caller", [ME, "User:u7"])
def test_of_few_things(which: str, key: int, version: int, caller: str) -> None:
    """Whoever may do everything, and who may do next to nothing."""
    everything, *others = small_requests(which, key, version)
    for frame in (everything, *others):
        costs = []
        for count in (SMALL_CLUSTER, BIG):
            asked = server(which, count)
            # What it needs to find things is made at the first time, and kept.
            asked.ask(frame, counted=False, principal=caller)
            costs.append(asked.ask(frame, principal=caller))
        few, many = costs
        more = max(0, many.size - few.size)
        allowed = PER_BYTE * more
        if caller != ME and key in SHOWS and frame is everything:
            allowed += PER_TOPIC * BIG
        assert many.lines - few.lines - 2_000 <= allowed, (few.lines, many.lines, more)
        assert many.longest * SHORTER <= STEP_LINES, (few.longest, many.longest)
        if COST and not allowed:
            seconds = [
                min(cpu(server(which, count), frame, caller)[0] for _ in range(5))
                for count in (SMALL_CLUSTER, BIG)
            ]
            assert seconds[1] <= DEARER * seconds[0] + SLACK_S / 4, seconds


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


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    version = ranges(plant.which)[plant.key][1]
    cell = (plant.which, plant.key, version)
    specials = [one for one in SPECIAL if (one[0], spec(type(one[2])).key) == cell[:2]]
    judges: Mapping[str, Callable[[], object]] = {
        "few": lambda: test_of_few_things(*cell, ME),
        "many": lambda: test_of_many_things(*cell),
        "special": lambda: [test_of_what_no_form_tells(*one) for one in specials],
        "cpu": lambda: what_is_no_line(*cell),
    }
    for count in (SMALL_CLUSTER, BIG):
        server(plant.which, count)
    plant.breaks(monkeypatch)
    with pytest.raises(AssertionError):
        judges[plant.judge]()
