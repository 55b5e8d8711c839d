"""The first log line of a controller, and what is said when its folder is not formatted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from emulator.config.listeners import METRICS_PORT, USUAL, HostPort, Listener, url_of
from emulator.config.load import Config
from emulator.seam import Log


def of_controller(config: Config, cluster_id: str, file: Path | None) -> Log:
    """What runs here: all that an operator compares with what was meant.

    Args:
        config: of the node.
        cluster_id: in its folder.
        file: its properties; None: they are from elsewhere.
    """
    folders = dict.fromkeys(filter(None, (config.log_dir, config.trace_dir)))
    fields: dict[str, object] = {
        "version": metadata.version("kraft-bridge"),
        "file": "" if file is None else str(file.absolute()),
        "folders": ",".join(str(Path(one).absolute()) for one in folders),
        "cluster_id": cluster_id,
        "listeners": _shown(config.listeners),
        "voters": ",".join(f"{number}@{at}" for number, at in config.voters.items()),
        "zookeeper": _zookeeper(config),
        "status": _status(config),
    }
    return Log("info", "kraft-bridge controller", fields)


def format_command(config: Config, file: Path | None) -> str:
    """How a controller's folder is formatted, to be typed."""
    named = "FILE" if file is None else shlex.quote(str(file))
    # In a migration both are read from the cluster.
    given = "" if config.migration_enabled else " -t CLUSTER_ID"
    several = " (--new-quorum as well if none of its voters has ever run)"
    more = several if len(config.voters) > 1 else ""
    return f"run kraft-bridge format -c {named}{given} first{more}"


def _shown(listeners: Iterable[Listener]) -> str:
    return ",".join(f"{one.name}://{HostPort(one.host, one.port)}" for one in listeners)


def _zookeeper(config: Config) -> str:
    if not config.migration_enabled:
        return "none, as the migration is off"
    return ",".join(map(str, config.zookeeper_servers)) + config.zookeeper_chroot


def _status(config: Config) -> str:
    """Where ``/status`` will be, as far as that is known before the port is bound."""
    if config.metrics_port is None:
        return f"{url_of(USUAL.host, USUAL.port)}/status, or the free port that a line below names"
    if config.metrics_port < 0:
        return f"none: {METRICS_PORT} is -1"
    if config.metrics_port == 0:
        return "at a free port, which a line below names"
    return url_of(config.controller_listener.host, config.metrics_port) + "/status"
