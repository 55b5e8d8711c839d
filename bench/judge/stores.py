"""Compares the two stores independently of the code that wrote them.

ZooKeeper is read raw by KazooClient, the metadata log by Kafka's own ``kafka-dump-log``; both are
converted to plain dictionaries of entities here, by rules that are deliberately implemented a
second time.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

from emulator.servers.jars import kafka_jars
from emulator.servers.java import QUICK_START, find_java
from emulator.servers.zk_dump import UnreadableError, contents, versions

T = TypeVar("T")

Records: TypeAlias = Sequence[Mapping[str, Any]]
"""Of a log, as `dump_log` returns them."""

NO_OP: Final = "NO_OP_RECORD"
_PAYLOAD: Final = " payload: "
_NO_CHANGE: Final = -2
_TOPIC, _BROKER, _CLIENTS = 2, 4, 0
"""Resource types of the log, and one of our own."""
_FOLDERS: Final = {"user": "users", "client-id": "clients", "ip": "ips"}
_SCRAM: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_ENCODED: Final = ".ssl.keystore.password"
_HIDDEN: Final = "(encoded in ZooKeeper, plain in the log)"
_DEFAULT: Final = "<default>"


@dataclass(slots=True)
class Entities:
    """The entities of one store; every value is plain and comparable."""

    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    """name -> {"id", "partitions": {number: {...}}}."""
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """``topics/NAME``, ``brokers/ID`` or, of quotas and SCRAM credentials, the path below
    ``/config`` -> key -> value; an entity without values is left out."""
    next_producer_id: int | None = None
    versions: dict[str, int] | None = None
    """Path of a partition's state -> its version, or the partition epoch of the log, which may be
    lower; None: not looked at."""
    offset: int = -1
    """Position of the store, as an offset of the metadata log."""
    gone: set[str] = field(default_factory=set)
    """Names of topics that a log created and deleted; a tree does not record them."""


def dump_log(log_dir: Path, release: str = "3.9.2") -> list[dict[str, Any]]:
    """Every record of a metadata log, as ``kafka-dump-log`` prints it.

    Each is ``type``, ``data``, ``offset``, ``at_ms``, the newest time of its batch, and
    ``epoch_ms``, that of the first batch of its epoch (since 1970).

    Args:
        log_dir: the controller's folder; the log is copied first, the node may be running.
        release: whose ``kafka-dump-log`` reads it.

    Raises:
        subprocess.CalledProcessError: the tool failed, for instance on a malformed record.
    """
    # Not below the system's temporary folder, which may be full, or too small for a log.
    with tempfile.TemporaryDirectory(dir=log_dir.parent) as scratch:
        found = sorted((log_dir / "__cluster_metadata-0").glob("*.log"))
        segments = [str(shutil.copy(segment, scratch)) for segment in found]
        command = [
            str(find_java().executable),
            "-Xmx256m",
            *QUICK_START,
            "-cp",
            ":".join(str(jar) for jar in kafka_jars(release)),
            "kafka.tools.DumpLogSegments",
            "--cluster-metadata-decoder",
            "--skip-record-metadata",
            "--files",
            ",".join(segments),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(read_dump(done.stdout))


def read_dump(printed: str) -> Iterable[dict[str, Any]]:
    """Records in what ``kafka-dump-log`` printed, each with its offset and its batch's time."""
    base = index = at_ms = 0
    epoch_ms: dict[str, int] = {}
    epoch = ""
    for line in printed.splitlines():
        if line.startswith("baseOffset: "):
            base, index = int(line.split()[1]), 0
            at_ms = int(_after(" CreateTime: ", line) or 0)
            epoch = _after(" partitionLeaderEpoch: ", line)
            epoch_ms.setdefault(epoch, at_ms)
            if " isControl: true" in line:
                index = -1
        elif _PAYLOAD in line or line.startswith("| {"):
            text = line.partition(_PAYLOAD)[2] or line[2:]
            record = json.loads(text)
            if index >= 0:
                times = {"at_ms": at_ms, "epoch_ms": epoch_ms.get(epoch, 0)}
                yield {**record, "offset": base + index, **times}
                index += 1


def _after(name: str, line: str) -> str:
    """The word after a name in a line; empty if there is none."""
    return (line.partition(name)[2].split() or [""])[0]


def at_one_offset(
    offset: Callable[[], int], tree: Callable[[], T], log: Callable[[], Records]
) -> tuple[T, Records]:
    """ZooKeeper and the log, with nothing written to ZooKeeper that the log lacks, or otherwise.

    ZooKeeper is read from the offset in ``/migration`` on, and the log after it: once the log has
    no change behind that offset, what differs is a fault, and is not waited for.

    Args:
        offset: the one in ``/migration``.
        tree: reads ZooKeeper.
        log: of the leader.

    Raises:
        UnreadableError: ZooKeeper is not there yet, or the leader is one of before.
    """
    reached, held, records = offset(), tree(), log()
    for one in records:
        if one["offset"] > reached and one["type"] != NO_OP:
            late = f"lacks {one['type']} at {one['offset']}"
            raise UnreadableError(f"ZooKeeper at offset {reached} {late}")
    if end_of(records) < reached:
        raise UnreadableError(f"ZooKeeper at offset {reached} is ahead of the leader's log")
    return held, records


