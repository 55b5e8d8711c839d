"""Free TCP ports on the loopback address."""

import random
import socket
from contextlib import ExitStack

HOST = "127.0.0.1"

# Below Linux's and macOS's ephemeral range: no outgoing connection takes one between our look
# and the server's bind, which is when ports handed out by bind(0) get lost.
_RANGE = range(20_000, 32_000)
_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Distinct ports that were free a moment ago and were not handed out before by this process.

    Raises:
        OSError: so many ports are not free.
    """
    chooser = random.SystemRandom()
    ports: list[int] = []
    with ExitStack() as held:
        for port in chooser.sample(_RANGE, len(_RANGE)):
            if len(ports) == count:
                break
            if port in _given:
                continue
            probe = held.enter_context(socket.socket())
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
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
