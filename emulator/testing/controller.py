"""The controller of a cluster: its properties and its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from emulator.config.java_text import INT_MAX
from emulator.config.listeners import METRICS_PORT
from emulator.config.load import ConfigError, load
from emulator.io.clock import Clock
from emulator.io.disk import Disk
from emulator.io.formatting import FormatError, format_folder, new_cluster_id
from emulator.io.process import NodeProcess
from emulator.net.faults.script import FaultScript
from emulator.seam import Log
from emulator.testing.local_node import (
    HOST,
    ClusterError,
    LocalNode,
    bound_socket,
    checked_properties,
    warn,
)

CONTROLLER_ID: Final = 3000
CONTROLLER_LISTENER: Final = "CONTROLLER"
OWN_PROPERTIES: Final = frozenset(
    "process.roles node.id controller.quorum.voters controller.listener.names listeners "
    "advertised.listeners metadata.log.dir log.dirs log.dir kraftbridge.release".split()
)
"""Set by the cluster; a test cannot give them."""


def start_controller(
    folder: Path,
    script: FaultScript,
    *,
    release: str,
    metadata_version: str | None,
    fsync: bool,
    properties: Mapping[str, str],
) -> LocalNode[NodeProcess]:
    """Format a folder, if it is not, and run a controller in it.

    Args:
        folder: for its files.
        script: faults that strike its requests.
        release: see :class:`emulator.testing.Cluster`, as for the others.
        metadata_version: the first one.
        fsync: whether its log is made durable.
        properties: more properties.

    Raises:
        ClusterError: a property is wrong, or the folder cannot be used.
    """
    given = checked_properties(properties, OWN_PROPERTIES)
    name = f"controller {CONTROLLER_ID}"
    bound = bound_socket()
    port = bound.getsockname()[1]
    try:
        config, warnings = load(
            {
                "listener.security.protocol.map": f"{CONTROLLER_LISTENER}:PLAINTEXT",
                METRICS_PORT: "-1",
                **given,
                "process.roles": "controller",
                "node.id": str(CONTROLLER_ID),
                "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{port}",
                "controller.listener.names": CONTROLLER_LISTENER,
                "listeners": f"{CONTROLLER_LISTENER}://{HOST}:{port}",
                "log.dirs": str(folder),
                "kraftbridge.release": release,
            }
        )
        format_folder(config, new_cluster_id(), metadata_version, ignore_formatted=True)
    except (ConfigError, FormatError, OSError) as error:
        bound.close()
        raise ClusterError(str(error)) from error
    except BaseException:
        bound.close()
        raise
    warn(warnings)

    def build(log: Callable[[Log], None]) -> NodeProcess:
        disk = Disk(folder, fsync=fsync)
        try:
            return NodeProcess(config, disk, Clock(), log, connections_max=INT_MAX, faults=script)
        except BaseException:
            disk.close()
            raise

    return LocalNode(name, CONTROLLER_LISTENER, bound, build)
