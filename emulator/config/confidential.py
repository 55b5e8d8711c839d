"""What of a properties file may be shown: names of keys, and values that are no secrets.

A secret may be in an unexpected place: a value of several lines, whose continuation is missing,
leaves lines of a private key that are read as keys of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from emulator.config.names import KAFKA_CONFIG_NAMES

REDACTED: Final = "<redacted>"
_SECRET: Final = re.compile(
    r"pass?w|pwd|secret|jaas|credential|digest|token|master\.key|keystore\.key|keystore\.cert"
    r"|truststore\.cert",
    re.IGNORECASE,
)
_ABOUT_SECRETS: Final = re.compile(
    r"\.(ms|iterations|algorithm|length|url|class|clientconfig|location|type|mechanism)$"
)
"""Ends of keys for a duration, a method or a place, which hold no secret."""
_OPEN_PREFIXES: Final = (
    "allow.everyone.",
    "kraftbridge.",
    "listener.name.",
    "log4j.",
    "sasl.",
    "ssl.",
    "super.users",
    "zookeeper.",
)
_LOGIN: Final = re.compile(r"(?<=://)[^/@\s]*@")
_NAME: Final = re.compile(r"[a-z_-]{1,40}|[A-Za-z0-9_-]{1,40}(\.[A-Za-z0-9_-]{1,40}){1,20}")


def is_secret(key: str) -> bool:
    """Whether the value of a key is a secret, by the words in its name.

    >>> is_secret("listener.name.x.ssl.key.password"), is_secret("password.encoder.iterations")
    (True, False)
    """
    return _SECRET.search(key) is not None and _ABOUT_SECRETS.search(key) is None


def is_name(key: str) -> bool:
    """Whether a key has the form of a property's name; a line of a private key has not.

    >>> is_name("node.id"), is_name("listners"), is_name("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC")
    (True, True, False)
    """
    return _NAME.fullmatch(key) is not None


def value_of(key: str, text: str) -> str:
    """The value for an error message, without the logins of addresses in it.

    >>> value_of("node.id", "x"), value_of("password.encoder.secret", "x")
    ('x', '<redacted>')
    >>> value_of("sasl.oauthbearer.token.endpoint.url", "https://me:secret@host/token")
    'https://host/token'
    """
    return REDACTED if is_secret(key) else _LOGIN.sub("", text)


def redacted(raw: Mapping[str, str]) -> dict[str, str]:
    """What may be shown of properties in traces and logs.

    Values of secrets and of unknown keys are replaced; keys that are no names are left out.

    >>> redacted({"node.id": "1", "zookeeper.ssl.keystore.password": "x", "my.own": "y"})
    {'node.id': '1', 'zookeeper.ssl.keystore.password': '<redacted>', 'my.own': '<redacted>'}
    """
    return {
        key: value_of(key, value) if _is_open(key) else REDACTED
        for key, value in raw.items()
        if is_name(key)
    }


def _is_open(key: str) -> bool:
    known = key in KAFKA_CONFIG_NAMES or key.startswith(_OPEN_PREFIXES)
    return known and not is_secret(key)
