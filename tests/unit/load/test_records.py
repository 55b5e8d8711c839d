"""The judge of what was read back."""

from __future__ import annotations

from bench.load.records import UNKNOWN_OFFSET, Acknowledged, judge

_PROMISED = [Acknowledged("t", 0, offset, offset) for offset in range(3)]


def test_what_holds() -> None:
    verdict = judge(_PROMISED, {("t", 0): [(0, 0), (1, 1), (2, 2)]})
    assert (verdict.held, verdict.acknowledged, verdict.read) == (True, 3, 3)


def test_records_never_acknowledged_may_be_there() -> None:
    assert judge(_PROMISED, {("t", 0): [(0, 0), (1, 1), (2, 2), (3, 3)]}).held


def test_a_lost_record_is_named() -> None:
    assert judge(_PROMISED, {("t", 0): [(0, 0), (2, 2)]}).missing == (_PROMISED[1],)
    assert judge(_PROMISED, {}).missing == tuple(_PROMISED)


def test_another_record_at_its_offset_is_a_loss() -> None:
    verdict = judge(_PROMISED, {("t", 0): [(0, 0), (1, 7), (2, 8)]})
    assert verdict.missing == (_PROMISED[1], _PROMISED[2])


def test_a_record_written_twice_is_named() -> None:
    verdict = judge(_PROMISED, {("t", 0): [(0, 0), (1, 1), (2, 2), (3, 2)]})
    assert verdict.duplicated == (("t", 0, 2),)
    assert not verdict.held


def test_a_record_out_of_order_is_named() -> None:
    verdict = judge([], {("t", 0): [(0, 1), (1, 0), (2, 2)]})
    assert verdict.out_of_order == (("t", 0, 1),)
    assert not verdict.held


def test_a_record_acknowledged_without_its_offset_must_be_there_somewhere() -> None:
    known = Acknowledged("t", 0, UNKNOWN_OFFSET, 7)
    assert judge([known], {("t", 0): [(4, 6), (5, 7)]}).held
    assert judge([known], {("t", 0): [(7, 6)]}).missing == (known,)
    assert judge([known], {("t", 1): [(5, 7)]}).missing == (known,)
