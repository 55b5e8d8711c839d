"""When a refused znode is tried again, what is left out meanwhile, and what is told of it."""

from __future__ import annotations

import pytest

from emulator.migration.dual_write.pipeline import Refused
from emulator.migration.dual_write.poison import (
    RETRY_MS_MAX,
    SKIPPED_RETRY_MS,
    Poison,
    Reaction,
)
from emulator.migration.plan import Group
from emulator.seam import Log
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import Check, Create, Delete, SetData, ZkOp

T = 1_000_000
DENIED = ZkCode.NO_AUTH


def _refused(path: str, code: int = DENIED) -> Refused:
    return Refused(code, SetData(path, b""))


def _skipping(*paths: str) -> Poison:
    poison = Poison(skip=True)
    for at, path in enumerate(paths):
        assert poison.refused(_refused(path), T + at) is Reaction.RECONCILE
    return poison


def test_a_blocked_znode_is_tried_again_later_and_later() -> None:
    poison, waits = Poison(skip=False), []
    for at in range(7):
        assert poison.refused(_refused("/a"), T + at) is Reaction.BLOCK
        waits.append(poison.retry_ms - T - at)
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, RETRY_MS_MAX, RETRY_MS_MAX]
    assert poison.since_ms == T
    assert [one.path for one in poison.znodes] == ["/a"]
    assert poison.skipped == ()
    poison.healed()
    assert (poison.since_ms, poison.znodes) == (None, ())
    poison.refused(_refused("/a"), 2 * T)
    assert (poison.retry_ms, poison.since_ms) == (2 * T + 1_000, 2 * T)


def test_a_znode_that_cannot_be_read_blocks_until_it_is_read() -> None:
    poison = Poison(skip=True)
    poison.unreadable("/a", "NO_AUTH", T)
    assert (poison.since_ms, poison.retry_ms) == (T, T + 1_000)
    (one,) = poison.znodes
    assert (one.path, one.cause, one.skipped) == ("/a", "NO_AUTH", False)
    poison.healed()
    assert poison.since_ms == T, "what was refused is written, and it still cannot be read"
    poison.readable()
    assert (poison.since_ms, poison.znodes) == (None, ())


def test_what_blocks_beside_it_blocks_on() -> None:
    poison = Poison(skip=False)
    poison.refused(_refused("/b"), T)
    poison.unreadable("/a", "NO_AUTH", T + 5)
    assert [one.path for one in poison.znodes] == ["/a", "/b"]
    assert poison.retry_ms == T + 5 + 2_000
    poison.readable()
    assert (poison.since_ms, [one.path for one in poison.znodes]) == (T, ["/b"])


@pytest.mark.parametrize(
    ("op", "code", "cause"),
    [
        (Create("/a/b", b""), DENIED, "Create: NO_AUTH (the ACL of /a does not give us CREATE)"),
        (Create("/a", b""), DENIED, "Create: NO_AUTH (the ACL of / does not give us CREATE)"),
        (Delete("/a/b"), DENIED, "Delete: NO_AUTH (the ACL of /a does not give us DELETE)"),
        (SetData("/a/b", b""), DENIED, "SetData: NO_AUTH (its ACL does not give us WRITE)"),
        (Check("/a/b", 1), DENIED, "Check: NO_AUTH (its ACL does not give us READ)"),
        (SetData("/a", b""), ZkCode.INVALID_ACL, "SetData: INVALID_ACL"),
    ],
)
def test_the_cause_names_the_right_that_is_missing(op: ZkOp, code: int, cause: str) -> None:
    poison = Poison(skip=False)
    poison.refused(Refused(code, op), T)
    (one,) = poison.znodes
    assert one.cause == cause
    assert one.log() == Log(
        "error",
        "zookeeper refuses a znode permanently",
        {"path": op.path, "cause": cause, "remedy": one.remedy},
    )


def test_one_skipped_znode_is_tried_again_at_a_time() -> None:
    poison = _skipping("/a", "/b")
    assert [one.path for one in poison.skipped] == ["/a", "/b"]
    assert all(one.skipped for one in poison.skipped)
    assert poison.since_ms is None, "nothing is blocked"
    assert poison.skipped_retry_ms == T + SKIPPED_RETRY_MS
    poison.try_skipped_again(2 * T)
    assert poison.skipped_retry_ms == 2 * T + SKIPPED_RETRY_MS
    assert [one.path for one in poison.skipped] == ["/a", "/b"]
    assert _kept(poison, "/a", "/b") == ["/a"]
    poison.refused(_refused("/a"), 2 * T + 1)
    assert _kept(poison, "/a", "/b") == []
    assert [one.path for one in poison.skipped] == ["/b", "/a"], "the other one is next"
    poison.try_skipped_again(3 * T)
    assert _kept(poison, "/a", "/b") == ["/b"]
    poison.healed()
    assert [one.path for one in poison.skipped] == ["/a"]
    assert poison.skipped_retry_ms == 0, "perhaps ZooKeeper takes the next one too"
    poison.try_skipped_again(4 * T)
    poison.healed()
    assert (poison.skipped, poison.skipped_retry_ms) == ((), None)
    poison.try_skipped_again(5 * T)
    assert poison.skipped_retry_ms is None


def test_what_is_written_meanwhile_does_not_bring_a_skipped_one_forward() -> None:
    poison = _skipping("/a")
    poison.healed()
    assert poison.skipped_retry_ms == T + SKIPPED_RETRY_MS
    poison.forget()
    assert (poison.skipped, poison.skipped_retry_ms) == ((), None)


@pytest.mark.parametrize("path", ["/migration", "/kraft_bridge", "/controller_epoch"])
def test_the_znodes_of_the_chain_are_not_skipped(path: str) -> None:
    poison = Poison(skip=True)
    assert poison.refused(_refused(path), T) is Reaction.BLOCK
    assert "poison=skip" not in poison.znodes[0].remedy
    assert poison.skipped == ()


def _kept(poison: Poison, *paths: str) -> list[str]:
    groups: list[Group] = [(SetData(path, b""),) for path in paths]
    return [group[0].path for group in poison.filter(groups)]


def test_what_is_skipped_takes_everything_below_it_along() -> None:
    poison = _skipping("/a/b")
    assert _kept(poison, "/a", "/a/b", "/a/b/c/d", "/a/bc", "/b") == ["/a", "/a/bc", "/b"]
    change, note, other = SetData("/x", b""), Create("/a/b/n", b""), Create("/n", b"")
    assert poison.filter([(change, note, other)]) == [(change, other)]
    assert poison.filter([(note, change)]) == []
    plain: list[Group] = [(change,)]
    assert Poison(skip=True).filter(plain) is plain


def test_what_has_children_is_known() -> None:
    poison = Poison(skip=False)
    assert poison.refused(_refused("/a", ZkCode.NOT_EMPTY), T) is Reaction.RECONCILE
    assert poison.not_empty == {"/a"}
    poison.refused(_refused("/b"), T)
    assert poison.not_empty == {"/a"}
    poison.healed()
    assert poison.not_empty == set()
