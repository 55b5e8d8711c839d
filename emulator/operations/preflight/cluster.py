"""Rules on the controller, the cluster id, the participants, and znodes of other tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.config.words import several
from emulator.operations.preflight.engine import (
    FindingOf,
    NotRun,
    Outcome,
    Severity,
    finding,
    listed,
    named,
    rule,
)
from emulator.operations.preflight.node_file import number
from emulator.operations.preflight.stage import MigrationStage, standing
from emulator.operations.preflight.survey import Survey
from emulator.znodes import controller, migration
from emulator.znodes.tree import ZnodeError
from emulator.znodes.znode_json import number_of

CLUSTER_ID: Final = "/cluster/id"
HEADROOM: Final = 1_000
"""Elections of the quorum that /controller_epoch should stay ahead of."""
BRIDGE_REGISTRATION: Final = 5
"""Version of /brokers/ids/N since inter.broker.protocol.version 2.7; a bridge broker writes it."""
FEATURE_VERSION: Final = 2
"""Version of /feature since inter.broker.protocol.version 3.3-IV0."""
DELETIONS: Final = "/admin/delete_topics"
_B10: Final = FindingOf("B10", "KIP-866, Preparing the Cluster")
_W01: Final = FindingOf("W01", "KIP-866, Topic Deletions")


@rule(
    "B01",
    "/migration can be read",
    "A controller was killed between creating /migration and writing it. Every later one "
    "stopped at the empty znode with a NullPointerException.",
)
def migration_readable(survey: Survey) -> Iterator[Outcome]:
    """A null or malformed ``/migration`` hangs Kafka's driver."""
    node = survey.nodes.get(migration.PATH)
    if node is None:
        return
    try:
        migration.parse(node.data)
    except ZnodeError as error:
        yield finding(
            "B01",
            migration.PATH,
            "null data" if node.data is None else str(error),
            "the migration cannot tell whether one was begun before, and does not start",
            "delete /migration if no migration is in progress",
            "KAFKA-19480",
        )


@rule(
    "B04",
    "every node belongs to this cluster",
    "A controller was formatted with a new cluster id. The brokers refused it with "
    "INCONSISTENT_CLUSTER_ID and the migration never started.",
)
def cluster_id(survey: Survey) -> Iterator[Outcome]:
    """``/cluster/id`` is there and in every ``meta.properties``."""
    found = survey.json(CLUSTER_ID).get("id")
    if not isinstance(found, str) or not found:
        yield finding(
            "B04",
            CLUSTER_ID,
            "missing" if CLUSTER_ID not in survey.nodes else "holds no id",
            "the controllers cannot be formatted for this cluster; often a wrong chroot",
            "check the chroot in zookeeper.connect",
            "ClusterIdZNode",
        )
        return
    unread = [one.name for one in survey.properties if not one.meta and not one.metas]
    for name, where, file_cluster_id, controls in _cluster_ids(survey):
        if file_cluster_id != found:
            yield finding(
                "B04",
                CLUSTER_ID,
                f"{found}, but meta.properties {where} {name} says {file_cluster_id or 'none'}",
                "the brokers refuse this controller with INCONSISTENT_CLUSTER_ID"
                if controls
                else "the broker does not start: its folder is one of another cluster",
                f"format the folder anew: kraft-bridge format -t {found}"
                if controls
                else "look which of the two is the broker's cluster: often the chroot or the "
                "servers in zookeeper.connect, or a folder of another machine",
                "KIP-866, Preparing the Cluster",
            )
    if not survey.properties and not survey.folders:
        yield NotRun("B04", "no server.properties given: no meta.properties to compare with")
    elif unread:
        name = "names" if len(unread) == 1 else "name"
        yield NotRun("B04", f"no meta.properties in the folders that {listed(unread)} {name}")


def _cluster_ids(survey: Survey) -> Iterator[tuple[str, str, str, bool]]:
    """Each cluster id that a node was given: where it stands, the id, if it is a controller's."""
    told: set[str] = set()
    for one in survey.all_files:
        metas = one.metas or ({"": one.meta} if one.meta else {})
        for folder, meta in metas.items():
            if "cluster.id" in meta and (folder or one.name) not in told:
                told.add(folder or one.name)  # present and target files name it
                where = "in" if folder else "of"
                yield (folder or one.name), where, meta["cluster.id"], one.is_controller
    for folder_of in survey.folders:
        if folder_of.meta:
            yield folder_of.name, "in", folder_of.meta.get("cluster.id", ""), True


