"""What all brokers of a fleet have in common, and the properties of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

FOLDER: Final = "none"
"""Name of the folder in the configuration of a broker; nothing is written."""
CONTROLLER_LISTENER: Final = "CONTROLLER"
PLAINTEXT: Final = "PLAINTEXT"
SET_BY_THE_FLEET: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "kraftbridge.faults.enable",
        "kraftbridge.metrics.port",
        "kraftbridge.release",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
        "security.inter.broker.protocol",
        "zookeeper.connect",
        "zookeeper.metadata.migration.enable",
    }
)
"""Properties that are each broker's own, follow from options, or would have no effect."""

_OF_ZOOKEEPER: Final = ("zookeeper.", "kraftbridge.zookeeper.")
"""Prefixes of what a broker that was rolled to KRaft mode has no more."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """What all brokers of a fleet have in common.

    ``controller``: text for controller.quorum.bootstrap.servers. ``zookeeper``: connect string, or
    None: the brokers are in KRaft mode. ``listener``: the name of theirs; it is not encrypted.
    ``manual_isrs``: leaders propose no change of an ISR by themselves.
    """

    host: str
    controller: str | None
    zookeeper: str | None
    cluster_id: str | None
    release: str
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further properties of every broker."""
    listener: str = PLAINTEXT
    manual_isrs: bool = False

    @property
    def migration(self) -> bool:
        """Whether ZooKeeper-mode brokers migrate."""
        return self.zookeeper is not None and self.controller is not None

    def properties(self, broker_id: int, port: int, *, kraft: bool) -> dict[str, str]:
        """The properties of one broker."""
        found = {
            "listeners": f"{self.listener}://{self.host}:{port}",
            "log.dirs": FOLDER,
            "kraftbridge.release": self.release,
        }
        if self.controller is not None:
            found["controller.quorum.bootstrap.servers"] = self.controller
            found["controller.listener.names"] = CONTROLLER_LISTENER
        if self.listener != PLAINTEXT:
            found["inter.broker.listener.name"] = self.listener
        if self.migration or self.listener != PLAINTEXT:
            protocols = f"{CONTROLLER_LISTENER}:PLAINTEXT,{self.listener}:PLAINTEXT"
            found["listener.security.protocol.map"] = protocols
        if kraft:
            found |= {"process.roles": "broker", "node.id": str(broker_id)}
        else:
            assert self.zookeeper is not None
            found |= {"broker.id": str(broker_id), "zookeeper.connect": self.zookeeper}
            if self.migration:
                found["zookeeper.metadata.migration.enable"] = "true"
        more = self.extra
        if kraft and self.zookeeper is not None:
            more = {key: more[key] for key in more if not key.startswith(_OF_ZOOKEEPER)}
        return {**found, **more}
