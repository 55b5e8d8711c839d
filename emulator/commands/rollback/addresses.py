"""A controller's address: whether somebody listens there, and whether it is of this machine."""

from __future__ import annotations

import errno
import ipaddress
import socket
from pathlib import Path
from typing import Any, Final

from emulator.config.listeners import HostPort
from emulator.operations.rollback.situation import Reached

CONNECT_S: Final = 1.0
_NONLOCAL: Final = {
    socket.AF_INET: Path("/proc/sys/net/ipv4/ip_nonlocal_bind"),
    socket.AF_INET6: Path("/proc/sys/net/ipv6/ip_nonlocal_bind"),
}
"""Whether sockets can be bound to addresses of other machines, too: 0 if not."""


def ask(address: HostPort | None) -> tuple[Reached, str]:
    """What comes of connecting to a controller's address, and a sentence about it."""
    if address is None:
        return Reached.NO_ADDRESS, "no file says where it listens"
    try:
        with socket.create_connection((address.host, address.port), CONNECT_S):
            return Reached.YES, f"{address} accepts connections"
    except TimeoutError:
        return Reached.NONE, f"{address}: no answer within {CONNECT_S:g} s"
    except socket.gaierror as error:
        return Reached.NONE, f"the name {address.host} does not resolve: {error.strerror}"
    except OSError as error:
        refused = error.errno == errno.ECONNREFUSED
        return Reached.REFUSED if refused else Reached.NONE, f"{address}: {error.strerror or error}"
    except (UnicodeError, ValueError, OverflowError):
        return Reached.NONE, f"{address.host!r} is no name of a host"


def is_here(address: HostPort) -> bool:
    """Whether an address is of this machine, whatever its name resolves to; False if not known."""
    try:
        found = {
            (family, where)
            for family, _, _, _, where in socket.getaddrinfo(
                address.host, 0, type=socket.SOCK_DGRAM
            )
        }
        return bool(found) and all(_bound(family, where) for family, where in found)
    except (OSError, UnicodeError, ValueError):
        return False


def _bound(family: socket.AddressFamily, where: tuple[Any, ...]) -> bool:
    """Whether an address is that of an interface of this machine.

    Raises:
        OSError: it is not.
    """
    address = ipaddress.ip_address(where[0].partition("%")[0])
    if address.is_loopback or address.is_unspecified:
        return not address.is_unspecified  # which every machine has
    if _NONLOCAL[family].read_text().strip() != "0":
        return False
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.bind(where)
    return True


def elsewhere(address: HostPort | None) -> str:
    """Why a folder is not known to be the one of the controller at an address."""
    return "no file names an address" if address is None else f"{address} is not of this machine"
