"""A controller and its brokers: registration, epochs, heartbeats, fencing (KIP-631, KIP-866).

The brokers are drawn: nobody listens at their addresses. They are unregistered at the end.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Final

from bench.conformance.case import (
    Ask,
    NotOffered,
    Program,
    Stage,
    Where,
    case,
    code,
    holds,
    same,
)
from wire import messages as m
from wire.schema import ZERO_UUID

_ASKS: Final = (m.BrokerRegistrationRequest, m.BrokerHeartbeatRequest, m.UnregisterBrokerRequest)
_MANAGER: Final = "KIP-631; ClusterControlManager.registerBroker"
_HEARTBEATS: Final = "KIP-631; BrokerHeartbeatManager.calculateNextBrokerState"
LEVEL: Final = "metadata.version"
_FAR: Final = 1 << 60
"""An offset that no log has reached: a broker that has read everything."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A broker that is registered."""

    id: int
    epoch: int
    incarnation: bytes
    directory: bytes


def needed(stage: Stage) -> None:
    """Go on only where the cluster's id and level are known.

    Raises:
        NotOffered: they are not.
    """
    if not stage.facts.cluster_id or LEVEL not in stage.facts.finalized:
        raise NotOffered("the controller tells neither the cluster's id nor its level")


def registration(stage: Stage, id_: int, **changes: Any) -> Any:
    """A BrokerRegistration request of a broker in KRaft mode that supports what is finalised."""
    kind = m.BrokerRegistrationRequest
    features = [
        kind.Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in sorted(stage.facts.features.items())
        if name in stage.facts.finalized
    ]
    values = {
        "broker_id": id_,
        "cluster_id": stage.facts.cluster_id,
        "incarnation_id": stage.rng.randbytes(16),
        "listeners": [
            kind.Listener(name=name, host="127.0.0.1", port=1, security_protocol=0)
            for name in ("PLAINTEXT", "INTERNAL", "CLIENT")
        ],
        "features": features,
        "rack": None,
        "log_dirs": (stage.rng.randbytes(16),),
        **changes,
    }
    return kind(**values)


def drawn_id(stage: Stage) -> int:
    """An id that no broker has, most likely."""
    return stage.rng.randrange(1_000_000, 2_000_000_000)


def registered(stage: Stage, id_: int | None = None) -> Program:
    """Register a drawn broker."""
    needed(stage)
    asked = registration(stage, drawn_id(stage) if id_ is None else id_)
    answer = (yield Ask(asked)).message
    code("BrokerRegistration", answer.error_code, 0)
    holds("the broker epoch", answer.broker_epoch >= 0, "0 or more", answer.broker_epoch)
    return Drawn(asked.broker_id, answer.broker_epoch, asked.incarnation_id, asked.log_dirs[0])


def heartbeat(one: Drawn, **changes: Any) -> Any:
    """A BrokerHeartbeat request of a broker that has read everything."""
    values = {
        "broker_id": one.id,
        "broker_epoch": one.epoch,
        "current_metadata_offset": _FAR,
        **changes,
    }
    return m.BrokerHeartbeatRequest(**values)


def unfenced(stage: Stage, id_: int | None = None) -> Program:
    """Register a drawn broker, and let it be unfenced."""
    one = yield from registered(stage, id_)
    answer = (yield Ask(heartbeat(one))).message
    code("BrokerHeartbeat", answer.error_code, 0)
    same("is_caught_up, is_fenced", (answer.is_caught_up, answer.is_fenced), (True, False))
    return one


def gone(*brokers: Drawn) -> Program:
    """Unregister drawn brokers."""
    for one in brokers:
        answer = (yield Ask(m.UnregisterBrokerRequest(broker_id=one.id))).message
        code(f"UnregisterBroker of {one.id}", answer.error_code, 0)