@rule(
    "B05",
    "no broker has the id of a controller",
    "Controllers had been given ids 0 to 2, as the brokers have. The brokers could not "
    "register: a node with their id was in the quorum.",
)
def shared_id(survey: Survey) -> Iterator[Outcome]:
    """Brokers and controllers share one space of ids, and each id belongs to one node."""
    yield from _twice(survey)
    if not survey.controller_ids:
        yield NotRun("B05", "no controller.quorum.voters known: give a server.properties with -c")
        return
    files = (*survey.brokers, *survey.kraft_brokers)
    configured = {one.node_id for one in files if one.node_id is not None}
    for node_id in sorted((survey.live_brokers | configured) & survey.controller_ids):
        yield finding(
            "B05",
            f"/brokers/ids/{node_id}",
            f"{node_id} is a broker's id and a controller's",
            "the broker refuses to start or is refused at its registration",
            "give the controllers ids that no broker has, such as 3000 and up",
            "KIP-866, Configurations",
        )


def _twice(survey: Survey) -> Iterator[Outcome]:
    kinds = (
        survey.brokers,
        tuple(one for one in survey.properties if one.is_controller),
        tuple(one for one in survey.targets if one.is_controller),
    )
    for files in kinds:
        seen: dict[int, str] = {}
        for one in files:
            if one.node_id is None or seen.setdefault(one.node_id, one.name) == one.name:
                continue
            yield finding(
                "B05",
                f"{one.name}: {'node.id' if one.get('node.id') else 'broker.id'}",
                f"{one.node_id}, as {seen[one.node_id]} has",
                "the second of the two does not register, or both depose each other",
                "give each node an id of its own",
                "KIP-866, Configurations",
            )


@rule(
    "B10",
    "every broker can take part",
    "One broker ran an older release, or was down for good and still held replicas. The "
    "controllers waited for hours and said so only in their log.",
)
def brokers_ready(survey: Survey) -> Iterator[Outcome]:
    """Brokers that run are of the bridge release; those known from elsewhere are alive."""
    for broker_id in sorted(survey.live_brokers):
        path = f"/brokers/ids/{broker_id}"
        version = survey.json(path).get("version")
        if not isinstance(version, int) or version < BRIDGE_REGISTRATION:
            yield _B10(
                path,
                f"registration of version {version}: inter.broker.protocol.version is below 2.7",
                "the broker cannot register with a KRaft controller and blocks the start",
                "upgrade it to 3.9 with inter.broker.protocol.version=3.9 first",
            )
    yield from _by_hand(survey)
    yield from _confluent(survey)
    yield from _not_restarted(survey)
    if survey.live_brokers:
        yield from _strangers(survey)
        yield from _absent(survey)
    else:
        yield NotRun("B10", "/brokers/ids is empty: the brokers were down when this was read")
    feature = survey.json("/feature").get("version")
    if isinstance(feature, int) and feature < FEATURE_VERSION:
        yield _B10(
            "/feature",
            "written with an inter.broker.protocol.version below 3.3",
            "a migration needs 3.4 at least on every broker",
            "raise inter.broker.protocol.version on every broker and roll them",
        )


def _confluent(survey: Survey) -> Iterator[Outcome]:
    """Brokers whose files have keys of Confluent Server, whose features are others than Kafka's."""
    found = {
        one.name: keys[0]
        for one in (*survey.brokers, *survey.kraft_brokers)
        if (keys := sorted(key for key in one.values if _is_confluents(key)))
    }
    if found:
        yield _B10(
            next(iter(found)),
            f"{several(len(found), 'file')} with keys of Confluent Server, such as "
            f"{next(iter(found.values()))}",
            "a broker of Confluent Server offers confluent.metadata.version, and no "
            "metadata.version: kraft-bridge, as Kafka's controllers, refuses its registration",
            "rehearse with brokers of the same release of Apache Kafka; Confluent's own "
            "controllers take them",
            Severity.INFO,
        )


