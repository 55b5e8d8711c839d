"""Steps on brokers and partitions: versions, copy, failure, elections, one broker's mode."""

from __future__ import annotations

from typing import Any, Final

from bench.judge.matrix_stores import Stores
from bench.load import cluster_api as api
from bench.matrix.stage import TIMEOUT_MS, Stage, WrongError, accepted, same
from bench.matrix.steps.entities import OLD, create, take_producer_ids
from emulator.servers.waiting import PATIENCE_S
from wire import messages as m
from wire.releases import broker_ranges

VICTIM: Final = 2
_PREFERRED, _NOT_NEEDED, _NO_REASSIGNMENT = 0, 84, 85


def fenced(records: list[dict[str, Any]]) -> dict[int, bool]:
    """Broker id -> whether it is fenced, by the log; those that are registered."""
    found: dict[int, bool] = {}
    for record in records:
        data = record["data"]
        match record["type"]:
            case "REGISTER_BROKER_RECORD":
                found[data["brokerId"]] = bool(data["fenced"])
            case "UNREGISTER_BROKER_RECORD":
                found.pop(data["brokerId"], None)
            case "FENCE_BROKER_RECORD":
                found[data["id"]] = True
            case "UNFENCE_BROKER_RECORD":
                found[data["id"]] = False
            case "BROKER_REGISTRATION_CHANGE_RECORD" if data.get("fenced", 0):
                found[data["brokerId"]] = data["fenced"] > 0
    return found


def versions(stage: Stage) -> None:
    """Kafka's broker in ZooKeeper mode supports the same API versions as our broker.

    So those of KIP-590 that were never released are in no release.
    """
    asked = m.ApiVersionsRequest(client_software_name="matrix", client_software_version="1")
    answer = stage.ask(asked, broker=0)
    accepted("ApiVersions", answer.error_code)
    listed = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    same("API versions", listed, dict(broker_ranges(stage.release[:3], mode="zk")))


def register(stage: Stage) -> None:
    """All brokers restart in migration mode, and the controller registers and unfences them."""
    stage.before = stage.tree()
    stage.controller.begin()
    stage.cluster.migrate(stage.controller.port, rolling=False)
    stage.until(
        "three unfenced brokers in the log",
        lambda: fenced(stage.records()) == {0: False, 1: False, 2: False},
    )
    kinds = [r for r in stage.records() if r["type"] == "REGISTER_BROKER_RECORD"]
    same("isMigratingZkBroker", {r["data"].get("isMigratingZkBroker") for r in kinds}, {True})


def copy(stage: Stage) -> None:
    """Dual write begins, and the log holds what ZooKeeper held."""
    stage.controller.await_dual_write()
    stage.migrated = True
    _, log = stage.agree()
    was, now = stage.before, log
    same("topics", assignments(now), assignments(was))
    same("configs", _configs(now), _configs(was))
    same("quotas, SCRAM users, ACLs and tokens", now.others, was.others)
    used = was.plain.next_producer_id or 0
    if (now.plain.next_producer_id or 0) < used:
        raise WrongError(
            f"producer ids from {now.plain.next_producer_id} on again; those below {used} are taken"
        )
    stage.whole()
    stage.everywhere("every old topic", lambda shape: was.plain.topics.keys() <= set(shape.topics))


def _configs(stores: Stores) -> dict[str, dict[str, str]]:
    kinds = ("topics/", "brokers/")
    return {name: one for name, one in stores.plain.configs.items() if name.startswith(kinds)}


def assignments(stores: Stores) -> dict[str, tuple[str, dict[int, list[int]]]]:
    """Id and replicas of each topic."""
    return {
        name: (topic["id"], {n: p["replicas"] for n, p in topic["partitions"].items()})
        for name, topic in stores.plain.topics.items()
    }


def broker_death(stage: Stage) -> None:
    """A broker is killed: its leaders move; it comes back: its replicas catch up."""
    victim = stage.cluster.brokers[VICTIM]
    victim.kill()
    stage.everywhere(
        "leaders elsewhere",
        lambda shape: (
            VICTIM not in shape.led()
            and all(leader >= 0 and VICTIM not in isr for leader, _, isr in shape.partitions)
        ),
    )
    # Another broker, fenced because the busy machine delayed its heartbeats, is unfenced again.
    stage.until(
        f"log in which broker {VICTIM} alone is fenced",
        lambda: [b for b, f in fenced(stage.records()).items() if f] == [VICTIM],
    )
    stage.agree()
    path = f"/brokers/ids/{VICTIM}"
    stage.until("end of its ZooKeeper session", lambda: stage.look.exists(path) is None)
    victim.start().wait_started()
    stage.whole()
    stage.agree()


