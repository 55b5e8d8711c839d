"""What a bench that was killed has left in a ZooKeeper that is not its own.

Each row works in a chroot of its own, whose data names the process that made it. A chroot is
removed when that process is certain to be over: another process cannot have the same host, boot,
namespace of process ids, process id and start. Of any other chroot, such as one made from another
machine, only the name is printed.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from kazoo.exceptions import NoAuthError, NoNodeError, NotEmptyError

NAME: Final = "kraft-bridge-bench-"
"""What the names of all chroots of the bench begin with."""


class Maker(msgspec.Struct, frozen=True):
    """The process that made a chroot. ``began``: its start, in clock ticks since the boot."""

    host: str
    boot: str
    namespace: str
    pid: int
    began: int


class Client(Protocol):
    """The part of a ZooKeeper client that is used."""

    def get_children(self, path: str) -> list[str]:
        """Names of the children."""

    def get(self, path: str) -> tuple[bytes | None, Any]:
        """Data and stat."""

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> Any:
        """Remove a znode, ``recursive``: with everything below it."""


def this_process() -> Maker:
    """The process that runs; where there is no /proc, without boot, and so never certain."""
    boot = namespace = ""
    with contextlib.suppress(OSError):
        namespace = str(Path("/proc/self/ns/pid").readlink())
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Maker(
        host=socket.gethostname(),
        boot=boot,
        namespace=namespace,
        pid=os.getpid(),
        began=_began(os.getpid()) or 0,
    )


def data(maker: Maker) -> bytes:
    """The data of a chroot that this process makes."""
    return msgspec.json.encode(maker)


def is_over(maker: Maker, here: Maker) -> bool:
    """Whether it is certain that a process has ended; False: it runs, or cannot be seen from here.

    Args:
        maker: the process.
        here: the process that asks.
    """
    places = [(one.host, one.boot, one.namespace) for one in (maker, here)]
    if not here.boot or places[0] != places[1]:
        return False
    began = _began(maker.pid)
    return _is_gone(maker.pid) if began is None else began != maker.began


def remove(
    client: Client, in_use: set[str], reported: set[str], print_line: Callable[[str], None]
) -> None:
    """Remove chroots whose process has ended; print the names of those where this is not known.

    Args:
        client: at the root of ZooKeeper.
        in_use: paths of the chroots in which this process works now.
        reported: paths that were printed already; grows.
        print_line: takes one line for each path.
    """
    here = this_process()
    for name in sorted(client.get_children("/")):
        path = f"/{name}"
        if not name.startswith(NAME) or path in in_use:
            continue
        try:
            maker = _maker(client.get(path)[0])
        except NoNodeError:
            continue  # a bench that runs has removed it just now
        except NoAuthError:
            maker = None
        if maker is not None and (maker == here or is_over(maker, here)):
            _remove(client, path, maker, print_line)
        elif path not in reported and (maker is None or not _runs(maker, here)):
            reported.add(path)
            by = "unknown" if maker is None else f"process {maker.pid} on {maker.host}"
            print_line(
                f"{path} is there, made by a bench ({by}) that cannot be seen from here: if it has "
                f"ended, remove it, for example by zkCli's 'deleteall {path}'"
            )


def _remove(client: Client, path: str, maker: Maker, print_line: Callable[[str], None]) -> None:
    try:
        client.delete(path, recursive=True)
    except NotEmptyError:
        print_line(
            f"{path}, left by process {maker.pid}, is still written: it is removed next time"
        )
    except NoAuthError:
        print_line(f"{path}, left by process {maker.pid}, may not be removed by this client")
    else:
        print_line(f"{path} removed: process {maker.pid}, which made it, has left it behind")


def _runs(maker: Maker, here: Maker) -> bool:
    """Whether the process that made a chroot is seen to run."""
    same = (maker.host, maker.boot, maker.namespace) == (here.host, here.boot, here.namespace)
    return same and _began(maker.pid) == maker.began


def _maker(value: bytes | None) -> Maker | None:
    try:
        return msgspec.json.decode(value or b"", type=Maker)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_gone(pid: int) -> bool:
    """Whether there is certainly no such process; /proc may hide those of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _began(pid: int) -> int | None:
    """When a process was started, in clock ticks since the boot; None: none is seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, ValueError):
        return None
    # The second field is a name in brackets, which may have blanks and brackets itself.
    return int(stat.rpartition(")")[2].split()[19])
