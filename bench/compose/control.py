"""The volume that all containers of a migration mount, and what they tell each other there.

Its folder ``control`` says in which mode each server must run: a step writes it, the container of
the server reads it. Beside it each server has a folder of its own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bench.compose.plan import BROKERS, ServerMode, broker_name

STATE: Final = "KRAFT_BRIDGE_STATE"
TRACE: Final = "KRAFT_BRIDGE_TRACE"
_STATE: Final = "/var/lib/kraft-bridge"
_TRACE: Final = "/var/lib/kraft-bridge-trace"


def volume() -> Path:
    """The volume with the folders of all servers."""
    return Path(os.environ.get(STATE, _STATE))


def trace() -> Path:
    """The folder of this migration's trace, in a volume of its own."""
    return Path(os.environ.get(TRACE, _TRACE)) / "trace"


def folder(name: str) -> Path:
    """The folder of one server."""
    return volume() / name


def properties_file(name: str) -> Path:
    """The ``server.properties`` that a server was last started with."""
    return volume() / "control" / f"{name}.properties"


def initial_mode(name: str) -> ServerMode:
    """How a server runs before any step: brokers in ZooKeeper mode, controllers not at all."""
    brokers = {broker_name(each) for each in BROKERS}
    return ServerMode.ZOOKEEPER if name in brokers else ServerMode.STOPPED


def wanted_mode(name: str) -> ServerMode:
    """How a server is to run."""
    return _read(f"{name}.wanted", initial_mode(name))


def started_mode(name: str) -> ServerMode:
    """How a server was last started; stopped before its first start, and after its end."""
    return _read(f"{name}.running", ServerMode.STOPPED)


def ended(name: str) -> str:
    """Why a server ended by itself, since its container started; empty if it did not."""
    file = volume() / "control" / f"{name}.ended"
    return file.read_text().strip() if file.exists() else ""


def request_mode(name: str, how: ServerMode) -> None:
    """Ask for a restart, or an end."""
    write(f"{name}.wanted", how)


def attempt() -> int:
    """Number of the migration: 1 for the first."""
    file = volume() / "control" / "attempt"
    return int(file.read_text()) if file.exists() else 1


def write(file: str, text: object) -> None:
    """Write a file of the control folder in one piece."""
    home = volume() / "control"
    home.mkdir(parents=True, exist_ok=True)
    new = home / f".{file}.{os.getpid()}"
    new.write_text(f"{text}\n")
    new.replace(home / file)


def _read(file: str, otherwise: ServerMode) -> ServerMode:
    path = volume() / "control" / file
    return ServerMode(path.read_text().strip()) if path.exists() else otherwise
