"""Takes secrets out of a dump before it is loaded, and puts made-up ones where there must be one.

A SCRAM credential becomes a well-formed one that nobody has. A password in the config of a broker
cannot be made up, as it would be encoded by production's secret: its key gets another name, so that
nothing tries to decode it. Data that is not of Kafka's form stays so.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from emulator.servers.zk_dump import REDACTED, contents, redact

_USERS: Final = "/config/users/"
LEFT_OUT: Final = ".left.out"
"""Behind the key of a password."""


def left_out(document: Mapping[str, Any]) -> dict[str, Any]:
    """A dump whose secrets are replaced."""
    nodes: dict[str, Any] = {}
    for path, data in contents(document).items():
        entry = document["nodes"][path]
        clean = without_secrets(path, data)
        if clean is not None and clean != data:
            kept = {key: one for key, one in entry.items() if key not in {"text", "b64"}}
            entry = {**kept, "text": clean.decode(errors="replace")}
        nodes[path] = entry
    return {**document, "nodes": nodes}


def lacking(document: Mapping[str, Any]) -> Iterator[str]:
    """Paths of znodes whose secrets were left out of the dump."""
    for path, data in contents(document).items():
        if data and REDACTED.encode() in data and redact(path, data) == data:
            yield path


def held(document: Mapping[str, Any]) -> frozenset[bytes]:
    """Every secret in a dump; the parts of a SCRAM credential, but for its salt."""
    found: set[str] = set()
    for path, data in contents(document).items():
        shown = None if data is None else redact(path, data)
        if not data or shown == data:
            continue
        try:
            found.update(_replaced(json.loads(data), json.loads(shown or b"")))
        except (ValueError, RecursionError):
            found.add(data.decode(errors="replace"))
    return frozenset(one.encode() for one in found if one)


def _replaced(value: Any, shown: Any) -> Iterator[str]:
    """Texts of which nothing is shown."""
    if isinstance(value, dict) and isinstance(shown, dict):
        for key, one in value.items():
            yield from _replaced(one, shown.get(key))
    elif shown == REDACTED and isinstance(value, str):
        parts = dict(part.partition("=")[::2] for part in value.split(","))
        yield from (parts[key] for key in ("stored_key", "server_key") if key in parts)
        if not {"stored_key", "server_key"} & parts.keys():
            yield value


def without_secrets(path: str, data: bytes | None) -> bytes | None:
    """The data of a znode, its secrets replaced.

    >>> without_secrets("/config/brokers/1", b'{"version":1,"config":{"ssl.key.password":"x"}}')
    b'{"version":1,"config":{"ssl.key.password.left.out":"<redacted>"}}'
    """
    if data is None:
        return None
    shown = redact(path, data)
    if REDACTED.encode() not in shown:
        return shown
    try:
        found = json.loads(shown)
    except (ValueError, RecursionError):
        return shown
    if not isinstance(found, dict):
        return shown
    config = found.get("config")
    if isinstance(config, dict):
        found["config"] = dict(_made_up(path, key, value) for key, value in config.items())
    elif found.get("hmac") == REDACTED:
        found["hmac"] = base64.b64encode(bytes(64)).decode()
    return json.dumps(found, separators=(",", ":")).encode()


def _made_up(path: str, key: str, value: Any) -> tuple[str, Any]:
    if value != REDACTED:
        return key, value
    if not path.startswith(_USERS):
        return f"{key}{LEFT_OUT}", value
    secret = base64.b64encode(bytes(64 if key.endswith("512") else 32)).decode()
    return key, f"salt={secret},stored_key={secret},server_key={secret},iterations=4096"
