"""The replicas of a broker in KRaft mode, with all that it sends to the controller about them.

Source: BrokerMetadataPublisher, ReplicaManager.applyDelta, BrokerServer, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulator.broker.alter_partition import AlterPartitionSender
from emulator.broker.controller_channel import ControllerChannel
from emulator.broker.directories import DirectoryAssigner
from emulator.broker.part import Part
from emulator.broker.replicas import HostedReplicas
from emulator.metadata.delta import Delta
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import Feature


class Hosting:
    """See the module's docstring.

    Args:
        broker_id: this broker.
        lag_ms: replica.lag.time.max.ms.
        directory: id of its directory; None: the release has none.
        channel: makes a channel to the controller for one purpose.
        broker_epoch: the epoch of the registration now.
    """

    def __init__(
        self,
        broker_id: int,
        lag_ms: int,
        directory: bytes | None,
        channel: Callable[[], ControllerChannel[Any]],
        broker_epoch: Callable[[], int],
    ) -> None:
        self.replicas = HostedReplicas(broker_id, lag_ms)
        self.isrs = AlterPartitionSender(self.replicas, channel(), broker_epoch, with_epochs=True)
        self.directories: DirectoryAssigner | None = None
        self._image = EMPTY
        if directory is not None:
            self.directories = DirectoryAssigner(
                self.replicas, directory, channel(), broker_epoch, self._has_directories
            )

    @property
    def parts(self) -> tuple[Part, ...]:
        """What has connections of its own."""
        return (self.isrs,) if self.directories is None else (self.isrs, self.directories)

    def take_image(self, image: Image, now_ms: int) -> None:
        """The metadata, after it was read from a snapshot or for the first time."""
        self._image = image
        self.replicas.take_image(image, now_ms)
        if self.directories is not None:
            self.directories.all_changed(now_ms)

    def take_delta(self, delta: Delta, now_ms: int) -> None:
        """One change, in order."""
        self._image = delta.after
        self.replicas.take_delta(delta, now_ms)
        if self.directories is None:
            return
        touched = delta.touched
        if touched.features:
            self.directories.all_changed(now_ms)
            return
        for topic_id, index in sorted(touched.partitions):
            self.directories.changed((touched.topics[topic_id], index), topic_id, now_ms)

    def _has_directories(self) -> bool:
        return self._image.metadata_version.supports(Feature.DIRECTORIES)
