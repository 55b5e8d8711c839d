"""Step 4: the two stores are compared, and everything ends in order."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from bench.demo.ahead import ahead
from bench.demo.controllers import IDS
from bench.demo.differing import most_urgent
from bench.demo.narrator import Narrator
from bench.demo.seed import LEAVING
from bench.demo.stage import Stage
from bench.judge.stores import (
    NO_OP,
    Entities,
    Records,
    at_one_offset,
    differences,
    from_dump,
    from_log,
)
from bench.load.admin import AdminResult, GivenUp
from bench.load.changes import TopicState
from emulator.servers.patience import patiently
from emulator.servers.process import ORDERLY
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.servers.zk_dump import dump

ALREADY: Final = {
    "CreateTopics": "TOPIC_ALREADY_EXISTS",
    "DeleteTopics": "UNKNOWN_TOPIC_OR_PARTITION",
    "CreatePartitions": "INVALID_PARTITIONS",
}
"""What a second attempt is answered if the first was carried out."""
_OF_TOPICS: Final = frozenset({"TOPIC_RECORD", "PARTITION_RECORD", "REMOVE_TOPIC_RECORD"})
_SHOWN: Final = 5


def judge_and_stop(stage: Stage, narrator: Narrator, load: AdminResult) -> None:
    """Compare the stores while all runs, stop brokers, then the controllers, and compare again.

    Raises:
        ProcessError: the lag does not come down to 0.
        CalledProcessError: Kafka's tool cannot read the log.
    """
    stage.controllers.wait_drained()
    narrator.end = ahead(stage.controllers)
    tree, log = _at_one_offset(stage)
    _compare(narrator, "the stores are equal, entity by entity", tree, log, differences(tree, log))
    wrong = [*unlike(load.topics, log), *undeleted(load, log), *never_there(load, log)]
    narrator.check(
        "the stores hold what the load asked for",
        not wrong,
        f"{len(load.topics)} topics as they were left",
        _some(wrong),
    )
    with contextlib.suppress(TimeoutError):  # brokers delete in their own time
        wait_for("the end of its replicas", lambda: not _leftovers(stage), PATIENCE_S)
    strays = _leftovers(stage)
    narrator.check(
        f"topic {LEAVING} is nowhere",
        LEAVING not in log.topics and LEAVING not in tree.topics and not strays,
        "neither in a store nor as a partition of a broker",
        _some(strays),
    )
    stop(stage, narrator)
    _compare_all(stage, narrator)
    stage.look_no_more()
    stage.zk.stop()


def stop(stage: Stage, narrator: Narrator) -> None:
    """End brokers and controllers, and check that none had ended by itself, or had to be killed.

    Raises:
        ProcessError: a controller does not get what the others have.
    """
    begin = time.monotonic()
    # First the brokers: one that shuts down asks its controller to move what it leads.
    stage.cluster.stop(PATIENCE_S)
    brokers = [broker.exit_code for broker in stage.cluster.brokers]
    stage.controllers.wait_level()
    ended = stage.controllers.stop(PATIENCE_S)
    narrator.check(
        "stopped in order",
        set(ended) == {0} and set(brokers) <= ORDERLY,
        f"brokers (exit codes {', '.join(map(str, brokers))}), then the controllers "
        f"({', '.join(map(str, ended))}), in {time.monotonic() - begin:.1f} s",
    )


def _tree(stage: Stage) -> Entities:
    return from_dump(dump(stage.zk.hosts, with_secrets=True))


def _at_one_offset(stage: Stage) -> tuple[Entities, Entities]:
    """ZooKeeper and the log of the leader.

    Raises:
        ProcessError: a server has ended.
        TimeoutError: something changed each time, for 15 minutes.
    """
    controllers = stage.controllers

    def log() -> Records:
        controllers.wait_dual_write()  # of the controller that leads now
        return controllers.records()

    def read() -> tuple[Entities, Records]:
        migration = "/migration"
        return at_one_offset(
            lambda: int(stage.znode(migration)["kraft_metadata_offset"]), lambda: _tree(stage), log
        )

    servers = [stage.zk, *controllers.nodes.values(), *stage.cluster.brokers]
    running = [one for one in servers if one.alive]  # another check reports a server that has ended
    tree, records = patiently("stores that do not change while they are read", read, running)
    return tree, from_log(records)


def _compare_all(stage: Stage, narrator: Narrator) -> None:
    """Check that ZooKeeper is equal to the log of each controller, and has its last change."""
    tree, wrong = _tree(stage), []
    with ThreadPoolExecutor(len(IDS)) as pool:
        records = dict(zip(IDS, pool.map(stage.controllers.records, IDS), strict=True))
    logs = {each: from_log(found) for each, found in records.items()}
    for each, log in logs.items():
        found = [*differences(tree, log), *behind(tree, records[each])]
        wrong += [f"controller {each}: {line}" for line in found]
    what = "after the end of all, ZooKeeper is equal to each controller's log"
    _compare(narrator, what, tree, logs[stage.controllers.leader], wrong)


def behind(tree: Entities, records: Records) -> list[str]:
    """Records of a log that ZooKeeper lacks and that change something."""
    late = [one for one in records if one["offset"] > tree.offset and one["type"] != NO_OP]
    return [
        f"ZooKeeper at offset {tree.offset} lacks {one['type']} at {one['offset']}" for one in late
    ]


def _compare(
    narrator: Narrator, what: str, tree: Entities, log: Entities, found: list[str]
) -> None:
    partitions = sum(len(topic["partitions"]) for topic in log.topics.values())
    narrator.check(
        what,
        not found and bool(log.topics),
        f"{len(log.topics)} topics, {partitions} partitions, {len(log.configs)} configured "
        f"entities, next producer id {log.next_producer_id}; ZooKeeper at offset {tree.offset}",
        _some(most_urgent(found)),
    )


def unlike(wanted: Mapping[str, TopicState], log: Entities) -> list[str]:
    """Topics that are not as the load left them, by the answers it got."""
    wrong = []
    for name, state in wanted.items():
        found = log.topics.get(name)
        if found is None:
            wrong.append(f"topic {name} is missing")
        elif len(found["partitions"]) != state.partitions:
            wrong.append(f"topic {name} has {len(found['partitions'])} partitions")
        elif log.configs.get(f"topics/{name}", {}) != state.configs:
            wrong.append(f"topic {name} has configs {log.configs.get(f'topics/{name}')}")
    return wrong


def undeleted(load: AdminResult, log: Entities) -> list[str]:
    """Topics of the load that are there though nothing else than their end was answered."""
    known = load.topics.keys() | load.doubtful
    return [
        f"topic {name} is there, though its deletion was answered"
        for name in sorted(log.topics)
        if name.startswith(load.prefix) and name not in known
    ]


def never_there(load: AdminResult, log: Entities) -> list[str]:
    """Topics that were made and deleted, by the answers, and that a whole log has not deleted.

    A deletion that was in doubt and then met no topic counts as done: the creation may be lost.
    """
    return [
        f"topic {name} was deleted, as was answered, and the log says nothing of it"
        for name in sorted(load.deleted - log.gone)
    ]


def refused(
    admin: AdminResult,
    records: Sequence[Mapping[str, Any]],
    lost_ns: Sequence[int] | None = None,
) -> list[str]:
    """Changes that were given up, but for those that were carried out all the same.

    A broker sends an Envelope again if the controller is gone; where the first one was carried out,
    the client gets the error of the second. That it was is seen in the log: nobody else changes
    these topics, and the load leaves one alone after it gave a change of it up.

    Args:
        admin: the result of the load.
        records: of the log, as Kafka's tool prints them.
        lost_ns: when another controller came to lead, monotonic; only a change that was in flight
            then can have been sent twice. None: not known, it may have been at any time.
    """
    names: dict[str, str] = {}
    numbers: dict[str, set[int]] = defaultdict(set)
    gone = set()
    for record in records:
        data = record["data"] if record["type"] in _OF_TOPICS else {}
        if record["type"] == "TOPIC_RECORD":
            names[data["topicId"]] = data["name"]
        elif record["type"] == "PARTITION_RECORD":
            numbers[names[data["topicId"]]].add(data["partitionId"])
        elif record["type"] == "REMOVE_TOPIC_RECORD":
            gone.add(names[data["topicId"]])

    def done(topic: str, change: GivenUp) -> bool:
        if change.error != ALREADY.get(change.api):
            return False
        if not (
            lost_ns is None or any(change.sent_ns <= at < change.answered_ns for at in lost_ns)
        ):
            return False
        if change.partitions is None:
            return topic in gone
        return topic not in gone and len(numbers[topic]) == change.partitions

    return [
        f"change given up: {change.api} of {topic}: {change.error}"
        for topic, change in sorted(admin.given_up.items())
        if not done(topic, change)
    ]


def elected_ns(records: Records, ahead_ns: int) -> list[int]:
    """When controllers came to lead, monotonic.

    Args:
        records: of the log.
        ahead_ns: by how much the clock of the batches is ahead of the monotonic one.
    """
    return [at_ms * 1_000_000 - ahead_ns for at_ms in sorted({one["epoch_ms"] for one in records})]


def _leftovers(stage: Stage) -> list[str]:
    """Folders that a broker still keeps as partitions of the deleted topic (not as strays)."""
    return [
        str(folder)
        for broker in stage.cluster.brokers
        for folder in broker.data.glob(f"{LEAVING}-*")
        if not folder.name.endswith(("-stray", "-delete"))
    ]


def _some(found: list[str]) -> list[str]:
    """The first of what was found, and how many more there are."""
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return [*found[:_SHOWN], *more]