def end_of(records: Records) -> int:
    """Offset of a log's last record; -1 of an empty one."""
    return int(records[-1]["offset"]) if records else -1


def from_log(  # noqa: C901, PLR0912 - one arm per record type
    records: Iterable[Mapping[str, Any]],
) -> Entities:
    """Replay dumped records; an open or aborted metadata transaction leaves no trace."""
    shown = Entities()
    topics: dict[str, dict[str, Any]] = {}
    configs: dict[tuple[int, str], dict[str, str]] = {}
    producer_id: int | None = None
    saved: str | None = None
    for record in records:
        data = record["data"]
        match record["type"]:
            case "BEGIN_TRANSACTION_RECORD":
                saved = json.dumps([topics, [[*k, v] for k, v in configs.items()], producer_id])
            case "ABORT_TRANSACTION_RECORD" if saved is not None:
                topics, configs, producer_id = _restored(saved)
                saved = None
            case "END_TRANSACTION_RECORD":
                saved = None
            case "TOPIC_RECORD":
                topics[data["topicId"]] = {"name": data["name"], "partitions": {}}
            case "REMOVE_TOPIC_RECORD":
                gone = topics.pop(data["topicId"])
                configs.pop((_TOPIC, gone["name"]), None)
                shown.gone.add(gone["name"])
            case "PARTITION_RECORD":
                topics[data["topicId"]]["partitions"][data["partitionId"]] = _partition(data)
            case "PARTITION_CHANGE_RECORD":
                _change(topics[data["topicId"]]["partitions"][data["partitionId"]], data)
            case "CONFIG_RECORD":
                resource = (data["resourceType"], data["resourceName"])
                _set(configs, resource, data["name"], data["value"])
            case "CLIENT_QUOTA_RECORD":
                limit = None if data["remove"] else str(float(data["value"]))
                _set(configs, (_CLIENTS, _client_path(data["entity"])), data["key"], limit)
            case "USER_SCRAM_CREDENTIAL_RECORD" | "REMOVE_USER_SCRAM_CREDENTIAL_RECORD":
                path = _client_path([{"entityType": "user", "entityName": data["name"]}])
                _set(configs, (_CLIENTS, path), _SCRAM[data["mechanism"]], _credential(data))
            case "PRODUCER_IDS_RECORD":
                producer_id = data["nextProducerId"]
        shown.offset = record["offset"]
    if saved is not None:
        topics, configs, producer_id = _restored(saved)
    shown.versions = {}
    for topic_id, topic in topics.items():
        for number, partition in topic["partitions"].items():
            path = f"/brokers/topics/{topic['name']}/partitions/{number}/state"
            shown.versions[path] = partition.pop("partition_epoch")
        shown.topics[topic["name"]] = {"id": topic_id, "partitions": topic["partitions"]}
    for (kind, name), values in configs.items():
        if values:
            shown.configs[_config_name(kind, name)] = values
    shown.next_producer_id = producer_id
    return shown


def _set(
    configs: dict[tuple[int, str], dict[str, str]],
    resource: tuple[int, str],
    key: str,
    value: str | None,
) -> None:
    values = configs.setdefault(resource, {})
    if value is None:
        values.pop(key, None)
    else:
        values[key] = _HIDDEN if key.endswith(_ENCODED) else value


def _client_path(entity: Iterable[Mapping[str, Any]]) -> str:
    names = {one["entityType"]: _node_name(one) for one in entity}
    if "user" in names and "client-id" in names:
        return f"users/{names['user']}/clients/{names['client-id']}"
    [(kind, name)] = names.items()
    return f"{_FOLDERS[kind]}/{name}"


def _node_name(part: Mapping[str, Any]) -> str:
    """The znode of one part: Java's URLEncoder, except for addresses; Python keeps ``~``."""
    kind, name = part["entityType"], part["entityName"]
    if name is None:
        return _DEFAULT
    if kind == "ip":
        return str(name)
    encoded = quote(name, "").replace("~", "%7E")
    return encoded.replace(".", "%2E") if encoded in {".", ".."} else encoded


def _credential(data: Mapping[str, Any]) -> str | None:
    if "salt" not in data:
        return None
    salt, stored, server = data["salt"], data["storedKey"], data["serverKey"]
    iterations = data["iterations"]
    return f"salt={salt},stored_key={stored},server_key={server},iterations={iterations}"


def _limits(values: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value if key.startswith("SCRAM-") else str(float(value))
        for key, value in values.items()
    }


def _restored(
    saved: str,
) -> tuple[dict[str, dict[str, Any]], dict[tuple[int, str], dict[str, str]], int | None]:
    topics, listed, producer_id = json.loads(saved)
    configs = {(kind, name): values for kind, name, values in listed}
    return {id_: _numbered(topic) for id_, topic in topics.items()}, configs, producer_id


def _numbered(topic: dict[str, Any]) -> dict[str, Any]:
    numbered = {int(n): values for n, values in topic["partitions"].items()}
    return {**topic, "partitions": numbered}


