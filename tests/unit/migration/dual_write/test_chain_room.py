"""The bytes that a multi leaves for data: enough in every term, and no more is held back."""

from __future__ import annotations

from emulator.migration.dual_write.chain import (
    INCARNATION_CHARS,
    LARGEST,
    OVERHEAD_SPARE,
    ROOM_LEFT_BYTES,
    Chain,
    room_for_one,
)
from emulator.migration.position import Counters, Term
from emulator.zookeeper.jute import FRAME_BYTES_MAX, MULTI_OVERHEAD_BYTES
from emulator.zookeeper.ops import Check, ZkOp

LONGEST = 2**63 - 1
"""An offset or a zxid."""


def _size(op: ZkOp) -> int:
    data = None if isinstance(op, Check) else getattr(op, "data", None)
    return 100 + len(op.path) + len(data or b"")


def _overhead(term: Term) -> int:
    return Chain(term, Counters(None, None), lambda _: "").overhead_bytes(_size)


def _term(number: int, large: int) -> Term:
    text = "i" * INCARNATION_CHARS
    return Term(number, number, number, number, text, log_offset=large, epoch_created=large)


def test_the_room_is_that_of_the_longest_term() -> None:
    longest = _overhead(_term(LARGEST, LONGEST))
    assert room_for_one(_size) == FRAME_BYTES_MAX - longest - ROOM_LEFT_BYTES


def test_a_term_of_small_numbers_has_more() -> None:
    """Three of its numbers have one digit in place of ten, and two have one in place of 19."""
    small, longest = _overhead(_term(1, 1)), _overhead(_term(LARGEST, LONGEST))
    assert longest - small >= 3 * 9 + 2 * 18


def test_what_a_multi_is_without_data_is_counted_once() -> None:
    asked: list[ZkOp] = []

    def size(op: ZkOp) -> int:
        asked.append(op)
        return 7

    chain = Chain(_term(1, 1), Counters(None, None), lambda _: "")
    for _ in range(2):
        assert chain.overhead_bytes(size) == MULTI_OVERHEAD_BYTES + 3 * 7 + OVERHEAD_SPARE
    assert len(asked) == 3
