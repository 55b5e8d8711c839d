"""Takes secrets out of a dump before it is loaded, and puts made-up ones where there must be one.

A SCRAM credential becomes a well-formed one that nobody has. A password in the config of a broker
cannot be made up, as it would be encoded by production's secret: its key gets another name, so that
nothing tries to decode it. Data that is not of Kafka's form stays so.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from emulator.servers.zk_dump import REDACTED, redact

_USERS: Final = "/config/users/"
LEFT_OUT: Final = ".left.out"
"""Behind the key of a password."""


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