def _partition(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "replicas": data["replicas"],
        "adding": data["addingReplicas"],
        "removing": data["removingReplicas"],
        "isr": data["isr"],
        "leader": data["leader"],
        "leader_epoch": data["leaderEpoch"],
        "recovering": data.get("leaderRecoveryState", 0),
        "partition_epoch": data["partitionEpoch"],
    }


def _change(partition: dict[str, Any], data: Mapping[str, Any]) -> None:
    names = {
        "replicas": "replicas",
        "addingReplicas": "adding",
        "removingReplicas": "removing",
        "isr": "isr",
    }
    for theirs, ours in names.items():
        if data.get(theirs) is not None:
            partition[ours] = data[theirs]
    if data.get("leader", _NO_CHANGE) != _NO_CHANGE:
        partition["leader"] = data["leader"]
        partition["leader_epoch"] += 1
    partition["partition_epoch"] += 1
    if data.get("leaderRecoveryState", -1) != -1:
        partition["recovering"] = data["leaderRecoveryState"]


def _config_name(kind: int, name: str) -> str:
    if kind == _CLIENTS:
        return name
    return f"{'topics' if kind == _TOPIC else 'brokers'}/{name or _DEFAULT}"


def from_dump(tree: Mapping[str, Any]) -> Entities:
    """Read entities out of a dumped tree (``servers.zk_dump``), with the versions of states."""
    found = from_tree(contents(tree))
    found.versions = versions(tree)
    return found


def from_tree(nodes: Mapping[str, bytes | None]) -> Entities:
    """Read entities out of a ZooKeeper tree (path -> data)."""
    found = Entities()
    for path, data in nodes.items():
        match path.strip("/").split("/"):
            case ["brokers", "topics", name]:
                topic = found.topics.setdefault(name, {"partitions": {}})
                _assignment(topic, json.loads(data or b"{}"))
            case ["brokers", "topics", name, "partitions", number, "state"]:
                topic = found.topics.setdefault(name, {"partitions": {}})
                state = json.loads(data or b"{}")
                topic["partitions"].setdefault(int(number), {}).update(
                    isr=state["isr"],
                    leader=state["leader"],
                    leader_epoch=state["leader_epoch"],
                    recovering=state.get("leader_recovery_state", 0),
                )
            case ["config", ("topics" | "brokers") as kind, name]:
                values = json.loads(data or b"{}").get("config", {})
                if values:
                    found.configs[f"{kind}/{name}"] = {
                        key: _HIDDEN if key.endswith(_ENCODED) else value
                        for key, value in values.items()
                    }
            case ["config", "users" | "clients" | "ips", _, *more] if more[:-1] in (
                [],
                ["clients"],
            ):
                values = json.loads(data or b"{}").get("config", {})
                if values:
                    found.configs[path.removeprefix("/config/")] = _limits(values)
            case ["latest_producer_id_block"] if data:
                found.next_producer_id = int(json.loads(data)["block_end"]) + 1
            case ["migration"]:
                found.offset = json.loads(data or b"{}").get("kraft_metadata_offset", -1)
    return found


def _assignment(topic: dict[str, Any], data: Mapping[str, Any]) -> None:
    topic["id"] = data.get("topic_id")
    for number, replicas in data.get("partitions", {}).items():
        topic["partitions"].setdefault(int(number), {}).update(
            replicas=replicas,
            adding=data.get("adding_replicas", {}).get(number, []),
            removing=data.get("removing_replicas", {}).get(number, []),
        )


def differences(zookeeper: Entities, log: Entities) -> list[str]:
    """One line per entity that differs between the two stores; empty when they agree."""
    found = []
    for name in sorted(zookeeper.topics.keys() | log.topics.keys()):
        found += _differ(f"topic {name}", zookeeper.topics.get(name), log.topics.get(name))
    for name in sorted(zookeeper.configs.keys() | log.configs.keys()):
        found += _differ(f"config {name}", zookeeper.configs.get(name), log.configs.get(name))
    found += _differ("next producer id", zookeeper.next_producer_id, log.next_producer_id)
    return found + _outdated(zookeeper.versions, log.versions)


def _outdated(zookeeper: Mapping[str, int] | None, log: Mapping[str, int] | None) -> list[str]:
    """States whose version is below the partition epoch: brokers refuse requests about them."""
    if zookeeper is None or log is None:
        return []
    return [
        f"{path}: version {zookeeper[path]} in ZooKeeper, partition epoch {epoch} in the log"
        for path, epoch in log.items()
        if path in zookeeper and zookeeper[path] < epoch
    ]


def _differ(what: str, zookeeper: object, log: object) -> list[str]:
    if zookeeper == log:
        return []
    if isinstance(zookeeper, dict) and isinstance(log, dict):
        return [
            line
            for key in sorted(zookeeper.keys() | log.keys(), key=str)
            for line in _differ(f"{what} {key}", zookeeper.get(key), log.get(key))
        ]
    return [f"{what}: ZooKeeper {zookeeper!r}, metadata log {log!r}"]