@case(
    "BrokerRegistration gives epochs that grow, and UnregisterBroker ends them",
    sources=_MANAGER,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def register(stage: Stage) -> Program:
    one = yield from registered(stage)
    other = yield from registered(stage)
    holds("the later broker epoch", other.epoch > one.epoch, f"above {one.epoch}", other.epoch)
    again = yield from registered(stage, one.id)
    holds(
        "the epoch of another incarnation",
        again.epoch > other.epoch,
        f"above {other.epoch}",
        again.epoch,
    )
    yield from gone(again, other)
    answer = (yield Ask(m.UnregisterBrokerRequest(broker_id=one.id))).message
    code("UnregisterBroker of a broker that is gone", answer.error_code, 102)
    answer = (yield Ask(heartbeat(other))).message
    code("BrokerHeartbeat of a broker that is gone", answer.error_code, 77)


@case(
    "BrokerRegistration in each version that is offered",
    sources="KIP-631, KIP-866, KIP-858, KIP-966",
    rows="R08 R11 V03",
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def versions(stage: Stage) -> Program:
    needed(stage)
    for version in stage.versions(m.BrokerRegistrationRequest):
        asked = registration(stage, drawn_id(stage))
        answer = (yield Ask(asked, version)).message
        # From 3.7-IV2 on a broker must name its directories, which older versions cannot.
        blind = version < 2 and stage.facts.finalized[LEVEL] >= 17
        code(f"BrokerRegistration v{version}", answer.error_code, 119 if blind else 0)
        if not blind:
            yield from gone(Drawn(asked.broker_id, answer.broker_epoch, b"", b""))


@case(
    "BrokerRegistration for another cluster gets INCONSISTENT_CLUSTER_ID",
    sources=_MANAGER,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def other_cluster(stage: Stage) -> Program:
    needed(stage)
    asked = registration(stage, drawn_id(stage), cluster_id="AAAAAAAAAAAAAAAAAAAAAg")
    answer = (yield Ask(asked)).message
    code("BrokerRegistration", answer.error_code, 104)
    same("the broker epoch", answer.broker_epoch, -1)


@case(
    "BrokerRegistration of an id that is in use gets DUPLICATE_BROKER_REGISTRATION",
    sources=_MANAGER,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def duplicate(stage: Stage) -> Program:
    one = yield from unfenced(stage)
    answer = (yield Ask(registration(stage, one.id))).message
    code("BrokerRegistration of another incarnation", answer.error_code, 101)
    answer = (yield Ask(heartbeat(one))).message
    same("the first one's heartbeat", (answer.error_code, answer.is_fenced), (0, False))
    yield from gone(one)


@case(
    "BrokerRegistration of the same incarnation again is no error",
    sources=_MANAGER,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def again(stage: Stage) -> Program:
    one = yield from unfenced(stage)
    asked = registration(stage, one.id, incarnation_id=one.incarnation, log_dirs=(one.directory,))
    answer = (yield Ask(asked)).message
    code("BrokerRegistration again", answer.error_code, 0)
    if stage.facts.release == "3.9":
        same("the broker epoch", answer.broker_epoch, one.epoch)
    yield from gone(one)


@case(
    "BrokerRegistration without support of the finalised level gets UNSUPPORTED_VERSION",
    sources=f"KIP-778; {_MANAGER}",
    rows="J06",
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def features(stage: Stage) -> Program:
    needed(stage)
    level = stage.facts.finalized[LEVEL]
    kind = m.BrokerRegistrationRequest.Feature
    for low, high in ((level + 1, level + 5), (1, level - 1)):
        if low > high:
            continue
        only = [kind(name=LEVEL, min_supported_version=low, max_supported_version=high)]
        answer = (yield Ask(registration(stage, drawn_id(stage), features=only))).message
        code(f"BrokerRegistration with levels {low} to {high}, of {level}", answer.error_code, 35)


@case(
    "BrokerRegistration: directories that cannot be get INVALID_REGISTRATION",
    sources="KIP-858; ClusterControlManager.registerBroker",
    where=Where.CONTROLLER,
    asks=_ASKS,
    since="3.7",
    disruptive=True,
)
def directories(stage: Stage) -> Program:
    needed(stage)
    if stage.facts.finalized[LEVEL] < 17:
        raise NotOffered("directories come with 3.7-IV2")
    own = stage.rng.randbytes(16)
    for what, dirs in (
        ("none", ()),
        ("one twice", (own, own)),
        ("a reserved one", (ZERO_UUID[:15] + b"\x01",)),
    ):
        answer = (yield Ask(registration(stage, drawn_id(stage), log_dirs=dirs), lowest=2)).message
        code(f"BrokerRegistration with directories: {what}", answer.error_code, 119)
    one = yield from registered(stage)
    asked = registration(stage, drawn_id(stage), log_dirs=(one.directory,))
    answer = (yield Ask(asked, lowest=2)).message
    code("BrokerRegistration with another broker's directory", answer.error_code, 119)
    yield from gone(one)


@case(
    "a broker in ZooKeeper mode is refused where nothing migrates",
    sources="KIP-866; ClusterControlManager.registerBroker",
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def zookeeper_mode(stage: Stage) -> Program:
    needed(stage)
    if stage.shared.get("migration"):
        raise NotOffered("the controller migrates")
    level = stage.facts.finalized[LEVEL]
    kind = m.BrokerRegistrationRequest.Feature
    own = [kind(name=LEVEL, min_supported_version=level, max_supported_version=level)]
    asked = registration(stage, drawn_id(stage), features=own, is_migrating_zk_broker=True)
    answer = (yield Ask(asked, lowest=1)).message
    if answer.error_code == 0:
        yield from gone(Drawn(asked.broker_id, answer.broker_epoch, b"", b""))
        raise NotOffered("the controller migrates")
    code("BrokerRegistration in ZooKeeper mode", answer.error_code, 102)


@case(
    "BrokerHeartbeat: fenced until it has read its registration, then unfenced",
    sources=_HEARTBEATS,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def unfence(stage: Stage) -> Program:
    one = yield from registered(stage)
    behind = heartbeat(one, current_metadata_offset=max(0, one.epoch - 1))
    answer = (yield Ask(behind)).message
    code("BrokerHeartbeat", answer.error_code, 0)
    same(
        "is_caught_up, is_fenced, before it has read it",
        (answer.is_caught_up, answer.is_fenced),
        (False, True),
    )
    answer = (yield Ask(heartbeat(one, want_fence=True))).message
    same(
        "is_caught_up, is_fenced, when it wants to be",
        (answer.is_caught_up, answer.is_fenced),
        (True, True),
    )
    answer = (yield Ask(heartbeat(one))).message
    same(
        "is_caught_up, is_fenced, after that",
        (answer.is_caught_up, answer.is_fenced),
        (True, False),
    )
    answer = (yield Ask(heartbeat(one, want_fence=True))).message
    same("is_fenced, when it wants to be again", answer.is_fenced, True)
    yield from gone(one)


@case(
    "BrokerHeartbeat of an old epoch, or of nobody, gets STALE_BROKER_EPOCH",
    sources="ClusterControlManager.checkBrokerEpoch",
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def stale(stage: Stage) -> Program:
    one = yield from registered(stage)
    for what, asked in (
        ("a lower epoch", heartbeat(one, broker_epoch=one.epoch - 1)),
        ("a higher epoch", heartbeat(one, broker_epoch=one.epoch + 1)),
        ("a broker that is not registered", heartbeat(one, broker_id=drawn_id(stage))),
    ):
        code(f"BrokerHeartbeat of {what}", (yield Ask(asked)).message.error_code, 77)
    yield from gone(one)


@case(
    "BrokerHeartbeat: a broker that leads nothing may shut down at once",
    sources=_HEARTBEATS,
    where=Where.CONTROLLER,
    asks=_ASKS,
    disruptive=True,
)
def shut_down(stage: Stage) -> Program:
    one = yield from unfenced(stage)
    answer = (yield Ask(heartbeat(one))).message
    same("should_shut_down, not asked for", answer.should_shut_down, False)
    answer = (yield Ask(heartbeat(one, want_shut_down=True))).message
    code("BrokerHeartbeat", answer.error_code, 0)
    same("should_shut_down, is_fenced", (answer.should_shut_down, answer.is_fenced), (True, True))
    yield from gone(one)


@case(
    "AllocateProducerIds gives blocks that do not meet, to brokers of the present epoch",
    sources="KIP-730; ProducerIdControlManager",
    where=Where.CONTROLLER,
    asks=(*_ASKS, m.AllocateProducerIdsRequest),
    disruptive=True,
)
def producer_ids(stage: Stage) -> Program:
    one = yield from registered(stage)
    found = []
    kind = m.AllocateProducerIdsRequest
    for _ in range(3):
        answer = (yield Ask(kind(broker_id=one.id, broker_epoch=one.epoch))).message
        code("AllocateProducerIds", answer.error_code, 0)
        holds("the block's length", answer.producer_id_len > 0, "above 0", answer.producer_id_len)
        found.append((answer.producer_id_start, answer.producer_id_len))
    for (start, length), (later, _) in itertools.pairwise(found):
        holds("the next block", later >= start + length, f"{start + length} or later", later)
    for id_, epoch in ((one.id, one.epoch + 1), (one.id, one.epoch - 1), (drawn_id(stage), 1)):
        answer = (yield Ask(kind(broker_id=id_, broker_epoch=epoch))).message
        code(f"AllocateProducerIds of epoch {epoch}, not {one.epoch}", answer.error_code, 77)
    yield from gone(one)