def _not_restarted(survey: Survey) -> Iterator[Outcome]:
    """Brokers with a KRaft broker's file as their present one that are in ZooKeeper mode."""
    for one in survey.properties:
        if one.is_kraft_broker and one.node_id in survey.live_brokers:
            yield _B10(
                one.at("process.roles"),
                f"a KRaft broker's file, and broker {one.node_id} is registered in ZooKeeper mode",
                "it was not restarted with its file, or another node has its id",
                "restart it, when its turn in the roll is there",
                Severity.WARNING,
            )


def _is_confluents(key: str) -> bool:
    return key.startswith("confluent.") and not key.startswith("confluent.support.")


def _by_hand(survey: Survey) -> Iterator[Outcome]:
    """Registrations that no broker has made."""
    paths = {name: f"/brokers/ids/{name}" for name in survey.children("/brokers/ids")}
    for name, path in paths.items():
        if number(name) is None:
            yield _B10(
                path,
                "no id of a broker",
                "whoever lists the brokers fails on it: Kafka's brokers in ZooKeeper mode and its "
                "controllers, at every attempt",
                "delete the znode",
            )
    lasting = [name for name, path in paths.items() if survey.nodes[path].ephemeral is False]
    if lasting:
        yield _B10(
            paths[lasting[0]],
            f"{named('broker', lasting)}: registered by no session, as in a copy of a tree",
            "it says that a broker runs, whether one does or not; the broker with this id cannot "
            "register, and does not start in ZooKeeper mode",
            "none, if this is a copy of a tree; else delete the znode, and start the broker",
            Severity.INFO,
        )


def _strangers(survey: Survey) -> Iterator[Outcome]:
    """Files of brokers that are neither alive nor hold anything."""
    known = survey.assigned | survey.live_brokers
    for one in survey.brokers:
        if one.node_id is None or one.node_id in known:
            continue
        yield _B10(
            one.at("node.id" if one.get("node.id") else "broker.id"),
            f"{one.node_id}, and no such broker is alive or holds replicas",
            "the node joins as a new broker, or does not start on a folder that is another one's",
            "none, if it is a new broker; else write the id that the broker has now",
            Severity.WARNING,
        )


def _absent(survey: Survey) -> Iterator[Outcome]:
    """Brokers that a controller waits for, as ``taking_over.preconditions`` works them out."""
    held: dict[int, list[str]] = {}
    for name in survey.children("/brokers/topics"):
        if name in survey.pending:
            continue
        for broker_id in {one for some in survey.replicas(name) for one in some}:
            held.setdefault(broker_id, []).append(name)
    known = {one.node_id for one in survey.brokers}
    migrated = standing(survey).stage is MigrationStage.DUAL_WRITE
    rolled = {one.node_id for one in survey.properties if one.is_kraft_broker}
    for broker_id in sorted(held.keys() - survey.live_brokers - (rolled if migrated else set())):
        fact = f"absent, and holds replicas of {listed(held[broker_id], 3)}"
        if migrated:
            yield _B10(
                f"/brokers/ids/{broker_id}",
                f"{fact}; in dual write a broker may be in KRaft mode already",
                "none, if it is; else its replicas there are offline",
                "kraft-bridge status tells which brokers are there",
                Severity.INFO,
            )
            continue
        yield _B10(
            f"/brokers/ids/{broker_id}",
            fact,
            "the copy waits until it has registered",
            "start it"
            if broker_id in known
            else "start it, or move its replicas away if the broker does not come back",
            Severity.WARNING if broker_id in known else Severity.BLOCKER,
        )
    configured = {number_of(name) for name in survey.children("/config/brokers")}
    others = {one for one in configured if one is not None} - survey.live_brokers - held.keys()
    for broker_id in sorted(others if not migrated else ()):
        yield _B10(
            f"/config/brokers/{broker_id}",
            "dynamic configs of a broker that is absent and holds no replica",
            "kraft-bridge waits until it has registered; Kafka's controllers do not, and copy them",
            "start it"
            if broker_id in known
            else "start it, or delete the znode if the broker does not come back",
            Severity.WARNING if broker_id in known else Severity.BLOCKER,
        )


