"""SCRAM credentials as text in the config of a user.

Source: ScramCredentialUtils, Kafka 3.9.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from emulator.metadata.scram import Credential, Mechanism

NAMES: Final = {mechanism.mechanism_name: mechanism for mechanism in Mechanism}
"""Config keys that are not quotas."""

_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")


def parse(text: str) -> Credential:
    """Read a credential.

    Raises:
        ValueError: not the four fields, or one of them malformed. The text itself, which is
            secret, is not quoted.
    """
    pairs = dict(_pair(part) for part in text.rstrip(",").split(","))
    if pairs.keys() != set(_FIELDS):
        raise ValueError(f"a credential has the fields {', '.join(_FIELDS)}")
    iterations = pairs["iterations"]
    if not re.fullmatch(r"\+?[0-9]{1,10}", iterations) or not 0 < int(iterations) < 2**31:
        raise ValueError(f"iterations {iterations[:20]!r} is no number of iterations")
    salt, stored, server = (_bytes(name, pairs[name]) for name in _FIELDS[:3])
    return Credential(salt, stored, server, int(iterations))


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals or not name:
        raise ValueError("a credential consists of name=value, separated by commas")
    return name, value


def _bytes(name: str, text: str) -> bytes:
    padded = text if text.endswith("=") else text + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except ValueError:
        raise ValueError(f"{name} is not base64") from None


def render(credential: Credential) -> str:
    """Write a credential.

    >>> render(Credential(b"a", b"b", b"c", 4096))
    'salt=YQ==,stored_key=Yg==,server_key=Yw==,iterations=4096'
    """
    salt, stored, server = (
        base64.b64encode(one).decode()
        for one in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"
