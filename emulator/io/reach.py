"""Whether a server listens at an address: found out at once, as clients try for long."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from emulator.config.listeners import HostPort

PATIENCE_S: Final = 5.0
"""How long all addresses together are tried."""
Tried: TypeAlias = Callable[[HostPort, float], str]
"""Why an address is not what is looked for, found out in so many seconds; empty if it is."""


def why_unreachable(addresses: Sequence[HostPort], patience_s: float = PATIENCE_S) -> str:
    """Why no connection can be opened to any of the addresses; empty if one was.

    >>> why_unreachable([HostPort("127.0.0.1", 1)])
    '127.0.0.1:1: Connection refused'
    """
    return none_of(addresses, _connect, patience_s)


def none_of(addresses: Sequence[HostPort], tried: Tried, patience_s: float) -> str:
    """Why none of the addresses is what is looked for; empty if one is.

    All are tried at once. A name that is not answered for in time is one that cannot be reached.
    """
    answers: queue.SimpleQueue[tuple[HostPort, str]] = queue.SimpleQueue()
    deadline = time.monotonic() + patience_s
    for one in addresses:
        # Not a pool: a thread that still looks up a name is not waited for.
        arguments = (tried, one, patience_s, answers)
        threading.Thread(target=_try, args=arguments, name="reach", daemon=True).start()
    whys = dict.fromkeys(addresses, f"no answer within {patience_s:g} s")
    for _ in whys:
        try:
            one, why = answers.get(timeout=max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            break
        if not why:
            return ""
        whys[one] = why
    return "; ".join(f"{one}: {why}" for one, why in whys.items())


def _try(
    tried: Tried,
    one: HostPort,
    patience_s: float,
    answers: queue.SimpleQueue[tuple[HostPort, str]],
) -> None:
    try:
        answers.put((one, tried(one, patience_s)))
    except TimeoutError:
        answers.put((one, f"no answer within {patience_s:g} s"))
    except socket.gaierror as error:
        answers.put((one, f"the name {one.host} does not resolve: {error.strerror}"))
    except OSError as error:
        answers.put((one, error.strerror or str(error)))
    except (UnicodeError, OverflowError, ValueError):
        answers.put((one, f"{one.host!r} is no name of a host"))


def _connect(one: HostPort, patience_s: float) -> str:
    socket.create_connection((one.host, one.port), patience_s).close()
    return ""
