"""A broker of a cluster: its properties and its folder."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from emulator.config.broker import load_broker
from emulator.config.java_text import INT_MAX
from emulator.config.load import ConfigError
from emulator.io.broker_process import BrokerFolders, BrokerProcess
from emulator.io.clock import Clock
from emulator.io.formatting import FormatError, format_broker
from emulator.net.faults.script import FaultScript
from emulator.seam import Log
from emulator.testing.controller import CONTROLLER_LISTENER
from emulator.testing.local_node import (
    HOST,
    ClusterError,
    LocalNode,
    SettingsError,
    checked_properties,
    warn,
)

LISTENER: Final = "PLAINTEXT"
OWN_PROPERTIES: Final = frozenset(
    "process.roles node.id broker.id controller.quorum.voters controller.listener.names listeners "
    "controller.quorum.bootstrap.servers metadata.log.dir log.dirs log.dir "
    "kraftbridge.release zookeeper.connect".split()
)
"""Set by the cluster; a test cannot give them."""


def broker_launcher(
    node_id: int,
    folder: Path,
    script: FaultScript,
    *,
    port: int,
    voters: str,
    cluster_id: str,
    release: str,
    fsync: bool,
    properties: Mapping[str, str],
) -> Callable[[socket.socket], LocalNode[BrokerProcess]]:
    """Format a folder, if it is not; returns what runs a broker in it, on a socket.

    Args:
        node_id: of the broker.
        folder: for its files.
        script: faults that strike its requests.
        port: of the socket.
        voters: the controllers, as ``controller.quorum.voters`` names them.
        cluster_id: of the controllers.
        release: see :class:`emulator.testing.Cluster`, as for the others.
        fsync: whether its few files are made durable.
        properties: more properties.

    Raises:
        ClusterError: a property is wrong, or the folder cannot be used.
    """
    given = checked_properties(properties, OWN_PROPERTIES)
    try:
        config, warnings = load_broker(
            {
                **given,
                "process.roles": "broker",
                "node.id": str(node_id),
                "controller.quorum.voters": voters,
                "controller.listener.names": CONTROLLER_LISTENER,
                "listeners": f"{LISTENER}://{HOST}:{port}",
                "log.dirs": str(folder),
                "kraftbridge.release": release,
            },
            HOST,
        )
        format_broker(config, cluster_id, ignore_formatted=True)
    except ConfigError as error:
        raise SettingsError(str(error)) from error
    except (FormatError, OSError) as error:
        raise ClusterError(str(error)) from error
    warn(warnings)

    def launch(bound: socket.socket) -> LocalNode[BrokerProcess]:
        closing = ExitStack()

        def build(log: Callable[[Log], None]) -> BrokerProcess:
            folders = BrokerFolders(config, fsync=fsync)
            closing.callback(folders.close)
            return BrokerProcess(
                config,
                folders,
                Clock(),
                log,
                connections_max=INT_MAX,
                faults=script,
                ends_unregistered=True,
            )

        return LocalNode(f"broker {node_id}", LISTENER, bound, build, closing.close)

    return launch
