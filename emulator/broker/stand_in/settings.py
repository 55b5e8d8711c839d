"""Identity and timing of a broker."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.net.channel import ChannelConfig
from emulator.net.greeting import Greeting


@dataclass(frozen=True, slots=True)
class BrokerPace:
    """Times in milliseconds."""

    heartbeat_ms: int
    hasty_ms: int
    """Pause between heartbeats while it is fenced, or after a lost answer."""
    register_ms: int
    """Pause before a registration that was refused or lost is sent again."""
    retry_ms: int
    """Pause before a lost connection is made again."""
    connect_ms: int
    reply_ms: int


@dataclass(frozen=True, slots=True)
class BrokerListener:
    """A PLAINTEXT listener that the broker registers."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """One life of a broker."""

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    directory: bytes
    client_id: str
    controller: tuple[str, int]
    listener: BrokerListener
    metadata_versions: tuple[int, int]
    """Lowest and highest level of metadata.version that it supports."""
    pace: BrokerPace
    release: str = "3.9"
    """The Kafka release whose ApiVersions it answers."""
    greeting: Greeting | None = None
    """The first requests to its controller."""

    @property
    def channel(self) -> ChannelConfig:
        """Configuration of the channel to its controller."""
        return ChannelConfig(
            client_id=self.client_id,
            connect_ms=self.pace.connect_ms,
            reply_ms=self.pace.reply_ms,
            retry_ms=self.pace.retry_ms,
            greeting=self.greeting,
        )