@rule(
    "W01",
    "no operation is in progress in /admin",
    "A topic's deletion was pending when the copy began. The topic was not copied, a broker "
    "that was down held its folder, and the name could not be used again.",
)
def pending_work(survey: Survey) -> Iterator[Outcome]:
    """Work that the ZooKeeper controller has begun and may not have finished."""
    for name in survey.children(DELETIONS):
        yield _deletion(survey, name)
    unfinished = (
        (
            "/admin/reassign_partitions",
            "a reassignment by znode",
            "no KRaft controller reads it: it is neither carried out nor removed",
            "let it end, or delete the znode",
        ),
        (
            "/admin/preferred_replica_election",
            "an election by znode",
            "no KRaft controller reads it",
            "let it end, or delete the znode",
        ),
    )
    for path, what, consequence, remedy in unfinished:
        if path in survey.nodes:
            yield _W01(path, what, consequence, remedy)


def _deletion(survey: Survey, name: str) -> Outcome:
    where = f"{DELETIONS}/{name}"
    if f"/brokers/topics/{name}" not in survey.nodes:
        return _W01(
            where,
            "a deletion is asked for, and there is no topic of that name",
            "a topic of that name that is created before the migration is not copied",
            "delete the znode",
        )
    holders = {one for some in survey.replicas(name) for one in some}
    down = sorted(holders - survey.live_brokers)
    return _W01(
        where,
        "its deletion is pending"
        + (f"; replicas of it are on {named('broker', down)}, absent" if down else ""),
        "the topic is not copied; brokers that were down keep its folder"
        + ("; Kafka's controllers wait until they have registered" if down else ""),
        f"let the deletion end: start {named('broker', down)}"
        if down
        else "wait until it has ended: all brokers that hold its replicas are there",
    )


@rule(
    "W04",
    "epochs allow a rollback",
    "After a rollback the new controller's epoch was below that of partitions' states: brokers "
    "took it for an old one, and the partitions stayed offline.",
)
def epochs(survey: Survey) -> Iterator[Outcome]:
    """A partition state of a higher epoch than ``/controller_epoch``: offline after a rollback."""
    try:
        epoch = controller.parse_epoch(survey.data(controller.EPOCH_PATH))
    except ZnodeError:
        yield finding(
            "W04",
            controller.EPOCH_PATH,
            "missing or no number",
            "nothing fences an old controller; no ZooKeeper controller has ever led here",
            "start a broker in ZooKeeper mode once",
            "ControllerEpochZNode",
        )
        return
    holder = controller.try_parse(survey.data(controller.PATH))
    if holder is not None and holder.kraft_epoch >= epoch:
        yield finding(
            "W04",
            controller.PATH,
            f"KRaft epoch {holder.kraft_epoch} is not below /controller_epoch {epoch}",
            "after a rollback brokers may take the new controller for an old one",
            "raise /controller_epoch before the rollback",
            "KAFKA-20488",
        )
    for one in survey.folders:
        if one.election_epoch is not None and one.election_epoch > epoch:
            yield finding(
                "W04",
                one.name,
                f"the quorum is in epoch {one.election_epoch}, above /controller_epoch {epoch}",
                "the controllers write their epoch into partition states; after a rollback brokers "
                "take the new controller for an old one, and partitions stay offline",
                f"write a higher number into /controller_epoch before the migration, such as "
                f"{one.election_epoch + HEADROOM}",
                "KAFKA-20488",
            )
    for path, node in survey.below("/brokers/topics"):
        if not path.endswith("/state") or node.data is None:
            continue
        state_epoch = survey.json(path).get("controller_epoch", 0)
        if isinstance(state_epoch, int) and state_epoch > epoch:
            yield finding(
                "W04",
                path,
                f"controller_epoch {state_epoch} is above /controller_epoch {epoch}",
                "after a rollback the partition may stay offline",
                "raise /controller_epoch above it before the migration",
                "KAFKA-20488",
            )


# Rules on what else lives in the same ZooKeeper: other tools, and consumers of old.

