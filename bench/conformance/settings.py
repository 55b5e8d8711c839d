"""Kafka's client properties of ``--command-config``, as what a connection needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emulator.config.java_text import trim
from emulator.config.reading import PropertyReader
from emulator.config.tls import TlsSettings, listener_tls
from emulator.net.login import Login, login_of

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def security(properties: Mapping[str, str]) -> tuple[TlsSettings | None, Login | None]:
    """TLS and login as a client's properties configure them.

    Raises:
        ValueError: a protocol, mechanism, store or login configuration that is not supported.
    """
    protocol = trim(properties.get("security.protocol", "PLAINTEXT")).upper()
    if protocol not in _PROTOCOLS:
        raise ValueError(f"security.protocol={protocol}: one of {', '.join(_PROTOCOLS)}")
    tls = None
    if protocol.endswith("SSL"):
        reader = PropertyReader(properties)
        tls = listener_tls(reader, "client", serves=False)
        if reader.problems:
            raise ValueError("; ".join(reader.problems))
    if not protocol.startswith("SASL"):
        return tls, None
    return tls, login_of({**properties, "security.protocol": "SASL_PLAINTEXT"})
