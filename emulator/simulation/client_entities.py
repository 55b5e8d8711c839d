"""What ZooKeeper should hold of client quotas and SCRAM credentials, implemented again.

As ``tree_check``, of which it is a part, it shares nothing with the product but Kafka's formats.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from emulator.simulation.facts import Facts

ROOTS: Final = ("/config/users/", "/config/clients/", "/config/ips/")
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
Meaning = tuple[Any, ...]


def covered(path: str) -> bool:
    """Whether a path is an entity's."""
    parts = path.split("/")
    return path.startswith(ROOTS) and (
        len(parts) == 4 or (len(parts) == 6 and parts[4] == "clients")
    )


def expected(facts: Facts) -> dict[str, Meaning]:
    """Every entity that has something, by path."""
    found: dict[str, dict[str, object]] = {}
    for entity, limits in facts.client_quotas.items():
        config = found.setdefault(_path(entity), {})
        config.update(limits.items())
    for (name, mechanism), one in facts.scram.items():
        config = found.setdefault(_path([("user", name)]), {})
        config[MECHANISMS[mechanism]] = (
            one.salt,
            one.stored_key,
            one.server_key,
            one.iterations,
        )
    return {path: _meaning(config) for path, config in found.items()}


def meaning(data: bytes | None) -> Meaning:
    """What a broker understands of an entity's znode.

    Raises:
        ValueError, KeyError, TypeError: malformed.
    """
    config = json.loads(data)["config"] if data else {}
    return _meaning(
        {key: _scram(text) if "SCRAM" in key else float(text) for key, text in config.items()}
    )


def _meaning(config: dict[str, object]) -> Meaning:
    return tuple(sorted(config.items()))


def _scram(text: str) -> tuple[bytes, bytes, bytes, int]:
    found = dict(part.split("=", 1) for part in text.split(","))
    salt, stored, server = (
        base64.b64decode(found[k]) for k in ("salt", "stored_key", "server_key")
    )
    return salt, stored, server, int(found["iterations"])


def _quoted(name: str) -> str:
    """A name as a part of a path; dots alone would be a path's own."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def _path(entity: Iterable[tuple[str, str | None]]) -> str:
    names = {kind: "<default>" if name is None else _quoted(name) for kind, name in entity}
    match names:
        case {"user": user, "client-id": client}:
            return f"/config/users/{user}/clients/{client}"
        case {"user": user}:
            return f"/config/users/{user}"
        case {"client-id": client}:
            return f"/config/clients/{client}"
        case _:
            return f"/config/ips/{names['ip']}"
