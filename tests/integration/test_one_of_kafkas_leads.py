"""A migration whose quorum has one controller of Kafka 3.9.2: it leads, then one of ours again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.judge.stores import differences
from bench.judge.transactions import claims, two_writers
from emulator.servers.waiting import wait_for
from emulator.servers.zookeeper import ZooKeeper
from tests.integration.migrating_controllers import IDS, migrating

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

KAFKAS = 3002
COUNT = 4
A_SECOND = 3
"""Records: NoOps are 0.5 s apart."""
LEFT = "config clients/last: ZooKeeper {'producer_byte_rate': '1000000.0'}, metadata log None"
"""Kafka loses a change that takes the last quota of a client id (docs/divergence.md)."""


@pytest.mark.requirement("E07", "Z01", "Z03")
def test_ours_makes_the_stores_equal_after_kafkas_leader(
    make_zookeeper: Callable[..., ZooKeeper], tmp_path: Path
) -> None:
    """Kafka's goes on where ours ended; ours repairs what Kafka's has left, and goes on."""
    with migrating(tmp_path, make_zookeeper(fsync=False), kafkas=1) as stage:
        stage.start()
        names = stage.create("by-ours", count=COUNT)
        gone = stage.create("short-lived")
        stage.limit("user", "of-ours", 1e6)
        stage.limit("client-id", "last", 1e6)
        stage.settled()

        stage.until_leads({KAFKAS})
        wait_for("Kafka's claim", lambda: stage.holder() == KAFKAS)
        names += stage.create("by-kafkas", KAFKAS, count=COUNT)
        stage.delete(gone[0], KAFKAS)
        stage.limit("user", "of-kafkas", 2e6, KAFKAS)
        stage.limit("user", "of-ours", 3e6, KAFKAS)
        stage.passed(KAFKAS, A_SECOND)
        stage.limit("client-id", "last", None, KAFKAS)
        stage.passed(KAFKAS, A_SECOND)
        names += stage.create("by-kafkas-behind-it", KAFKAS)
        stage.passed(KAFKAS, A_SECOND)
        tree, logs = stage.stores(*stage.ours)
        left = [differences(tree, log) for log in logs.values()]
        assert left == [[LEFT], [LEFT]]

        stage.until_leads(stage.ours)
        names += stage.create("by-ours-again", count=COUNT)
        leader = stage.settled()
        assert stage.holder() == leader
        tree, logs = stage.stores()
        assert [differences(tree, log) for log in logs.values()] == [[] for _ in IDS]
        assert set(tree.topics) == set(names)
        transactions = stage.transactions()
        assert two_writers(transactions) == []
        made = claims(transactions)
        assert KAFKAS in {claim.node_id for claim in made}
        assert made[-1].node_id == leader
        for one, other in itertools.pairwise(made):
            assert other.epoch_version == one.epoch_version + 1
