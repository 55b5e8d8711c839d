"""One broker of a fleet: its identity, its port, and its lives one after the other."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

from emulator.broker.kraft.folders import FolderIdentity
from emulator.broker.kraft.shared_log import LogImages
from emulator.broker.zookeeper.folders import DIRECTORIES_SINCE, ZooKeeperFolders
from emulator.broker.zookeeper.shared_control import SharedControl
from emulator.config.broker import BrokerConfig, load_broker
from emulator.io.clock import Clock
from emulator.io.fleet.life import BrokerLife, FleetObserver
from emulator.io.fleet.settings import FOLDER, FleetSettings
from emulator.raft.format import usable_directory_id
from wire.releases import RELEASES

K = TypeVar("K")
Shared: TypeAlias = tuple[LogImages, SharedControl]
"""What brokers of one process read alike: the log of one quorum, control requests."""
UNANSWERED: Final = "no controller answers its heartbeats"


def shared() -> Shared:
    """For the brokers of a new quorum."""
    return LogImages(), SharedControl()


class FleetMember:
    """See the module's docstring.

    Args:
        broker_id: its id.
        settings: of the fleet.
        images: of the cluster, shared by the fleet.
        clock: time.
        observer: called with what it did.
        control: the control requests of the fleet's brokers.
        listeners: how many it has; each has a port of its own.
    """

    def __init__(
        self,
        broker_id: int,
        settings: FleetSettings,
        images: LogImages,
        clock: Clock,
        observer: FleetObserver,
        *,
        control: SharedControl,
        listeners: int = 1,
    ) -> None:
        self.broker_id = broker_id
        self.kraft = settings.zookeeper is None
        """The mode of the next life."""
        self.lives: list[BrokerLife] = []
        self.wanted = False
        """Whether it is to run: it was begun, and no wave has let it die."""
        self._settings = settings
        self._images = images
        self._control = control
        self._clock = clock
        self._observer = observer
        self._rate = 0.0
        self._directory = _directory_id()
        self._cluster_id = settings.cluster_id
        self._sockets = [bound(settings.host, 0) for _ in range(listeners)]
        self.ports = [int(one.getsockname()[1]) for one in self._sockets]
        self._config: dict[bool, BrokerConfig] = {}

    @property
    def port(self) -> int:
        """Of its first listener."""
        return self.ports[0]

    @property
    def life(self) -> BrokerLife:
        """The life that goes on, or the last one."""
        return self.lives[-1]

    @property
    def alive(self) -> bool:
        """Whether a life goes on."""
        return bool(self.lives) and self.life.goes_on

    @property
    def running(self) -> bool:
        """Whether it is registered, and can serve."""
        return bool(self.lives) and self.life.running

    @property
    def absent(self) -> str:
        """Why it does not run as it is to; empty if it does, or is not to."""
        if not self.wanted:
            return ""
        if self.running and self.life.registered:
            return UNANSWERED if self.life.unanswered else ""
        refusals = self.life.tapped.refusals
        return self.life.problem or next(reversed(refusals), "it was not told why")

    def totals(self) -> tuple[dict[int, int], dict[str, int]]:
        """Requests sent by API key, and warnings by text, of all lives."""
        sent: dict[int, int] = {}
        refusals: dict[str, int] = {}
        for life in self.lives:
            _add(sent, life.tapped.sent)
            _add(refusals, life.tapped.refusals)
        return sent, refusals

    def begin(self, due_ns: int) -> None:
        """Begin a life; nothing if one goes on.

        Raises:
            ConfigError: the settings are wrong.
            OSError: its port is taken.
        """
        self.wanted = True
        if self.alive:
            return
        if self.lives:
            self._cluster_id = self._cluster_id or self.life.cluster_id
        if self.kraft not in self._config:
            raw = self._properties()
            self._config[self.kraft], _warnings = load_broker(raw, self._settings.host)
        taken, self._sockets = self._sockets, []
        taken = taken or [bound(self._settings.host, port) for port in self.ports]
        life = BrokerLife(
            self._config[self.kraft],
            self._folders(),
            self._images,
            control=self._control,
            clock=self._clock,
            observer=self._observer,
            due_ns=due_ns,
            bound=taken,
            manual_isrs=self._settings.manual_isrs,
        )
        life.begin_churn(self._rate)
        self.lives.append(life)

    async def die(self) -> None:
        """End at once, and stay away until it is begun again."""
        self.wanted = False
        await self.life.die()

    def churn(self, per_second: float) -> None:
        """Change ISRs of led partitions, in later lives too; 0: ask for nothing more."""
        self._rate = per_second
        if self.alive:
            self.life.begin_churn(per_second)

    def close(self) -> None:
        """Give the port back, if no life has taken it."""
        for one in self._sockets:
            one.close()
        self._sockets = []

    def _properties(self) -> dict[str, str]:
        """Of the next life."""
        return self._settings.properties(self.broker_id, self.port, kraft=self.kraft)

    def _folders(self) -> FolderIdentity | ZooKeeperFolders:
        has_ids = RELEASES.index(self._settings.release) >= RELEASES.index(DIRECTORIES_SINCE)
        named = has_ids and (self.kraft or self._settings.migration)
        ids = {FOLDER: self._directory} if named else {}
        if self.kraft:
            assert self._cluster_id is not None, "told by the command or by ZooKeeper"
            return FolderIdentity(self._cluster_id, ids, {})
        return ZooKeeperFolders(
            self.broker_id, self._cluster_id, ids, new_cluster_id=self._settings.cluster_id
        )


def _add(to: dict[K, int], more: Mapping[K, int]) -> None:
    for key, number in more.items():
        to[key] = to.get(key, 0) + number


def _directory_id() -> bytes:
    rng = random.Random(os.urandom(16))  # noqa: S311 - no secrets
    while not usable_directory_id(found := rng.randbytes(16)):
        pass
    return found


def bound(host: str, port: int) -> socket.socket:
    """A socket of a port of its own, which later lives bind again."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made
