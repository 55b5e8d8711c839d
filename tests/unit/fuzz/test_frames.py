"""Frames come from a seed: half of them valid, a tenth after a login, spoilt in every way."""

from __future__ import annotations

from collections import Counter

import pytest

from tools.fuzz import judge
from tools.fuzz.frames import RELEASE, Cell, Known, drawn
from wire.frame import decode_request
from wire.releases import broker_ranges, controller_ranges
from wire.schema import lookup

KNOWN = Known("5L6g3nShT-eMCtK--X86sw", (b"t" * 16,), (41,), 3, (b"hmac",))
CREATE = Cell("controller", 19, 7)
RANGES = {
    "controller": controller_ranges(RELEASE),
    "zk-broker": broker_ranges(RELEASE, mode="zk"),
    "kraft-broker": broker_ranges(RELEASE, mode="kraft"),
}
CELLS = [
    Cell(server, key, version)
    for server, ranges in RANGES.items()
    for key, (low, high) in ranges.items()
    for version in range(low, high + 1)
    if lookup("request", key) is not None
]


def test_half_are_valid_and_a_tenth_goes_in_after_a_login() -> None:
    frames = [drawn(1, CREATE, number, KNOWN) for number in range(2_000)]
    assert sum(not one.spoilt for one in frames) == 1_000
    assert Counter(one.door for one in frames) == {"plain": 1_600, "login": 200, "before": 200}
    assert sum(not one.spoilt for one in frames if one.door == "login") == 100
    ways = {one.spoilt for one in frames} - {""}
    assert len(ways) == 9
    assert {one.pieces for one in frames} == {1, 3}


def test_a_seed_draws_the_same_again() -> None:
    def of(seed: int) -> list[bytes]:
        return [drawn(seed, CREATE, number, KNOWN).data for number in range(50)]

    assert of(1) == of(1)
    assert of(1) != of(2)


@pytest.mark.parametrize("server", RANGES)
def test_every_api_and_version_is_drawn_and_can_be_read(server: str) -> None:
    cells = [one for one in CELLS if one.server == server]
    assert len({one.key for one in cells}) > 30
    for cell in cells:
        for number in (0, 2, 4):
            frame = drawn(7, cell, number, KNOWN)
            requests = judge.requests_of(frame)
            assert requests
            for one in requests:
                header, _ = decode_request(one)
                assert (header.api_key, header.api_version) == (cell.key, cell.version)


def test_what_a_stranger_cannot_guess_is_in_them() -> None:
    """Else most requests would end at the first check."""
    beats = Cell("controller", 63, 1)
    epochs = [
        decode_request(one)[1].broker_epoch
        for number in range(0, 100, 2)
        for one in judge.requests_of(drawn(1, beats, number, KNOWN))
    ]
    assert epochs.count(41) > len(epochs) // 4
    envelopes = [
        decode_request(judge.requests_of(drawn(1, Cell("controller", 58, 0), number, KNOWN))[0])[1]
        for number in range(0, 100, 2)
    ]
    inner = Counter(
        int.from_bytes(one.request_data[:2], "big")
        for one in envelopes
        if len(one.request_data) > 10
    )
    assert len(inner) > 5


def test_a_producer_that_wants_no_answer_gets_none() -> None:
    frames = [drawn(1, Cell("kraft-broker", 0, 9), number, KNOWN) for number in range(0, 200, 2)]
    wanted = [[decode_request(one)[1].acks for one in judge.requests_of(two)] for two in frames]
    assert [0 in acks for acks in wanted] == [one.closes for one in frames]
    assert 0 < sum(one.closes for one in frames) < len(frames)
