"""A leader is stopped, one of the other kind leads, and the first wakes up: Kafka's, and ours.

Both believe that they lead. ZooKeeper's own log says who wrote.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from bench.judge.stores import Entities, differences
from bench.judge.transactions import Claim, Transaction, claims, two_writers
from emulator.servers.seeded import connected
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.migrating_controllers import IDS, MigratingControllers, migrating, paths
from tests.integration.test_one_controller_writes import (
    BAD_VERSION,
    COUNT,
    each_by_one,
    late,
    said_of_the_migration,
    sent,
)
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

KAFKAS = {"Kafka's": 1, "ours": 2}
"""Who is stopped -> how many of the three are Kafka's: all the others are of the other kind."""
A_SECOND = 3
"""Records: NoOps are 0.5 s apart."""
KEYS = {
    "version",
    "kraft_controller_id",
    "kraft_controller_epoch",
    "kraft_metadata_offset",
    "kraft_metadata_epoch",
}
_TRIES = 10
_HELD_S = 5.0
"""For what is next in its queue; in it the leader does nothing else."""
_WAIT_S = PATIENCE_S


def written(stage: MigratingControllers, names: Sequence[str]) -> None:
    """Wait until ZooKeeper holds these topics."""
    with connected(stage.zookeeper.hosts) as client:
        wait_for(
            f"{len(names)} topics in ZooKeeper",
            lambda: set(names) <= set(client.get_children("/brokers/topics")),
            _WAIT_S,
        )


def in_dual_write(stage: MigratingControllers, who: str) -> int:
    """One of this kind leads, and what it commits comes to ZooKeeper; its id."""
    stage.start()
    if who == "ours":
        return stage.settled()
    [theirs] = set(IDS) - stage.ours
    stage.until_leads({theirs})
    wait_for("Kafka's claim", lambda: stage.holder() == theirs, _WAIT_S)
    return theirs


def held_back(stage: MigratingControllers, old: int) -> list[str]:
    """Topics that are committed and answered, a write of which is held back; their names.

    Kafka's has one operation on its way at a time, and one of ``/migration`` for each NoOp. If that
    is what is held back, all of it passes, and it is tried again.
    """
    names: list[str] = []
    for _ in range(_TRIES):
        stage.passed(old, A_SECOND)
        stage.proxies[old].freeze()
        before = len(stage.seen[old])
        more = stage.create("held-back", old, count=COUNT)
        names += more
        with suppress(TimeoutError):
            wait_for("a write of a topic", partial(any_sent, stage, old, before, more), _HELD_S)
            return names
        stage.proxies[old].thaw()
        written(stage, names)
    raise AssertionError(f"no write of a topic was first in {_TRIES} tries")


def any_sent(stage: MigratingControllers, old: int, since: int, names: Sequence[str]) -> bool:
    """Whether a multi with a znode of one of these topics has left a controller."""
    return any(sent(stage, old, since, f"/brokers/topics/{name}") for name in names)


def handover(made: Sequence[Claim], old: int) -> tuple[Claim, Claim]:
    """The claim of a leader before the one of another node, and that one."""
    pairs = itertools.pairwise(made)
    return next((a, b) for a, b in pairs if a.node_id == old != b.node_id)


def came_late(stage: MigratingControllers, old: int) -> list[Transaction]:
    """What of the old leader has come to ZooKeeper behind the next claim."""
    transactions = stage.transactions()
    return late(transactions, *handover(claims(transactions), old))


def ask(stage: MigratingControllers, node_id: int, name: str, answers: list[int]) -> None:
    """Ask a controller for a topic; it may also close the connection."""
    with suppress(OSError):
        answers.append(stage.ask(node_id, name))


@pytest.mark.parametrize("who", KAFKAS)
@pytest.mark.requirement("E01", "E07", "Z01", "Z03", "Z04")
def test_a_leader_that_wakes_up_writes_nothing_beside_one_of_the_other_kind(
    make_zookeeper: Callable[..., ZooKeeper], tmp_path: Path, who: str
) -> None:
    """What it had on its way is refused, also what it sends when it is awake; it gives way."""
    with migrating(tmp_path, make_zookeeper(fsync=False), KAFKAS[who]) as stage:
        old = in_dual_write(stage, who)
        others = [each for each in IDS if each != old]
        assert (old in stage.ours) is not bool(stage.ours & set(others)), "of the other kind"
        names = stage.create("before", old, count=COUNT)
        written(stage, names)
        names += held_back(stage, old)
        stage.passed(old, A_SECOND)

        answers: list[int] = []
        caller = threading.Thread(target=ask, args=(stage, old, "asked-of-the-old-one", answers))
        with stage.nodes[old].paused():
            caller.start()
            wait_for("the next claim", lambda: stage.holder() in others, _WAIT_S)
            meanwhile = stage.create("meanwhile", *others, count=COUNT)
            written(stage, meanwhile)
            stage.proxies[old].thaw()
            wait_for("what was held back", lambda: came_late(stage, old), _WAIT_S)
        caller.join(_WAIT_S)
        assert ErrorCode.NONE not in answers
        wait_for("one leader", lambda: [one.node_id for one in stage.leaders()] != [], _WAIT_S)
        wait_for("its end as a leader", lambda: not stage.leaders(old), _WAIT_S)
        assert stage.nodes[old].alive
        names += [*meanwhile, *stage.create("after", *others, count=COUNT)]
        written(stage, names)
        stage.passed(stage.leaders()[-1].node_id, A_SECOND)

        tree, _ = wait_for("equal stores", lambda: equal(stage), _WAIT_S)
        assert set(tree.topics) == set(names)
        judged(stage.transactions(), old, names)


def equal(stage: MigratingControllers) -> tuple[Entities, dict[int, Entities]] | None:
    """The tree and all logs, once they hold the same."""
    tree, logs = stage.stores()
    same = all(differences(tree, log) == [] for log in logs.values())
    return (tree, logs) if same else None


def judged(transactions: list[Transaction], old: int, names: list[str]) -> None:
    """Of what the old leader sent after the next claim, all was refused.

    Ours sends nothing after the first refusal. Kafka's goes on with the next changes in its queue
    when it is awake, mostly: one of its threads does so, another learns of the next leader.
    """
    assert two_writers(transactions) == []
    made = claims(transactions)
    each_by_one(made)
    first, second = handover(made, old)
    assert second.node_id != old
    refused = late(transactions, first, second)
    assert {one.error for one in refused} == {BAD_VERSION}

    said = said_of_the_migration(transactions, first.zxid)
    assert {frozenset(one) for one in said} == {frozenset(KEYS)}
    offsets = [one["kraft_metadata_offset"] for one in said]
    assert offsets == sorted(offsets)
    behind = said_of_the_migration(transactions, second.zxid)
    assert {one["kraft_controller_id"] for one in behind} == {made[-1].node_id, second.node_id}
    created = paths(transactions, "create")
    assert {created.count(f"/brokers/topics/{name}") for name in names} == {1}
