"""The controllers of a cluster: their properties and their folders."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from emulator.config.java_text import INT_MAX
from emulator.config.listeners import METRICS_PORT
from emulator.config.load import Config, ConfigError, load
from emulator.io.clock import Clock
from emulator.io.disk import Disk
from emulator.io.formatting import (
    FormatError,
    WrongFormatError,
    check_same,
    format_folder,
    new_cluster_id,
)
from emulator.io.process import NodeProcess
from emulator.net.faults.script import FaultScript
from emulator.seam import Log
from emulator.testing.local_node import (
    HOST,
    ClusterError,
    LocalNode,
    SettingsError,
    checked_properties,
    warn,
)

CONTROLLER_ID: Final = 3000
"""Of the first controller; the others follow."""
CONTROLLER_LISTENER: Final = "CONTROLLER"
OWN_PROPERTIES: Final = frozenset(
    "process.roles node.id controller.quorum.voters controller.listener.names listeners "
    "advertised.listeners metadata.log.dir log.dirs log.dir kraftbridge.release".split()
)
"""Set by the cluster; a test cannot give them."""


def voters(ports: Mapping[int, int]) -> str:
    """``controller.quorum.voters`` of controllers on this machine, by their ids."""
    return ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in ports.items())


def configured_controller(
    node_id: int,
    ports: Mapping[int, int],
    folder: Path,
    release: str,
    properties: Mapping[str, str],
) -> Config:
    """The configuration of one controller; what it warns of is logged.

    Args:
        node_id: of the controller.
        ports: of all controllers, by their ids.
        folder: for its files.
        release: see :class:`emulator.testing.Cluster`.
        properties: more properties.

    Raises:
        SettingsError: a property is wrong.
    """
    given = checked_properties(properties, OWN_PROPERTIES)
    try:
        config, warnings = load(
            {
                "listener.security.protocol.map": f"{CONTROLLER_LISTENER}:PLAINTEXT",
                METRICS_PORT: "-1",
                **given,
                "process.roles": "controller",
                "node.id": str(node_id),
                "controller.quorum.voters": voters(ports),
                "controller.listener.names": CONTROLLER_LISTENER,
                "listeners": f"{CONTROLLER_LISTENER}://{HOST}:{ports[node_id]}",
                "log.dirs": str(folder),
                "kraftbridge.release": release,
            }
        )
    except ConfigError as error:
        raise SettingsError(str(error)) from error
    warn(warnings)
    return config


def format_controllers(configs: Sequence[Config], metadata_version: str | None) -> str:
    """Format the folders of all controllers, or go on with those of an earlier cluster.

    Args:
        configs: of all controllers.
        metadata_version: the first one.

    Returns:
        The id of the cluster.

    Raises:
        ClusterError: the folders cannot be used, or are those of another number of controllers.
    """
    try:
        found = [check_same(one, None, None) for one in configs]
        ids = {one for one in found if one is not None}
        if len(ids) > 1 or (ids and None in found):
            raise ClusterError("the folder is that of a cluster with another number of controllers")
        cluster_id = ids.pop() if ids else new_cluster_id()
        for config in configs:
            format_folder(
                config,
                cluster_id,
                metadata_version,
                ignore_formatted=True,
                new_quorum=None in found,
            )
    except WrongFormatError as error:
        raise SettingsError(str(error)) from error
    except (FormatError, OSError) as error:
        raise ClusterError(str(error)) from error
    return cluster_id


def launcher(
    config: Config, script: FaultScript, *, fsync: bool
) -> Callable[[socket.socket], LocalNode[NodeProcess]]:
    """What runs a controller in its folder, on a socket.

    Args:
        config: of the controller.
        script: faults that strike its requests.
        fsync: whether its log is made durable.
    """
    name = f"controller {config.node_id}"

    def build(log: Callable[[Log], None]) -> NodeProcess:
        disk = Disk(Path(config.log_dir), fsync=fsync)
        try:
            return NodeProcess(config, disk, Clock(), log, connections_max=INT_MAX, faults=script)
        except BaseException:
            disk.close()
            raise

    return lambda bound: LocalNode(name, CONTROLLER_LISTENER, bound, build)
