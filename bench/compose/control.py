"""The folder that the containers of a migration share: a step writes there how servers must run.

Each server has a folder of its own beside it, in the volume that all containers mount.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bench.compose.plan import BROKERS, Wanted, broker_name

STATE: Final = "KRAFT_BRIDGE_STATE"
TRACE: Final = "KRAFT_BRIDGE_TRACE"
_STATE: Final = "/var/lib/kraft-bridge"
_TRACE: Final = "/var/lib/kraft-bridge-trace"


def state() -> Path:
    """The volume with the folders of all servers."""
    return Path(os.environ.get(STATE, _STATE))


def trace() -> Path:
    """Of the migration that is under way, in a volume of its own."""
    return Path(os.environ.get(TRACE, _TRACE)) / "trace"


def folder(name: str) -> Path:
    """Of one server."""
    return state() / name


def properties_file(name: str) -> Path:
    """The ``server.properties`` that a server was last started with."""
    return state() / "control" / f"{name}.properties"


def first(name: str) -> Wanted:
    """How a server runs before any step: brokers in ZooKeeper mode, controllers not at all."""
    brokers = {broker_name(each) for each in BROKERS}
    return Wanted.ZOOKEEPER if name in brokers else Wanted.STOPPED


def wanted(name: str) -> Wanted:
    """How a server is to run."""
    return _read(f"{name}.wanted", first(name))


def running(name: str) -> Wanted:
    """How a server was last started; stopped before its first start, and after its end."""
    return _read(f"{name}.running", Wanted.STOPPED)


def ended(name: str) -> str:
    """Why a server ended by itself, since its container started; empty if it did not."""
    file = state() / "control" / f"{name}.ended"
    return file.read_text().strip() if file.exists() else ""


def want(name: str, how: Wanted) -> None:
    """Ask for a restart, or an end."""
    write(f"{name}.wanted", how)


def attempt() -> int:
    """Number of the migration: 1 for the first."""
    file = state() / "control" / "attempt"
    return int(file.read_text()) if file.exists() else 1


def write(file: str, text: object) -> None:
    """Write a file of the control folder in one piece."""
    home = state() / "control"
    home.mkdir(parents=True, exist_ok=True)
    new = home / f".{file}.{os.getpid()}"
    new.write_text(f"{text}\n")
    new.replace(home / file)


def _read(file: str, otherwise: Wanted) -> Wanted:
    path = state() / "control" / file
    return Wanted(path.read_text().strip()) if path.exists() else otherwise
