"""A ZooKeeper that is there already: each row gets a chroot of its own in it.

That ZooKeeper is neither fresh nor known to be idle, its processes cannot be measured, and the
bench injects no faults or delays into it. So rows on it show less than rows on a server of the
bench. Chroots that a killed bench has left in it are removed (``leftovers``).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from bench.runs import leftovers
from bench.runs.scenario import Case
from bench.runs.zookeepers import Servers
from emulator.servers.seeded import connected, warm

_CONNECT_S = 10.0
_IN_USE: set[str] = set()
_REPORTED: set[str] = set()


class ZooKeeperUnreachableError(OSError):
    """No ZooKeeper answers at that address, or it refuses the connection."""


class Borrowed(Servers):
    """See the module's docstring. ``hosts`` has the chroot."""

    def __init__(self, hosts: str) -> None:
        super().__init__([], None)
        self.direct = self.hosts = hosts

    def transactions(self) -> None:
        """Others write there too."""

    def znodes(self) -> None:
        """Others write there too."""


def problem(case: Case) -> str | None:
    """Why a case cannot be run on a borrowed ZooKeeper; None if it can."""
    for key in ("latency_ms", "freeze_s", "kill_leader", "fsync_ms"):
        if getattr(case, key):
            return f"case {case.name}: {key} needs a ZooKeeper of the bench, without --zookeeper"
    if case.servers > 1:
        return f"case {case.name}: servers needs a ZooKeeper of the bench, without --zookeeper"
    return None


def check(hosts: str, print_line: Callable[[str], None]) -> None:
    """Check that a ZooKeeper answers, and remove what a killed bench has left in it.

    Args:
        hosts: without a chroot.
        print_line: takes a line for each chroot that is removed, or that an operator may have to
            remove.

    Raises:
        ZooKeeperUnreachableError: it does not.
    """
    try:
        client = KazooClient(hosts=hosts, timeout=10)
    except ValueError as error:
        raise ZooKeeperUnreachableError(str(error)) from error
    try:
        client.start(_CONNECT_S)
        leftovers.remove(client, _IN_USE, _REPORTED, print_line)
    except (KazooException, KazooTimeoutError, OSError, ValueError) as error:
        raise ZooKeeperUnreachableError(str(error) or type(error).__name__) from error
    finally:
        client.stop()
        client.close()


@contextlib.contextmanager
def borrowed(hosts: str, run_id: str, print_line: Callable[[str], None]) -> Iterator[Borrowed]:
    """Make a chroot for a row, and remove it afterwards."""
    chroot = f"/{leftovers.NAME}{run_id}-{secrets.token_hex(4)}"
    with connected(hosts) as client:
        leftovers.remove(client, _IN_USE, _REPORTED, print_line)
        _IN_USE.add(chroot)
        client.create(chroot, leftovers.data(leftovers.this_process()))
        try:
            with connected(f"{hosts}{chroot}") as inside:
                warm(inside)
            yield Borrowed(f"{hosts}{chroot}")
        finally:
            _IN_USE.discard(chroot)
            # A client without a connection would wait for one, for ever.
            if client.connected:
                client.delete(chroot, recursive=True)
