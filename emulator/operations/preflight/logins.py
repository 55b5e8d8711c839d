"""Whether a node's login is one that the other's listener takes: users of PLAIN, certificates.

Only what two files show: a JAAS file of the JVM, a handler of the operator's and a store are not
read. No password is in a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from emulator.config import jaas
from emulator.operations.preflight.endpoints import Problem
from emulator.operations.preflight.node_file import Properties

_CERTIFICATES: Final = ("ssl.keystore.location", "ssl.keystore.key", "ssl.engine.factory.class")
_HANDLERS: Final = ("sasl.server.callback.handler.class", "sasl.client.callback.handler.class")


def refusals(
    one: Properties, mine: str, other: Properties, theirs: str, mechanism: str
) -> Iterator[Problem]:
    """Why a listener does not take a node.

    Args:
        one: the node that connects.
        mine: the listener's name in its file.
        other: the node that has the listener.
        theirs: the listener's name there.
        mechanism: of SASL, by which it logs in.
    """
    protocol = other.protocols.get(theirs, "")
    if protocol == "SSL":
        yield from _certificate(one, mine, other, theirs)
    if protocol.startswith("SASL_") and mechanism == "PLAIN":
        yield from _plain(one, mine, other, theirs)


def _certificate(one: Properties, mine: str, other: Properties, theirs: str) -> Iterator[Problem]:
    if _of_listener(other, theirs, "ssl.client.auth").lower() != "required":
        return
    if any(_of_listener(one, mine, key) for key in _CERTIFICATES):
        return
    yield Problem(
        _CERTIFICATES[0],
        f"not set; {theirs} of {other.name} has ssl.client.auth=required",
        "set the keystore with the node's certificate",
    )


def _plain(one: Properties, mine: str, other: Properties, theirs: str) -> Iterator[Problem]:
    own, known = _options(one, mine), _options(other, theirs)
    name = own.get("username")
    if name is None or not known:
        return
    key = f"listener.name.{mine.lower()}.plain.sasl.jaas.config"
    password = known.get(f"user_{name}")
    if password is None:
        yield Problem(
            key,
            f"logs in as {name}, and {theirs} of {other.name} knows no such user",
            f"add user_{name} to the login module of {theirs} on {other.name}",
        )
    elif password != own.get("password"):
        yield Problem(
            key,
            f"logs in as {name} with another password than {theirs} of {other.name} has for it",
            "write the same password on both",
        )


def _options(one: Properties, listener: str) -> Mapping[str, str]:
    """Options of the login module of PLAIN; none if they are not known."""
    key = "plain.sasl.jaas.config"
    prefixed = f"listener.name.{listener.lower()}.{key}"
    key = prefixed if one.get(prefixed) else key
    text = one.get(key)
    handlers = [_of_listener(one, listener, f"{x}{y}") for x in ("", "plain.") for y in _HANDLERS]
    if "PlainLoginModule" not in text or one.provides(key) or any(handlers):
        return {}
    try:
        return jaas.one_module(text).options
    except ValueError:
        return {}


def _of_listener(one: Properties, listener: str, key: str) -> str:
    return one.get(f"listener.name.{listener.lower()}.{key}") or one.get(key)
