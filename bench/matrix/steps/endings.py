"""The ends of a migration: all brokers rolled, all back to ZooKeeper mode, on again, finalised."""

from __future__ import annotations

import functools
import shutil
from typing import Final

from bench.load import cluster_api as api
from bench.matrix.stage import Stage, WrongError, same
from bench.matrix.steps import security
from bench.matrix.steps.entities import create, take_producer_ids
from bench.matrix.steps.lifecycle import assignments, copy
from emulator.servers.kafka import KafkaBroker
from emulator.servers.waiting import PATIENCE_S

_COPY: Final = "__cluster_metadata-0"
_KEEP_THEIR_COPY: Final = frozenset({"3.4.1", "3.5.2", "3.6.2"})
"""Brokers of these releases keep the log of an earlier quorum; from 3.7 brokers delete it."""
_FINAL: Final = 3
"""POST_MIGRATION in a ZkMigrationStateRecord."""


def roll(stage: Stage) -> None:
    """Every broker restarts in KRaft mode, one by one; both stores stay equal."""
    for broker in stage.cluster.brokers:
        broker.stop(PATIENCE_S)
        broker.zk, broker.migration = None, False
        broker.start().wait_started()
        stage.whole()
    same("brokers in ZooKeeper mode", stage.look.get_children("/brokers/ids"), [])
    create(stage, api.topic("rolled", 3, 3, {}))
    stage.everywhere("topic rolled", lambda shape: len(shape.topics.get("rolled", ())) == 3)
    take_producer_ids(stage)
    stage.agree()


def rollback(stage: Stage) -> None:
    """Everything goes back to ZooKeeper mode, brokers in KRaft mode first, one by one."""
    for broker in stage.cluster.brokers:
        if broker.zk is None:
            broker.stop(PATIENCE_S)
            broker.zk, broker.migration = stage.zk.hosts, True
            broker.start().wait_started()
            stage.whole()
    stage.agree()
    stage.controller.go_back(stage.look)
    tree = stage.tree()
    stage.cluster.stop(PATIENCE_S)
    for broker in stage.cluster.brokers:
        plain_again(broker, stage.zk.hosts)
    stage.migrated = False
    stage.cluster.start().wait_ready()
    stage.whole()
    same("kraftControllerEpoch", stage.json("/controller")["kraftControllerEpoch"], -1)
    topics = set(tree.plain.topics)
    stage.everywhere("every topic", lambda shape: topics <= set(shape.topics))
    same("topics left", assignments(stage.tree()), assignments(tree))
    _serves(stage, "back")


def again(stage: Stage) -> None:
    """A second attempt: what the first one left is cleared, a new controller copies everything."""
    stage.controller.clear(stage.look)
    stage.another_controller()
    stage.before = stage.tree()
    stage.controller.begin()
    stage.cluster.stop(PATIENCE_S)
    if stage.release in _KEEP_THEIR_COPY:
        for broker in stage.cluster.brokers:
            shutil.rmtree(broker.data / _COPY, ignore_errors=True)
    stage.cluster.migrate(stage.controller.port, rolling=False)
    copy(stage)


def finalise(stage: Stage) -> None:
    """Brokers in KRaft mode, a controller without the flag, the final record; ZooKeeper ends."""
    compared = stage.controller.compared()
    leaving = [broker for broker in stage.cluster.brokers if broker.zk is not None]
    stage.cluster.stop(PATIENCE_S)
    for broker in leaving:
        broker.zk, broker.migration = None, False
    stage.cluster.start()
    stage.whole()
    if leaving and compared is not None:
        # A controller that ends earlier leaves no mark.
        stage.until(
            "another comparison", lambda: stage.controller.compared() not in {None, compared}
        )
    stage.agree()
    topics = set(stage.tree().plain.topics)
    stage.migrated = False  # from here on no check reads ZooKeeper
    stage.controller.finalise()
    states = [r["data"] for r in stage.records() if r["type"] == "ZK_MIGRATION_STATE_RECORD"]
    if not states or states[-1]["zkMigrationState"] != _FINAL:
        raise WrongError(f"the log ends with the migration states {states[-3:]}")
    stage.end_zookeeper()
    stage.everywhere("every topic", lambda shape: topics <= set(shape.topics))
    _serves(stage, "final")


def plain_again(broker: KafkaBroker, zk: str) -> None:
    """Let the next start be in plain ZooKeeper mode."""
    broker.zk, broker.migration, broker.controller_port = zk, False, None


def _serves(stage: Stage, topic: str) -> None:
    """Changes are carried out, and quotas, users, ACLs and tokens are as they were left."""
    create(stage, api.topic(topic, 3, 3, {}))
    stage.everywhere(f"topic {topic}", lambda shape: len(shape.topics.get(topic, ())) == 3)
    take_producer_ids(stage)
    for kind, check in _STILL.items():
        if kind in stage.kept.get("green", ()):
            stage.each(f"{kind} as they were left", functools.partial(check, stage))


def _quotas_stay(stage: Stage, broker: int) -> bool:
    security.check_quotas(stage, broker)
    return True


def _tokens_stay(stage: Stage, broker: int) -> bool:
    return bool(security.known_tokens(stage, broker) == stage.kept["tokens"])


_STILL: Final = {
    "quotas": _quotas_stay,
    "SCRAM": security.check_logins,
    "ACLs": security.check_acls,
    "tokens": _tokens_stay,
}
