"""The preconditions of the migration; unmet ones are reasons that an operator can act on.

Pure: computes reasons from the tree, the image and the configuration. Without reasons the claim may
be made. A reason that waiting cannot remove is ``fatal``: the driver reports it and does not write
to ZooKeeper.

Source: KIP-866 "Migration Trigger", "ZK Broker Presence", "Incompatible Brokers";
KRaftMigrationDriver .areZkBrokersReadyForMigration, Kafka 3.9. Beyond Kafka: brokers known only
from dynamic configs count (Q03), an assigned broker that is absent blocks (T04), and a tree that
cannot be copied is refused before the claim; in Kafka each controller that tries the copy ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final, TypeAlias

import msgspec

from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.metadata.migration_state import MigrationState
from emulator.migration.states import DriverEvent
from emulator.znodes import configs, topics
from emulator.znodes.broker_configs import BrokerConfigs
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.entity import Entities, Refusal
from emulator.znodes.reader import Tree
from emulator.znodes.tree import ZnodeError
from emulator.znodes.znode_json import number_of

ZNODES_PER_PIECE: Final = 50
"""Znodes of topics checked in a piece of work: about 0.15 ms."""


class Why(Enum):
    """Kinds of reasons; ``status --json`` shows the values."""

    NO_SESSION = "no_session"
    METADATA_VERSION = "metadata_version"
    MIGRATION_STATE = "migration_state"
    CONTROLLER_NOT_READY = "controller_not_ready"
    NO_BROKERS = "no_brokers"
    BROKER_NOT_REGISTERED = "broker_not_registered"
    BROKER_NOT_MIGRATING = "broker_not_migrating"
    OFFLINE_REPLICAS = "offline_replicas"
    MALFORMED_ZNODE = "malformed_znode"
    NO_CONTROLLER_EPOCH = "no_controller_epoch"
    MIGRATION_ZNODE = "migration_znode"
    OTHER_CLUSTER = "other_cluster"
    OTHER_LOG = "other_log"
    CONTROLLER_HELD = "controller_held"
    ZOOKEEPER_MODE_TOOK_OVER = "zookeeper_mode_took_over"
    STALE_CONTROLLER_EPOCH = "stale_controller_epoch"
    UNREADABLE = "unreadable"
    ENCODED = "encoded_value"
    NO_LISTENER = "no_listener"
    BROKER_UNREACHABLE = "broker_unreachable"
    BROKER_SLOW = "broker_slow"


OWN_FAULTS: Final = frozenset({Why.OTHER_CLUSTER})
"""Reasons in the configuration of one node: another voter may not have them."""
PERHAPS_OWN: Final = frozenset(
    {Why.NO_CONTROLLER_EPOCH, Why.UNREADABLE, Why.ENCODED, Why.NO_LISTENER}
)
"""Reasons that are in the cluster, or in the configuration of one node, as a wrong chroot, a login
that may not write, a missing secret, another ``inter.broker.listener.name``."""


class Reason(msgspec.Struct, frozen=True):
    """One unmet precondition; ``why`` and ``subject`` (a broker id, a path) identify it.

    ``next_epoch``: it is one for this leader epoch only; in the next one the guards decide anew.
    """

    why: Why
    subject: str
    text: str
    fatal: bool = False
    next_epoch: bool = False


def deposed(why: str) -> Reason:
    """The reason of a controller whose claim was taken from it."""
    return Reason(Why.CONTROLLER_HELD, "/controller", why, fatal=True, next_epoch=True)


def check(
    tree: Tree, image: Image, entities: Entities = ENTITIES_WITHOUT_SECRETS
) -> Iterator[Reason | None]:
    """Yield why the copy cannot begin, and None after each piece of work without a reason.

    Args:
        tree: all znodes that the copy would read.
        image: the newest stable image.
        entities: the classes beside topics.
    """
    assigned: dict[int, list[str]] = {}
    yield from _version(image)
    yield from unreadable(tree, image.metadata_version, assigned, entities)
    alive = _broker_ids(tree.children("/brokers/ids"))
    configured = _broker_ids(tree.children("/config/brokers"))
    yield from _brokers(image, alive, assigned, configured)


def check_copy(
    tree: Tree, image: Image, entities: Entities = ENTITIES_WITHOUT_SECRETS
) -> Iterator[Reason | None]:
    """Yield why a tree read after the claim cannot be copied, and None as :func:`check` does.

    A broker that runs but is not registered continues to lead, and could not be informed of another
    leader. A broker that is neither registered nor in ``/brokers/ids`` is no reason to wait: after
    the claim no ZooKeeper-mode controller can elect other leaders, so the copy does.

    Args:
        tree: what will be copied.
        image: the newest image; the brokers registered in it can be sent requests.
        entities: the classes beside topics.
    """
    yield from unreadable(tree, image.metadata_version, entities=entities)
    yield from _brokers(image, _broker_ids(tree.children("/brokers/ids")), {}, set())


def waits_for(image: Image, alive: Iterable[str]) -> list[Reason]:
    """Why the brokers that run in ZooKeeper mode delay the migration.

    Args:
        image: the newest stable image.
        alive: the names below ``/brokers/ids``.
    """
    return [*_brokers(image, _broker_ids(alive), {}, set())]


def reasons(tree: Tree, image: Image) -> list[Reason]:
    """All reasons of :func:`check`; if the list is empty, the claim may be made."""
    return [reason for reason in check(tree, image) if reason is not None]


def unreadable(
    tree: Tree,
    version: MetadataVersion,
    assigned: dict[int, list[str]] | None = None,
    entities: Entities = ENTITIES_WITHOUT_SECRETS,
) -> Iterator[Reason | None]:
    """Yield the znodes that cannot be copied, and None after each piece that can.

    Args:
        tree: all znodes that the copy would read.
        version: metadata.version; low levels cannot record every entity.
        assigned: filled with the topics that each broker has replicas of.
        entities: the classes beside topics.
    """
    yield from _topics(tree, {} if assigned is None else assigned)
    for entity in entities:
        for refusal in entity.refusals(tree, version):
            yield None if refusal is None else reason_of(refusal)


def unwritable(image: Image, entities: Entities = ENTITIES_WITHOUT_SECRETS) -> list[Reason]:
    """Parts of an image that cannot be written to ZooKeeper, so that a claim would do damage."""
    return [
        reason_of(refusal)
        for entity in entities
        if isinstance(entity, BrokerConfigs)
        for refusal in entity.unwritable(image)
    ]


def unreachable(image: Image, listener: str | None) -> list[Reason]:
    """Brokers in ZooKeeper mode to which this controller could not connect.

    A registration without the listener is refused, but by the configuration of the leader then.

    Args:
        image: the newest stable image.
        listener: ``inter.broker.listener.name``; None: nothing is propagated to brokers.
    """
    return [
        Reason(
            Why.NO_LISTENER,
            str(broker_id),
            f"broker {broker_id} has no listener {listener}, which is this controller's "
            "inter.broker.listener.name: correct it, it is the same on all controllers and brokers",
            fatal=True,
        )
        for broker_id, broker in sorted(image.brokers.items())
        if listener is not None
        and broker.is_migrating_zk_broker
        and not broker.fenced
        and broker.endpoint(listener) is None
    ]


def reason_of(refusal: Refusal) -> Reason:
    """The reason for a znode that cannot be copied."""
    return Reason(Why(refusal.kind.value), refusal.path, f"{refusal.path}: {refusal.why}")


def _version(image: Image) -> Iterator[Reason]:
    version = image.metadata_version
    if not version.supports(Feature.MIGRATION):
        yield Reason(
            Why.METADATA_VERSION,
            version.name,
            f"metadata.version is {version.level} ({version.name}); a migration needs 8 (3.4-IV0)",
            fatal=True,
        )


def _brokers(
    image: Image, alive: set[int], assigned: dict[int, list[str]], configured: set[int]
) -> Iterator[Reason]:
    if not alive and not assigned:
        yield Reason(Why.NO_BROKERS, "/brokers/ids", "no broker is registered in ZooKeeper")
    for broker_id in sorted({*alive, *assigned, *configured}):
        known_from = _known_from(broker_id, alive, assigned, configured)
        broker = image.brokers.get(broker_id)
        if broker is None:
            yield Reason(
                Why.BROKER_NOT_REGISTERED,
                str(broker_id),
                f"broker {broker_id} (known from {known_from}) has not registered: restart it with "
                "zookeeper.metadata.migration.enable=true and inter.broker.protocol.version="
                f"{image.metadata_version.name}; brokers with another version cannot register",
            )
        elif not broker.is_migrating_zk_broker:
            yield Reason(
                Why.BROKER_NOT_MIGRATING,
                str(broker_id),
                f"broker {broker_id} (known from {known_from}) is registered in KRaft mode",
            )
        elif broker_id in assigned and broker_id not in alive:
            names = assigned[broker_id]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield Reason(
                Why.OFFLINE_REPLICAS,
                str(broker_id),
                f"broker {broker_id} is absent from /brokers/ids and holds replicas of "
                f"{', '.join(names[:3])}{more}",
            )


def _known_from(
    broker_id: int, alive: set[int], assigned: dict[int, list[str]], configured: set[int]
) -> str:
    sources = []
    if broker_id in alive:
        sources.append("/brokers/ids")
    if broker_id in assigned:
        sources.append("replica assignments")
    if broker_id in configured:
        sources.append("/config/brokers")
    return ", ".join(sources)


def _broker_ids(names: Iterable[str]) -> set[int]:
    return {one for one in map(number_of, names) if one is not None}


def _topics(tree: Tree, assigned: dict[int, list[str]]) -> Iterator[Reason | None]:
    """Check every topic to copy, and collect the assigned topics of each broker."""
    pending = set(tree.children("/admin/delete_topics"))
    names: dict[bytes, str] = {}
    looked = 0
    for name in tree.children("/brokers/topics"):
        if name in pending:
            continue
        topic, errors = _read(tree, name)
        for partition_id in () if topic is None else topic.partitions:
            looked += 1
            if looked % ZNODES_PER_PIECE == 0:
                yield None
            try:
                topics.read_state(tree, name, partition_id)
            except ZnodeError as error:
                errors.append(error)
        looked += 2
        if looked >= ZNODES_PER_PIECE:
            looked = 0
            yield None
        yield from map(_malformed, errors)
        if topic is None or errors:
            continue
        if names.setdefault(topic.topic_id, name) != name:
            why = f"has the same topic_id as {names[topic.topic_id]}"
            yield _malformed(ZnodeError(topics.topic_path(name), why))
            continue
        for broker_id in sorted({r for replicas in topic.partitions.values() for r in replicas}):
            assigned.setdefault(broker_id, []).append(name)


def _read(tree: Tree, name: str) -> tuple[topics.ZkTopic | None, list[ZnodeError]]:
    """One topic and its config, and the znodes of them that cannot be read."""
    topic, errors = None, []
    try:
        topic = topics.read_topic(tree, name)
    except ZnodeError as error:
        errors.append(error)
    try:
        configs.read_topic_config(tree, name)
    except ZnodeError as error:
        errors.append(error)
    return topic, errors


def _malformed(error: ZnodeError) -> Reason:
    return Reason(Why.MALFORMED_ZNODE, error.path, str(error))


# Decides from the quorum's log, at the start of a term, how the migration continues.
#
# Source: KRaftMigrationDriver.WaitForControllerQuorumEvent,
# QuorumFeatures.reasonAllControllersZkMigrationNotReady, Kafka 3.9.

WhyNot: TypeAlias = Callable[[int], str]
"""Voter -> why it is not ready by its own answer to ApiVersions; empty if it is."""


def quorum_event(
    image: Image, voters: Iterable[int], why_not: WhyNot
) -> tuple[DriverEvent | None, list[Reason]]:
    """What ends WAIT_FOR_CONTROLLER_QUORUM; None and the reasons to wait if nothing does."""
    match image.migration_state:
        case MigrationState.PRE_MIGRATION:
            missing = _not_ready(image, voters, why_not)
            return None if missing else DriverEvent.QUORUM_READY, missing
        case MigrationState.MIGRATION:
            return DriverEvent.MIGRATION_UNDER_WAY, []
        case MigrationState.NONE:
            text = "this metadata log was started without a migration, and none can be added"
        case MigrationState.POST_MIGRATION:
            text = "the migration was finalised; it cannot be started again"
    name = MigrationState(image.migration_state).name
    return DriverEvent.NO_MIGRATION, [Reason(Why.MIGRATION_STATE, name, text, fatal=True)]


def _not_ready(image: Image, voters: Iterable[int], why_not: WhyNot) -> list[Reason]:
    """Every voter must have registered as ready; below 3.7-IV0, where none does, have said so."""
    if not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION):
        return [
            Reason(Why.CONTROLLER_NOT_READY, str(voter), f"controller {voter}: {why}")
            for voter in sorted(voters)
            if (why := why_not(voter))
        ]
    result = []
    for voter in sorted(voters):
        known = image.controllers.get(voter)
        if known is None or not known.zk_migration_ready:
            state = "has not registered" if known is None else "has no migration configured"
            reason = Reason(Why.CONTROLLER_NOT_READY, str(voter), f"controller {voter} {state}")
            result.append(reason)
    return result