def elections(stage: Stage) -> None:
    """Preferred leaders come back when asked for; a second time there is nothing to do."""
    shape = stage.shape()
    wanted = [n for n, (_, replicas, _) in shape.topics[OLD].items() if replicas[0] == VICTIM]
    if not wanted or shape.topics[OLD][wanted[0]][0] == VICTIM:
        raise WrongError(f"no partition of {OLD} waits for its preferred leader {VICTIM}")
    kinds = m.ElectLeadersRequest
    request = kinds(
        election_type=_PREFERRED,
        topic_partitions=[kinds.TopicPartitions(topic=OLD, partitions=wanted)],
        timeout_ms=TIMEOUT_MS,
    )
    for expected in (0, _NOT_NEEDED):
        answer = stage.ask(request)
        accepted("ElectLeaders", answer.error_code)
        codes = {p.error_code for t in answer.replica_election_results for p in t.partition_result}
        same("ElectLeaders", codes, {expected})
    stage.everywhere(
        "preferred leaders", lambda now: all(now.topics[OLD][n][0] == VICTIM for n in wanted)
    )
    stage.agree()


def reassignment(stage: Stage) -> None:
    """A replica moves from one broker to another, and its folder goes."""
    topic, (_, before, _) = "pair", stage.shape().topics["pair"][0]
    (stranger,) = {0, 1, 2} - set(before)
    leaves, after = before[0], (before[1], stranger)
    _reassign(stage, topic, list(after), 0)
    stage.everywhere(
        "the new replicas",
        lambda shape: (
            set(shape.topics[topic][0][1]) == set(after) == set(shape.topics[topic][0][2])
        ),
    )
    tree, _ = stage.agree()
    partition = tree.plain.topics[topic]["partitions"][0]
    actual = partition["replicas"], partition["adding"], partition["removing"]
    same("reassigned partition", actual, (list(after), [], []))
    answer = stage.ask(m.ListPartitionReassignmentsRequest(topics=None, timeout_ms=TIMEOUT_MS))
    accepted("ListPartitionReassignments", answer.error_code)
    same("reassignments under way", answer.topics, [])
    _reassign(stage, topic, None, _NO_REASSIGNMENT)
    old = stage.cluster.brokers[leaves].data / f"{topic}-0"
    stage.until(f"end of {topic}-0 on broker {leaves}", lambda: not old.exists())


def _reassign(stage: Stage, topic: str, replicas: list[int] | None, expected: int) -> None:
    kinds = m.AlterPartitionReassignmentsRequest
    partition = kinds.ReassignablePartition(partition_index=0, replicas=replicas)
    request = kinds(
        timeout_ms=TIMEOUT_MS, topics=[kinds.ReassignableTopic(name=topic, partitions=[partition])]
    )
    answer = stage.ask(request)
    accepted("AlterPartitionReassignments", answer.error_code)
    same("AlterPartitionReassignments", answer.responses[0].partitions[0].error_code, expected)


def to_kraft(stage: Stage) -> None:
    """A broker restarts in KRaft mode: it gets no more LeaderAndIsr, it follows the log."""
    broker = stage.cluster.brokers[VICTIM]
    broker.stop(PATIENCE_S)
    broker.zk, broker.migration = None, False
    broker.start().wait_started()
    stage.whole()
    create(stage, api.topic("mixed", 3, 3, {}))
    stage.everywhere("topic mixed", lambda shape: len(shape.topics.get("mixed", ())) == 3)
    stage.whole()
    take_producer_ids(stage)
    stage.agree()
    same("whether broker 2 has a znode", stage.look.exists(f"/brokers/ids/{VICTIM}"), None)


def back_from_kraft(stage: Stage) -> None:
    """The same broker restarts in ZooKeeper mode again, with migration on."""
    broker = stage.cluster.brokers[VICTIM]
    if broker.alive:
        broker.stop(PATIENCE_S)
    broker.zk, broker.migration = stage.zk.hosts, True
    broker.start().wait_started()
    stage.whole()
    if stage.look.exists(f"/brokers/ids/{VICTIM}") is None:
        raise WrongError("broker 2 has no znode again")
    stage.agree()
