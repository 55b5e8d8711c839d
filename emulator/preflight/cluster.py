"""Rules on the controller, the cluster id, the participants, and znodes of other tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.migration.zk_tree import controller, migration
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.preflight.engine import NotRun, Outcome, Severity, finding, rule
from emulator.preflight.survey import Survey

CLUSTER_ID: Final = "/cluster/id"
BRIDGE_REGISTRATION: Final = 5
"""Version of /brokers/ids/N since inter.broker.protocol.version 2.7; a bridge broker writes it."""
FEATURE_VERSION: Final = 2
"""Version of /feature since inter.broker.protocol.version 3.3-IV0."""


@rule("B01", "/migration can be read")
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


@rule("B02", "/migration holds no earlier migration")
def migration_stale(survey: Survey) -> Iterator[Outcome]:
    """A ``/migration`` of an earlier attempt makes Kafka skip the copy and empty ZooKeeper."""
    try:
        mark = migration.parse(survey.data(migration.PATH))
    except ZnodeError:
        return
    holder = controller.try_parse(survey.data(controller.PATH))
    if mark.kraft_metadata_offset < 0 or (holder is not None and holder.kraft_epoch >= 0):
        return
    yield finding(
        "B02",
        migration.PATH,
        f"controller {mark.kraft_controller_id} wrote up to offset {mark.kraft_metadata_offset} "
        "and does not hold /controller any more",
        "a Kafka controller skips the copy and then writes its empty metadata over ZooKeeper; "
        "kraft-bridge refuses to start",
        "after a rollback delete /migration (and /kraft_bridge), and format the controllers anew",
        "KAFKA-17146",
    )


@rule("B03", "no foreign KRaft controller leads")
def controller_held(survey: Survey) -> Iterator[Outcome]:
    """``/controller`` names a KRaft controller that is not in the given quorum."""
    data = survey.data(controller.PATH)
    if data is None:
        return
    holder = controller.try_parse(data)
    if holder is None or holder.kraft_epoch < 0 or holder.broker_id in survey.controller_ids:
        return
    yield finding(
        "B03",
        controller.PATH,
        f"KRaft controller {holder.broker_id} holds it, in epoch {holder.kraft_epoch}",
        "two quorums would write to one tree; the controller that claims later deposes the other",
        "finish or roll back that migration; if it is yours, give its server.properties with -c",
        "KIP-866, Controller Migration",
    )


@rule("B04", "every node belongs to this cluster")
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
    unread = []
    for one in survey.properties:
        told = one.meta.get("cluster.id")
        if told is None:
            unread.append(one.name)
        elif told != found:
            yield finding(
                "B04",
                CLUSTER_ID,
                f"{found}, but meta.properties of {one.name} says {told}",
                "the brokers refuse this controller with INCONSISTENT_CLUSTER_ID",
                f"format the folder anew: kraft-bridge format -t {found}",
                "KIP-866, Preparing the Cluster",
            )
    if not survey.properties:
        yield NotRun("B04", "no server.properties given: no meta.properties to compare with")
    elif unread:
        yield NotRun("B04", f"no meta.properties in the folders that {', '.join(unread)} names")


@rule("B05", "no broker has the id of a controller")
def shared_id(survey: Survey) -> Iterator[Outcome]:
    """Brokers and controllers share one space of ids."""
    if not survey.controller_ids:
        yield NotRun("B05", "no controller.quorum.voters known: give a server.properties with -c")
        return
    configured = {one.node_id for one in survey.brokers if one.node_id is not None}
    for node_id in sorted((survey.live_brokers | configured) & survey.controller_ids):
        yield finding(
            "B05",
            f"/brokers/ids/{node_id}",
            f"{node_id} is a broker's id and a controller's",
            "the broker refuses to start or is refused at its registration",
            "give the controllers ids that no broker has, such as 3000 and up",
            "KIP-866, Configurations",
        )


@rule("B10", "every broker can take part")
def brokers_ready(survey: Survey) -> Iterator[Outcome]:
    """Live brokers are of the bridge release; assigned brokers are alive."""
    if not survey.live_brokers:
        yield NotRun("B10", "/brokers/ids is empty: the brokers were down when this was read")
        return
    for broker_id in sorted(survey.live_brokers):
        path = f"/brokers/ids/{broker_id}"
        version = survey.json(path).get("version")
        if not isinstance(version, int) or version < BRIDGE_REGISTRATION:
            yield finding(
                "B10",
                path,
                f"registration of version {version}: inter.broker.protocol.version is below 2.7",
                "the broker cannot register with a KRaft controller and blocks the start",
                "upgrade it to 3.9 with inter.broker.protocol.version=3.9 first",
                "KIP-866, Preparing the Cluster",
            )
    yield from _absent(survey)
    feature = survey.json("/feature").get("version")
    if isinstance(feature, int) and feature < FEATURE_VERSION:
        yield finding(
            "B10",
            "/feature",
            "written with an inter.broker.protocol.version below 3.3",
            "a migration needs 3.4 at least on every broker",
            "raise inter.broker.protocol.version on every broker and roll them",
            "KIP-866, Preparing the Cluster",
        )


def _absent(survey: Survey) -> Iterator[Outcome]:
    held: dict[int, list[str]] = {}
    for name in survey.children("/brokers/topics"):
        if name in survey.pending:
            continue
        for broker_id in {one for some in survey.replicas(name) for one in some}:
            held.setdefault(broker_id, []).append(name)
    known = {one.node_id for one in survey.brokers}
    for broker_id in sorted(held.keys() - survey.live_brokers):
        names = held[broker_id]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield finding(
            "B10",
            f"/brokers/ids/{broker_id}",
            f"absent, and holds replicas of {', '.join(names[:3])}{more}",
            "the copy waits until it has registered",
            "start it"
            if broker_id in known
            else "start it, or move its replicas away if the broker does not come back",
            "KIP-866, Migration Trigger",
            Severity.WARNING if broker_id in known else Severity.BLOCKER,
        )


@rule("W01", "no operation is in progress in /admin")
def pending_work(survey: Survey) -> Iterator[Outcome]:
    """Work that the ZooKeeper controller has begun and may not have finished."""
    told = (
        (
            "/admin/delete_topics",
            "its deletion is pending",
            "the topic is not copied; brokers that were down keep its folder",
            "let the deletion end: start the brokers that hold its replicas",
        ),
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
    for path, what, consequence, remedy in told:
        if path == "/admin/delete_topics":
            found = [f"{path}/{name}" for name in survey.children(path)]
        else:
            found = [path] if path in survey.nodes else []
        for one in found:
            yield finding("W01", one, what, consequence, remedy, "KIP-866, Topic Deletions")


@rule("W04", "epochs allow a rollback")
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
    for path, node in survey.below("/brokers/topics"):
        if not path.endswith("/state") or node.data is None:
            continue
        told = survey.json(path).get("controller_epoch", 0)
        if isinstance(told, int) and told > epoch:
            yield finding(
                "W04",
                path,
                f"controller_epoch {told} is above /controller_epoch {epoch}",
                "after a rollback the partition may stay offline",
                "raise /controller_epoch above it before the migration",
                "KAFKA-20488",
            )


@rule("W10", "the chroot is the one of the brokers")
def chroot(survey: Survey) -> Iterator[Outcome]:
    """A chroot in some connect strings and not in others is another cluster."""
    told = {one.name: _chroot(one.get("zookeeper.connect")) for one in survey.properties}
    told = {name: path for name, path in told.items() if path is not None}
    for name, path in sorted(told.items()):
        if path != survey.chroot and (survey.chroot or len(set(told.values())) > 1):
            yield finding(
                "W10",
                name,
                f"zookeeper.connect has the chroot {path or '/'!r}, read was "
                f"{survey.chroot or '/'!r}",
                "this node uses another tree",
                "use one connect string everywhere",
                "KIP-866, Configurations",
            )
    if "/controller_epoch" not in survey.nodes:
        for path, _ in survey.below(""):
            if path.endswith("/controller_epoch"):
                inner = path.removesuffix("/controller_epoch")
                yield finding(
                    "W10",
                    inner,
                    "a Kafka cluster lies below this path",
                    "a controller pointed at the root finds no metadata",
                    f"append {inner} to zookeeper.connect",
                    "KIP-866, Configurations",
                )


def _chroot(connect: str) -> str | None:
    if not connect:
        return None
    _, slash, path = connect.partition("/")
    return f"/{path.strip('/')}" if slash and path.strip("/") else ""
