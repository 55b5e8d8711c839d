"""Sending a node's token: to this machine alone, through no proxy, and to no other address.

Whoever has the token of a folder may change the cluster. The token is sent in plain text, so it
must not leave the machine, whatever ``--url`` names or a server there answers (see
:mod:`emulator.commands.asking`).
"""

from __future__ import annotations

import ipaddress
import urllib.parse

from emulator.commands.status import AddressError, check_address


def check_local(url: str) -> None:
    """Check that an address is of this machine.

    Raises:
        AddressError: not an http address, or one of elsewhere.

    >>> check_local("http://localhost:9404")
    """
    check_address(url)
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise AddressError(
            f"{host} is not this machine, and the token is not sent elsewhere: run the command on "
            "the machine of the controller, with 127.0.0.1 or localhost"
        )