KAFKAS: Final = frozenset(
    {
        "admin",
        "brokers",
        "cluster",
        "config",
        "consumers",
        "controller",
        "controller_epoch",
        "delegation_token",
        "feature",
        "isr_change_notification",
        "kafka-acl",
        "kafka-acl-changes",
        "kafka-acl-extended",
        "kafka-acl-extended-changes",
        "kraft_bridge",
        "latest_producer_id_block",
        "log_dir_event_notification",
        "migration",
        "zookeeper",
    }
)
"""Znodes at the root of a cluster that are Kafka's, ours or ZooKeeper's own."""
CONFLUENT: Final = "Confluent Server"
TOOLS: Final = {
    "burrow": "Burrow",
    "cmak": "CMAK",
    "cruise-control": "Cruise Control",
    "cruisecontrolbrokerlist": "Cruise Control",
    "kafka-manager": "Kafka Manager (CMAK)",
    "kafka-monitor": "Kafka Monitor",
    "leadership_priority": CONFLUENT,
    "schema_registry": "Schema Registry",
    "strimzi": "Strimzi's topic operator",
}
RECENT_MS: Final = 30 * 24 * 3_600_000
"""Offsets that no group has committed for so long are a remainder."""
OFFSET_DEPTH: Final = len("/consumers/GROUP/offsets/TOPIC/PARTITION".split("/")) - 1
"""Slashes in the path of an offset; the znode of its topic, which may have data too, has fewer."""


@rule(
    "W16",
    "no other tool keeps its data in this ZooKeeper",
    "Burrow, CMAK and others keep data in Kafka's ZooKeeper, and some read the brokers there. "
    "When it was switched off they stopped, and their data was gone.",
)
def foreign(survey: Survey) -> Iterator[Outcome]:
    """Znodes at the root that are neither Kafka's nor ZooKeeper's."""
    clusters = [
        path.removesuffix("/controller_epoch")
        for path in survey.nodes
        if path.endswith("/controller_epoch") and path.count("/") > 1
    ]
    for name in survey.children(""):
        path = f"/{name}"
        if name in KAFKAS:
            continue
        if any(inner == path or inner.startswith(f"{path}/") for inner in clusters):
            if "/controller_epoch" in survey.nodes:  # W10 reports the other case
                yield finding(
                    "W16",
                    path,
                    "another Kafka cluster lives below it",
                    "not looked at: it has a preflight and a migration of its own",
                    "run preflight with this chroot too",
                    "KIP-866",
                    Severity.INFO,
                )
            continue
        tool = TOOLS.get(name.lower().removesuffix("-topic-operator"))
        of_brokers = Severity.INFO if tool == CONFLUENT else None
        count = 1 + sum(1 for _ in survey.below(path))
        yield finding(
            "W16",
            path,
            f"{several(count, 'znode')} of {tool or 'another tool'}",
            "not migrated: whatever keeps them here loses them when ZooKeeper is switched off, and "
            "stops if it reads brokers or topics from ZooKeeper",
            "find its owner, and move it away from ZooKeeper before the migration is finalised",
            "KIP-866",
            of_brokers,
        )


@rule(
    "W17",
    "no consumer commits to ZooKeeper",
    "Consumers of before 0.9 committed their offsets to ZooKeeper. After it was switched off "
    "they started again from the end of every topic.",
)
def old_consumers(survey: Survey) -> Iterator[Outcome]:
    """Groups below /consumers: members that are alive, and offsets committed lately."""
    for group in survey.children("/consumers"):
        root = f"/consumers/{group}"
        alive = [path for path, node in survey.below(f"{root}/ids") if node.ephemeral]
        offsets = [
            (path, node)
            for path, node in survey.below(f"{root}/offsets")
            if node.data is not None and path.count("/") == OFFSET_DEPTH
        ]
        if not alive and not offsets:
            continue
        times = [node.mtime_ms for _, node in offsets if node.mtime_ms is not None]
        quiet = (
            bool(times)
            and survey.read_at_ms is not None
            and survey.read_at_ms - max(times) > RECENT_MS
            and not alive
        )
        connected = f"{several(len(alive), 'member')} connected; " if alive else ""
        last = ", the last more than 30 days ago" if quiet else ""
        yield finding(
            "W17",
            root,
            f"{connected}offsets of {several(len(offsets), 'partition')} in ZooKeeper{last}",
            "not migrated: without ZooKeeper this group has no offsets, and its consumers stop",
            "none, if nobody uses the group; else use a consumer that commits to Kafka, and carry "
            "its offsets over with kafka-consumer-groups --reset-offsets",
            "KIP-500",
            Severity.INFO if quiet else None,
        )
