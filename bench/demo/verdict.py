"""Step 4: the two stores are compared, and everything ends in order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from bench.demo.narrator import Narrator
from bench.demo.seed import LEAVING
from bench.demo.stage import Stage
from bench.judge.stores import Entities, differences, dump_log, from_log, from_tree
from bench.load.admin import AdminResult
from bench.load.changes import TopicState
from bench.rig.zk_dump import contents, dump

_SHOWN: Final = 5
_DRAIN_S: Final = 60.0


def judge_and_stop(stage: Stage, narrator: Narrator, load: AdminResult) -> None:
    """Compare the stores while all runs, stop brokers, then the controller, and compare again.

    Raises:
        ProcessError: the lag does not come down to 0.
        CalledProcessError: Kafka's tool cannot read the log.
    """
    stage.bridge.wait_drained()
    tree, log = _both(stage)
    _compare(narrator, "the stores are equal, entity by entity", tree, log)
    wrong = [*unlike(load.topics, log), *undeleted(load, log)]
    narrator.check(
        "the stores hold what the load asked for",
        not wrong,
        f"{len(load.topics)} topics as they were left" + _some(wrong),
    )
    strays = _leftovers(stage)
    narrator.check(
        f"topic {LEAVING} is nowhere",
        LEAVING not in log.topics and LEAVING not in tree.topics and not strays,
        "neither in a store nor as a partition of a broker" + _some(strays),
    )
    begin = time.monotonic()
    # First the brokers: one that shuts down asks its controller to move what it leads.
    stage.cluster.stop()
    codes = [broker.exit_code for broker in stage.cluster.brokers]
    narrator.say(f"brokers ended ({', '.join(map(str, codes))})")
    code = stage.bridge.stop(_DRAIN_S)
    narrator.check(
        "stopped in order",
        code == 0,
        f"brokers, then the controller (exit code {code}), in {time.monotonic() - begin:.1f} s",
    )
    tree, log = _both(stage)
    _compare(
        narrator, "drained: the stores are equal after the controller's end", tree, log, ended=True
    )
    stage.look_no_more()
    stage.zk.stop()


def _both(stage: Stage) -> tuple[Entities, Entities]:
    nodes = contents(dump(stage.zk.hosts, with_secrets=True))
    return from_tree(nodes), from_log(dump_log(stage.bridge.data))


def _compare(
    narrator: Narrator, what: str, tree: Entities, log: Entities, *, ended: bool = False
) -> None:
    """Check that both stores agree; ``ended``: and that ZooKeeper has the last record."""
    found = differences(tree, log)
    if ended and tree.offset != log.offset:
        found.append(f"ZooKeeper at offset {tree.offset}, the log ends at {log.offset}")
    partitions = sum(len(topic["partitions"]) for topic in log.topics.values())
    narrator.check(
        what,
        not found and bool(log.topics),
        f"{len(log.topics)} topics, {partitions} partitions, {len(log.configs)} configured "
        f"entities, next producer id {log.next_producer_id}; ZooKeeper at offset {tree.offset}"
        + _some(found),
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


def _leftovers(stage: Stage) -> list[str]:
    """Folders that a broker still keeps as partitions of the deleted topic (not as strays)."""
    return [
        str(folder)
        for broker in stage.cluster.brokers
        for folder in broker.data.glob(f"{LEAVING}-*")
        if not folder.name.endswith(("-stray", "-delete"))
    ]


def _some(found: list[str]) -> str:
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "".join(f"\n        {line}" for line in found[:_SHOWN]) + more
