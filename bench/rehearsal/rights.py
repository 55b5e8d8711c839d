"""The access rules of production's ZooKeeper, for a copy in which the logins are made up: pure.

Whom most rules let write or create is taken for the login of the brokers. Here they have a digest
instead, and the controllers another one for the logins of their files; nobody has any other one.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bench.rehearsal.znodes import LoadedZnode
from emulator.config.zookeeper import identity

LOGIN: Final = "production:made-up"
"""User and password of the brokers' login."""
CONTROLLERS_LOGIN: Final = "controllers:made-up"
_NOBODY: Final = "another:made-up"
_ALL: Final = 31
_CHANGE: Final = 2 | 4
"""Permissions to write and to create below."""
_WORLD: Final = "world"


def owner(document: Mapping[str, Any], identities: Collection[str] = ()) -> str:
    """Whom most rules let write or create, as ``scheme:user``; empty: they name nobody for it.

    A session may have two logins, and then Kafka names both everywhere.

    Args:
        document: a dump.
        identities: of the controllers, one of which is taken of several with as many rules.
    """
    found = Counter(
        identity(str(scheme), str(name))
        for entry in document["nodes"].values()
        for perms, scheme, name in entry.get("acl", ())
        if scheme != _WORLD and int(perms) & _CHANGE
    )
    return max(found, key=lambda one: (found[one], one in identities), default="")


def restricted(
    nodes: Sequence[LoadedZnode],
    document: Mapping[str, Any],
    owned_by: str,
    identities: Collection[str] = (),
) -> list[LoadedZnode]:
    """The znodes with the rules that a dump has.

    Args:
        nodes: without rules.
        document: the dump.
        owned_by: of :func:`owner`.
        identities: of the controllers.
    """
    logins = {one: [CONTROLLERS_LOGIN] for one in identities}
    logins[owned_by] = [LOGIN, *logins.get(owned_by, ())]
    return [
        replace(one, acl=_here(document["nodes"][one.path].get("acl", ()), logins)) for one in nodes
    ]


def _here(
    rules: Sequence[Sequence[Any]], logins: Mapping[str, Sequence[str]]
) -> tuple[tuple[int, str, str], ...]:
    """The rules of one znode; none if everybody may do all."""
    if not rules or any(perms == _ALL and scheme == _WORLD for perms, scheme, _ in rules):
        return ()
    found: list[tuple[int, str, str]] = []
    for perms, scheme, name in rules:
        if scheme == _WORLD:
            found.append((int(perms), _WORLD, str(name)))
        else:
            here = logins.get(identity(str(scheme), str(name)), [_NOBODY])
            found += [(int(perms), "digest", _digest(one)) for one in here]
    return tuple(found)


def _digest(login: str) -> str:
    """As ZooKeeper's DigestAuthenticationProvider writes a login into a rule.

    >>> _digest("super:secret")
    'super:lK75jTNcA+U9vtVEw5vB51mj/w4='
    """
    secret = base64.b64encode(hashlib.sha1(login.encode()).digest()).decode()  # noqa: S324 - ZooKeeper's own form
    return f"{login.partition(':')[0]}:{secret}"
