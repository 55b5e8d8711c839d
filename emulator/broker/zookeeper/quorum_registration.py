"""A migrating broker beside its life in ZooKeeper mode: it follows the quorum and is registered.

It begins when the broker is registered in ZooKeeper and knows its cluster. Its registration is
tried for ever. The content of the metadata log is not used: what the broker knows comes from
control requests, and only how far it has read counts, for the heartbeats.

Source: KafkaServer.startup ("additional components for ZooKeeper migration"),
BrokerLifecycleManager, OffsetTrackingListener, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final

from typing_extensions import override

from emulator.broker.controller_channel import ControllerChannel, ControllerNode
from emulator.broker.kraft.followed import FollowedMetadata, FollowerIdentity
from emulator.broker.kraft.observer import LogObserver
from emulator.broker.kraft.quorum import KnownQuorum
from emulator.broker.kraft.shared_log import LogState
from emulator.broker.kraft.side import BrokerIdentity, channel_config, life, once, spoken
from emulator.broker.lifecycle import BrokerPart, LifecycleManager
from emulator.config.broker import BrokerConfig
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from emulator.raft import snapshots
from emulator.seam import Effect, Event, Slices, earliest
from wire.batch import BatchHeader, batch_crc_holds
from wire.errors import DecodeError

# How far the metadata log goes, for a broker that needs none of its records.
#
# A broker in ZooKeeper mode that migrates follows the log, so that its heartbeats can report how
# far it has read; what it knows of the cluster comes from control requests. So no record is
# decoded, and no image is kept. Checksums are checked.
#
# Source: OffsetTrackingListener, Kafka 3.4-3.9.

CHECKED_BYTES_MAX: Final = 16 * 1024
CHECKED_MAX: Final = 256
"""Batches up to that length that are known to be whole, for the other brokers of the process."""


class LogOffsets:
    """``LogStates`` whose images are empty but for offset and epoch."""

    def after(self, state: LogState, header: BatchHeader, data: bytes) -> Slices[LogState]:
        """The state after one more batch.

        Args:
            state: what was read so far.
            header: of the batch.
            data: the bytes of the whole batch.

        Raises:
            DecodeError: the checksum is wrong.
        """
        del state
        holds = batch_crc_holds if len(data) > CHECKED_BYTES_MAX else _crc_holds
        if not holds(data):
            why = f"the bytes do not have CRC-32C {header.crc:#010x}, as the header says"
            raise DecodeError("RecordBatch", header.magic, f"offset {header.base_offset}", 0, why)
        yield from ()
        return _at(header.last_offset, header.leader_epoch)

    def known(self, header: BatchHeader) -> None:
        """None: a state costs less than to find it."""
        del header

    def of_snapshot(self, data: bytes, end_offset: int, epoch: int) -> LogState:
        """The state of a snapshot of all records below ``end_offset``.

        Raises:
            RecoveryError: it is damaged.
        """
        snapshots.check("snapshot", data, None)
        return _at(end_offset - 1, epoch)


@lru_cache(maxsize=CHECKED_MAX)
def _crc_holds(data: bytes) -> bool:
    """See :func:`batch_crc_holds`; by the content of the whole batch."""
    return batch_crc_holds(data)


def _at(offset: int, epoch: int) -> LogState:
    image = Image(offset, epoch)
    return LogState(image, image)


class QuorumRegistration(BrokerPart):
    """A ``BrokerPart`` that does nothing before :meth:`begin`.

    Args:
        config: of a broker in ZooKeeper mode with migration.
        quorum: whom to ask; it is updated.
        new_conn: allocates connection ids.
    """

    def __init__(
        self, config: BrokerConfig, quorum: KnownQuorum, new_conn: Callable[[], int]
    ) -> None:
        self.quorum = quorum
        self.life: LifecycleManager | None = None
        self.observer: LogObserver | None = None
        self._config = config
        self._new_conn = new_conn
        self._parts: tuple[BrokerPart, ...] = ()
        self._ready = False

    @property
    def epoch(self) -> int:
        """The epoch of the registration; -1 before."""
        return -1 if self.life is None else self.life.epoch

    @property
    def broken(self) -> str:
        """Why the metadata log cannot be followed; empty while it can."""
        return "" if self.observer is None else self.observer.broken

    @property
    def of_another_cluster(self) -> bool:
        """Whether the last answer of each configured controller named another cluster."""
        return self.observer is not None and self.observer.of_another_cluster

    def begin(self, identity: BrokerIdentity, now_ms: int) -> None:
        """Follow the log and register; called once."""
        config = self._config
        log = FollowedMetadata(
            FollowerIdentity(config.node_id, identity.cluster_id, identity.metadata_directory_id),
            LogOffsets(),
        )
        self.observer = LogObserver(
            log, self.quorum, spoken(config.release), once(config), self._new_conn
        )
        plain = life(config, identity)
        self.life = LifecycleManager(
            replace(
                plain,
                features={**plain.features, FEATURE_NAME: self._level()},
                registration_ms=None,
                is_migrating_zk_broker=True,
            ),
            ControllerChannel(
                lambda: self.node(config.request_timeout_ms),
                spoken(config.release),
                self._new_conn,
                config.request_timeout_ms,
            ),
            reached=lambda: log.image.offset,
            ready=partial(self._read_once, log),
        )
        self._parts = (self.observer, self.life)
        for part in self._parts:
            part.start(now_ms)

    def _read_once(self, log: FollowedMetadata) -> bool:
        """Whether it has read all that was committed, now or before.

        Who is behind for a moment, as after a first copy, must not ask to be fenced.
        Source: BrokerLifecycleManager.setReadyToUnfence, Kafka 3.9, called once.
        """
        self._ready = self._ready or log.current
        return self._ready

    def node(self, reply_ms: int) -> ControllerNode | None:
        """The leader of the quorum; None while it is unknown."""
        leader = self.quorum.leader
        if leader is None:
            return None
        own = self._config
        config = channel_config(str(own.node_id), own.release, reply_ms, own.controller_access)
        return ControllerNode(leader.host, leader.port, config)

    def _level(self) -> tuple[int, int]:
        """The level of its inter.broker.protocol.version is the only one that it offers (V09)."""
        assert self._config.zookeeper is not None
        level = MetadataVersion.from_ibp(self._config.zookeeper.inter_broker_protocol.text).level
        return (level, level)

    # ---------------------------------------------------------------- a part
    @property
    @override
    def deadline_ms(self) -> int | None:
        times = (part.deadline_ms for part in self._parts)
        return earliest(times)

    @override
    def start(self, now_ms: int) -> None:
        """:meth:`begin` starts it."""

    @override
    def handle(self, event: Event, now_ms: int) -> None:
        for part in self._parts:
            part.handle(event, now_ms)

    @override
    def tick(self, now_ms: int) -> None:
        for part in self._parts:
            part.tick(now_ms)

    @override
    def effects(self, now_ms: int) -> list[Effect]:
        return [effect for part in self._parts for effect in part.effects(now_ms)]

    @override
    def close(self) -> None:
        for part in self._parts:
            part.close()
