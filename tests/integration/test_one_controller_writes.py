"""A leader that was stopped wakes up while another leads: ZooKeeper's own log says who wrote."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.judge.stores import differences
from bench.judge.transactions import (
    CONTROLLER,
    EPOCH,
    MIGRATION,
    Claim,
    Transaction,
    claims,
    two_writers,
)
from emulator.io.kafka_client import Connection
from emulator.servers.bridge import Bridge
from emulator.servers.ports import HOST
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.migrating_controllers import (
    IDS,
    MigratingControllers,
    create,
    migrating,
    paths,
)
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

BAD_VERSION = -103
COUNT = 8


def held_back(stage: MigratingControllers, leader: int) -> list[str]:
    """Topics that are committed and answered; what the leader writes of them is held back.

    Quotas come first, in multis of their own: one that came too late would write over newer ones,
    where a creation meets what is there already.
    """
    stage.proxies[leader].freeze()
    before = len(stage.seen[leader])
    limited(stage, 2e6, leader)
    wait_for("a write of these quotas", lambda: sent(stage, leader, before, "/config/users/"))
    before = len(stage.seen[leader])
    names = stage.create("held-back", leader, count=COUNT)
    wait_for("a write of these topics", lambda: sent(stage, leader, before, "/brokers/topics/held"))
    return names


def limited(stage: MigratingControllers, rate: float, *among: int) -> None:
    """Set the same quota of each of some users."""
    for number in range(COUNT):
        stage.limit("user", f"user-{number}", rate, *among)


def sent(stage: MigratingControllers, node_id: int, since: int, path: str) -> bool:
    """Whether a multi with such a path has left a controller."""
    return any(op.path.startswith(path) for ops in stage.multis(node_id, since) for op in ops)


def nothing_uncommitted(stage: MigratingControllers, leader: int) -> str:
    """A topic that the leader appends while both others stand still: none of it is sent.

    Until a record that it appends every half second is behind it in the log.
    """
    name, since = stage.name("unconfirmed"), len(stage.seen[leader])
    path, answers = f"/brokers/topics/{name}", []
    with ExitStack() as stack:
        for each in IDS:
            if each != leader:
                stack.enter_context(stage.nodes[each].paused())
        caller = threading.Thread(target=lambda: answers.append(stage.ask(leader, name)))
        caller.start()
        wait_for("records that nobody confirms", lambda: unconfirmed(stage, leader) >= 3)
        assert not sent(stage, leader, since, path)
    caller.join()
    assert answers == [ErrorCode.NONE]
    wait_for("its write", lambda: sent(stage, leader, since, path))
    return name


def unconfirmed(stage: MigratingControllers, leader: int) -> int:
    """Records of a leader's log that no majority has."""
    node = stage.nodes[leader]
    assert isinstance(node, Bridge)
    offsets = (node.status() or {"offsets": {"log_end": 0, "high_watermark": 0}})["offsets"]
    return int(offsets["log_end"] - offsets["high_watermark"])


@pytest.mark.requirement("G06", "E01", "E07", "E09", "Z03")
def test_a_leader_that_was_paused_writes_nothing_beside_the_next_one(
    make_zookeeper: Callable[..., ZooKeeper], tmp_path: Path
) -> None:
    """What it had sent before arrives after the next claim, in a session that is still alive.

    What it had not committed was never sent.
    """
    with migrating(tmp_path, make_zookeeper(fsync=False)) as stage:
        old = stage.start()
        names = stage.create("before", old, count=COUNT)
        names.append(nothing_uncommitted(stage, old))
        limited(stage, 1e6, old)
        stage.settled()
        names += held_back(stage, old)
        others = [each for each in IDS if each != old]

        connection = Connection(HOST, stage.ports[old], 60)
        answers: list[int] = []
        with stage.nodes[old].paused():
            caller = threading.Thread(
                target=lambda: answers.append(create(connection, "asked-of-the-old-one"))
            )
            caller.start()
            stage.in_dual_write(*others)
            names += stage.create("meanwhile", *others, count=COUNT)
            limited(stage, 3e6, *others)
            stage.proxies[old].thaw()
            wait_for("what was held back", lambda: arrived(stage))
        caller.join()
        connection.close()
        assert answers == [ErrorCode.NOT_CONTROLLER]
        names += stage.create("after", count=COUNT)
        leader = stage.settled()
        for each in IDS:
            if each != leader:
                assert stage.ask(each, "asked-of-a-follower") == ErrorCode.NOT_CONTROLLER

        tree, logs = stage.stores()
        assert [differences(tree, log) for log in logs.values()] == [[], [], []]
        assert set(names) == set(tree.topics)
        quotas = [tree.configs[f"users/user-{number}"] for number in range(COUNT)]
        assert quotas == [{"producer_byte_rate": "3000000.0"}] * COUNT
        judged(stage.transactions(), old, leader, names)


def arrived(stage: MigratingControllers) -> list[Transaction]:
    """What of the old leader has arrived in ZooKeeper behind the claim of the next."""
    transactions = stage.transactions()
    return late(transactions, *claims(transactions)[:2])


def late(transactions: list[Transaction], first: Claim, second: Claim) -> list[Transaction]:
    """What the session of one claim sent and ZooKeeper took behind the next claim."""
    behind = [one for one in transactions if one.zxid > second.zxid]
    return [one for one in behind if one.session == first.session]


def judged(transactions: list[Transaction], old: int, leader: int, names: list[str]) -> None:
    """One writes at any moment; each claim raises the epoch's version by one; work is taken up."""
    assert two_writers(transactions) == []
    made = claims(transactions)
    assert len(made) >= 2
    assert (made[0].node_id, made[-1].node_id) == (old, leader)
    each_by_one(made)
    of_claims = [one for one in transactions if one.zxid in {claim.zxid for claim in made}]
    for one in of_claims:
        assert {EPOCH, CONTROLLER} <= {write.path for write in one.writes}

    came_late = late(transactions, *made[:2])
    assert came_late, "what was held back has not arrived"
    if old not in {claim.node_id for claim in made[1:]}:
        assert {one.error for one in came_late} == {BAD_VERSION}
    taken_up(transactions, made, names)


def each_by_one(made: list[Claim]) -> None:
    """Each claim raises the version of ``/controller_epoch`` by one, and the epoch in it.

    That too by one, but for elections that nobody won or after which nobody claimed.
    """
    first = made[0]
    for one, other in itertools.pairwise(made):
        assert other.kraft_epoch > one.kraft_epoch
        assert other.epoch_version == one.epoch_version + 1
        assert other.zk_epoch > one.zk_epoch
        assert other.zk_epoch - first.zk_epoch <= other.kraft_epoch - first.kraft_epoch


def said_of_the_migration(transactions: list[Transaction], since: int) -> list[dict[str, int]]:
    """What was written to ``/migration`` behind a zxid, in order."""
    return [
        json.loads(write.data)
        for one in transactions
        if not one.error and one.zxid > since
        for write in one.writes
        if write.path == MIGRATION and write.kind != "check"
    ]


def taken_up(transactions: list[Transaction], made: list[Claim], names: list[str]) -> None:
    """Each next leader goes on behind the offset of ``/migration``, and writes nothing twice."""
    said = said_of_the_migration(transactions, made[0].zxid)
    offsets = [one["kraft_metadata_offset"] for one in said]
    assert offsets == sorted(offsets)
    created = paths(transactions, "create")
    for name in names:
        assert created.count(f"/brokers/topics/{name}") == 1
        state = f"/brokers/topics/{name}/partitions/0/state"
        assert created.count(state) == 1
        assert state not in paths(transactions, "set")
