"""Free TCP ports on the loopback address."""

import fcntl
import functools
import os
import random
import socket
from contextlib import ExitStack

from emulator.servers.own_folder import own_folder

HOST = "127.0.0.1"

# Below Linux's and macOS's ephemeral range: no outgoing connection takes one between our look
# and the server's bind, which is when ports handed out by bind(0) get lost.
_RANGE = range(20_000, 32_000)
_given: set[int] = set()
_share = slice(None)


def take_share(number: int, of: int) -> None:
    """Hand out every ``of``-th port only, from now on: the others are another process's.

    A port looks free until the server that it was given to has started.

    Args:
        number: of this process, below ``of``.
        of: how many processes start servers at the same time.
    """
    global _share  # noqa: PLW0603 - one for the process, as are the ports it gave
    _share = slice(number, None, of)


@functools.cache
def _claims(_process: int) -> int | None:
    """A file of this user whose byte N is locked by the process that was given port N.

    A port looks free before its server has started, and while a broker that was killed is down.
    The locks are the process's own, also after a fork, and end with it. None: no file can be made.
    """
    folder = own_folder()
    if folder is None:
        return None
    try:
        return os.open(folder / "ports", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _claim(port: int) -> bool:
    file = _claims(os.getpid())
    if file is None:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Distinct ports that were free a moment ago and were not handed out before.

    Neither by this process, nor by another one of this user that still runs.

    Raises:
        OSError: so many ports are not free.
    """
    chooser = random.SystemRandom()
    ports: list[int] = []
    with ExitStack() as held:
        mine = _RANGE[_share]
        for port in chooser.sample(mine, len(mine)):
            if len(ports) == count:
                break
            if port in _given:
                continue
            probe = held.enter_context(socket.socket())
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            if _claim(port):
                ports.append(port)
    if len(ports) < count:
        raise OSError(f"{count} free ports on {HOST} wanted, {len(ports)} found")
    _given.update(ports)
    return ports


def free_port() -> int:
    """One port, as `free_ports`."""
    return free_ports(1)[0]


def is_open(port: int) -> bool:
    """Whether something accepts connections there."""
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True
