"""The znodes that are made first, and whose ZooKeeper may be written."""

from __future__ import annotations

import pytest

from emulator.migration.taking_over.preconditions import Why
from emulator.migration.taking_over.tasks import LOOK, PATHS, WHOSE, creation, other_cluster
from emulator.znodes import cluster, migration
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    Create,
    GetData,
    MultiRead,
    NodeData,
    Stat,
    Sync,
    ZkFailed,
    ZkLost,
    ZkOutcome,
    ZkResult,
)

OURS = "our-cluster"


def _holds(data: bytes) -> ZkResult:
    return ZkResult("tag", NodeData(data, Stat(*[0] * 11)))


def test_parents_are_made_before_children_and_migration_last() -> None:
    assert PATHS[-1] == migration.PATH
    seen: set[str] = set()
    for path in PATHS:
        parent = path.rpartition("/")[0]
        assert not parent or parent in seen
        seen.add(path)


def test_everything_is_looked_at_on_an_up_to_date_server() -> None:
    assert (Sync("/"), GetData(cluster.PATH)) == WHOSE
    (first, second) = LOOK
    assert first == Sync("/")
    assert second == MultiRead(tuple(GetData(path) for path in PATHS))


def test_what_is_missing_is_made_and_migration_is_read() -> None:
    assert creation(("/admin", migration.PATH)) == (
        Create("/admin", None),
        Create(migration.PATH, migration.encode(migration.INITIAL)),
        Sync("/"),
        GetData(migration.PATH),
    )
    assert creation(()) == (Sync("/"), GetData(migration.PATH))


@pytest.mark.requirement("C12")
@pytest.mark.parametrize(
    ("answer", "why", "fatal"),
    [
        (_holds(cluster.encode(OURS)), None, False),
        (ZkFailed("tag", ZkCode.NO_NODE, 0), None, False),
        (ZkLost("tag"), None, False),
        (ZkResult("tag", None), None, False),
        (ZkFailed("tag", ZkCode.NO_AUTH, 0), Why.UNREADABLE, False),
        (_holds(b"{}"), Why.MALFORMED_ZNODE, True),
        (_holds(cluster.encode("theirs")), Why.OTHER_CLUSTER, True),
    ],
)
def test_whose_zookeeper_it_is(answer: ZkOutcome, why: Why | None, fatal: bool) -> None:
    found = other_cluster(answer, OURS)
    if why is None:
        assert found is None
        return
    assert (found.why, found.subject, found.fatal) == (why, cluster.PATH, fatal)
    if why is Why.OTHER_CLUSTER:
        assert "belongs to cluster theirs" in found.text
        assert f"formatted for cluster {OURS}" in found.text
