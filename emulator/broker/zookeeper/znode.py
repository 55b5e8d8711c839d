"""A broker's znode in ``/brokers/ids``: its registration in ZooKeeper, and what precedes it.

At the start: Kafka's top-level znodes are made, ``/cluster/id`` is read or made, then the
ephemeral znode. Its czxid is the broker epoch. After the session has expired the broker registers
again, with a new epoch; a connection that continues the session leaves the znode as it is.

A live znode of another session under this id ends the start, as in Kafka. Unlike in Kafka, which
then gives up until the next expiry, it is tried again where the broker had been registered before.

Source: KafkaServer.startup, KafkaZkClient.{createTopLevelPaths,CheckedEphemeral},
KafkaController.processRegisterBrokerAndReelect, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import ClassVar, Final

from emulator.broker.zookeeper.watched_znode import Submit
from emulator.metadata.brokers import Endpoint
from emulator.seam import Effect, Log
from emulator.znodes import brokers, cluster
from emulator.znodes.reader import TOP_LEVEL
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    EPHEMERAL,
    Create,
    Delete,
    GetData,
    Multi,
    NodeData,
    SetData,
    Stat,
    ZkFailed,
    ZkLost,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)

RETRY_MS: Final = 1_000
"""Pause before a registration is tried again that failed after an expiry."""
NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class ZnodeOf:
    """What a broker writes about itself, and the cluster it belongs to.

    ``stored_cluster_id``: of its ``meta.properties``; None: it has none yet.
    ``new_cluster_id``: for ``/cluster/id`` if it is absent: 22 characters, unpredictable.
    """

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    stored_cluster_id: str | None
    new_cluster_id: str

    @property
    def path(self) -> str:
        """Its path."""
        return f"{brokers.ROOT}/{self.broker_id}"


class ZnodeStep(Enum):
    """What was asked of ZooKeeper last."""

    TOP_LEVEL = auto()
    READ_CLUSTER = auto()
    MAKE_CLUSTER_FOLDER = auto()
    MAKE_CLUSTER = auto()
    REGISTER = auto()
    LOOK = auto()  # at the znode that is there already
    REMOVE = auto()  # the znode of an earlier session of ours


Handler = Callable[["BrokerZnode", ZkOutcome, int], None]


class BrokerZnode:
    """See the module's docstring.

    Args:
        about: the broker.
        submit: sends a request.
    """

    def __init__(self, about: ZnodeOf, submit: Submit) -> None:
        self.epoch = NO_EPOCH
        """Of the newest registration; kept while there is no session, as Kafka does."""
        self.cluster_id = about.stored_cluster_id
        self.over: str | None = None
        """Why the broker cannot start; None: it can."""
        self._about = about
        self._submit = submit
        self._session = 0
        self._earlier: set[int] = set()
        """Sessions of this process that have expired."""
        self._registered_in = 0
        """The session that owns the znode; 0 before the first registration."""
        self._making = 0
        self._retry_at_ms: int | None = None
        self._effects: list[Effect] = []

    @property
    def registered(self) -> bool:
        """Whether it was registered in the newest session."""
        return self._session != 0 and self._registered_in == self._session

    @property
    def deadline_ms(self) -> int | None:
        """When to try again."""
        return self._retry_at_ms

    def take_effects(self) -> list[Effect]:
        """Effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def connected(self, session: int, now_ms: int) -> None:
        """A connection is ready: of the same session as before, or of a new one."""
        if self._session not in {0, session}:
            self._earlier.add(self._session)
        self._session = session
        self._retry_at_ms = None
        if self.over is None and not self.registered:
            self._begin(now_ms)

    def tick(self, now_ms: int) -> None:
        """Try again if it is time."""
        if self._retry_at_ms is not None and self._retry_at_ms <= now_ms:
            self._retry_at_ms = None
            self._begin(now_ms)

    def _ask(self, step: ZnodeStep, request: ZkRequest) -> None:
        self._submit(partial(self._take, step), request)

    def _take(self, step: ZnodeStep, outcome: ZkOutcome, now_ms: int) -> None:
        """Take the outcome of a request; one that was lost is asked again by the next session."""
        if isinstance(outcome, ZkLost) or self.over is not None:
            return
        code = outcome.code if isinstance(outcome, ZkFailed) else ZkCode.OK
        handler = self._TABLE.get((step, code))
        if handler is None:
            self._failed(f"{step.name}: {code_name(code)}", now_ms)
        else:
            handler(self, outcome, now_ms)

    # ---------------------------------------------------------------- what follows a step
    def _begin(self, now_ms: int) -> None:
        if self._registered_in:
            self._register(None, now_ms)
            return
        self._making = len(TOP_LEVEL)
        for path in TOP_LEVEL:
            self._ask(ZnodeStep.TOP_LEVEL, Create(path, None))

    def _made(self, _outcome: ZkOutcome, _now_ms: int) -> None:
        self._making -= 1
        if not self._making:
            self._read_cluster(_outcome, _now_ms)

    def _read_cluster(self, _outcome: ZkOutcome, _now_ms: int) -> None:
        self._ask(ZnodeStep.READ_CLUSTER, GetData(cluster.PATH))

    def _make_cluster_folder(self, _outcome: ZkOutcome, _now_ms: int) -> None:
        self._ask(ZnodeStep.MAKE_CLUSTER_FOLDER, Create(cluster.PATH.rpartition("/")[0], None))

    def _make_cluster(self, _outcome: ZkOutcome, _now_ms: int) -> None:
        data = cluster.encode(self._about.new_cluster_id)
        self._ask(ZnodeStep.MAKE_CLUSTER, Create(cluster.PATH, data))

    def _take_cluster(self, outcome: ZkOutcome, now_ms: int) -> None:
        assert isinstance(outcome, ZkResult)
        assert isinstance(outcome.value, NodeData)
        try:
            found = cluster.parse(outcome.value.data)
        except ZnodeError as error:
            self.over = str(error)
            return
        stored = self._about.stored_cluster_id
        if stored not in {None, found}:
            self.over = (
                f"{cluster.PATH} is {found}, but meta.properties says {stored}: this broker "
                "belongs to another cluster; check zookeeper.connect"
            )
            return
        self.cluster_id = found
        self._register(outcome, now_ms)

    def _register(self, _outcome: ZkOutcome | None, now_ms: int) -> None:
        path = self._about.path
        data = brokers.encode(self._about.endpoints, self._about.rack, now_ms)
        made = (Create(path, None, flags=EPHEMERAL), SetData(path, data, 0))
        self._ask(ZnodeStep.REGISTER, Multi(made))

    def _is_registered(self, outcome: ZkOutcome, _now_ms: int) -> None:
        assert isinstance(outcome, ZkResult)
        assert isinstance(outcome.value, list)
        stat = outcome.value[1]
        assert isinstance(stat, Stat)
        self._has(stat)

    def _has(self, stat: Stat) -> None:
        self.epoch, self._registered_in = stat.czxid, self._session
        fields: dict[str, object] = {"path": self._about.path, "epoch": self.epoch}
        self._effects.append(Log("info", "registered in zookeeper", fields))

    def _look(self, _outcome: ZkOutcome, _now_ms: int) -> None:
        self._ask(ZnodeStep.LOOK, GetData(self._about.path))

    def _looked(self, outcome: ZkOutcome, now_ms: int) -> None:
        assert isinstance(outcome, ZkResult)
        assert isinstance(outcome.value, NodeData)
        stat = outcome.value.stat
        if stat.ephemeral_owner == self._session:
            # The answer to the registration was lost.
            self._has(stat)
        elif stat.ephemeral_owner in self._earlier:
            # ZooKeeper has not yet cleared away what the expired session left.
            self._ask(ZnodeStep.REMOVE, Delete(self._about.path, stat.version))
        else:
            self._failed(
                f"{self._about.path} belongs to session {stat.ephemeral_owner:#x}: another broker "
                f"{self._about.broker_id} is running, or ended within its session timeout",
                now_ms,
            )

    def _failed(self, why: str, now_ms: int) -> None:
        """The start is over; a broker that had been registered tries again."""
        if not self._registered_in:
            self.over = f"registration in ZooKeeper: {why}"
            return
        self._retry_at_ms = now_ms + RETRY_MS
        fields: dict[str, object] = {"why": why, "retry_ms": RETRY_MS}
        self._effects.append(Log("error", "registration in zookeeper failed", fields))

    _TABLE: ClassVar[Mapping[tuple[ZnodeStep, int], Handler]] = {
        (ZnodeStep.TOP_LEVEL, ZkCode.OK): _made,
        (ZnodeStep.TOP_LEVEL, ZkCode.NODE_EXISTS): _made,
        (ZnodeStep.READ_CLUSTER, ZkCode.OK): _take_cluster,
        (ZnodeStep.READ_CLUSTER, ZkCode.NO_NODE): _make_cluster_folder,
        (ZnodeStep.MAKE_CLUSTER_FOLDER, ZkCode.OK): _make_cluster,
        (ZnodeStep.MAKE_CLUSTER_FOLDER, ZkCode.NODE_EXISTS): _make_cluster,
        (ZnodeStep.MAKE_CLUSTER, ZkCode.OK): _read_cluster,
        (ZnodeStep.MAKE_CLUSTER, ZkCode.NODE_EXISTS): _read_cluster,
        (ZnodeStep.REGISTER, ZkCode.OK): _is_registered,
        (ZnodeStep.REGISTER, ZkCode.NODE_EXISTS): _look,
        (ZnodeStep.LOOK, ZkCode.OK): _looked,
        (ZnodeStep.LOOK, ZkCode.NO_NODE): _register,
        (ZnodeStep.REMOVE, ZkCode.OK): _register,
        (ZnodeStep.REMOVE, ZkCode.NO_NODE): _register,
        (ZnodeStep.REMOVE, ZkCode.BAD_VERSION): _look,
    }
    """(step, ZooKeeper's code) -> what follows; with any other code the registration has failed."""
