"""TLS of both sides: Kafka's store properties as an ``ssl.SSLContext``, and errors as sentences.

A client's context is created for each connection, so a renewed certificate is used from the next
one on; a listener's is created at the start. PEM is read by OpenSSL itself; PKCS12 needs the
package ``cryptography`` (extra ``tls``).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import secrets
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from emulator.config.tls import Store, TlsSettings
from emulator.config.words import install
from emulator.config.zookeeper import TLS
from emulator.net.distinguished_name import der_values

_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_SUITE: Final = re.compile(r"TLS_(?:(?P<keys>\w+?)_)?WITH_(?P<cipher>\w+)$")
_END_OF_PEM: Final = "-----END CERTIFICATE-----"
_UTC_TIME: Final = 0x17
_VERSION_FIELD: Final = 0xA0
_ALERT: Final = re.compile(r"alert ([a-z ]+?)(?: \(_ssl|$)")


class TlsError(OSError):
    """A store or a setting cannot be used; the text names it."""


def context(tls: TlsSettings, at: datetime | None = None) -> ssl.SSLContext:
    """Build the context of a connection; ``at``: when our own certificate must be valid.

    Raises:
        TlsError: a file cannot be read or has another type, or a name is unknown.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = tls.verify_host
    _configure(made, tls, at)
    return made


def server_context(tls: TlsSettings) -> ssl.SSLContext:
    """Build the context of a listener.

    Raises:
        TlsError: see :func:`context`.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.verify_mode = _CLIENT_AUTH[tls.client_auth]
    made.options |= ssl.OP_NO_RENEGOTIATION
    _configure(made, tls, None)
    return made


def _configure(made: ssl.SSLContext, tls: TlsSettings, at: datetime | None) -> None:
    wanted = sorted(tls.protocols, key=list(_VERSIONS).index)
    made.minimum_version, made.maximum_version = _VERSIONS[wanted[0]], _VERSIONS[wanted[-1]]
    suites = [known for name in tls.cipher_suites if (known := openssl_name(name))]
    for suite in suites:
        with _named(f"{tls.prefix}cipher.suites: {suite}"):
            made.set_ciphers(suite)
    if suites:
        made.set_ciphers(":".join(suites))
    if tls.keystore is not None:
        with _named(f"{tls.prefix}keystore.location={tls.keystore.location}"):
            _load_keys(made, tls.keystore, at)
    if tls.truststore is not None:
        with _named(f"{tls.prefix}truststore.location={tls.truststore.location}"):
            made.load_verify_locations(cadata=_trusted(tls.truststore))
    elif made.verify_mode is not ssl.CERT_NONE:
        made.load_default_certs(
            ssl.Purpose.CLIENT_AUTH
            if made.protocol is ssl.PROTOCOL_TLS_SERVER
            else ssl.Purpose.SERVER_AUTH
        )


def profiles(
    zookeeper: TlsSettings | None, listeners: Mapping[str, TlsSettings] = MappingProxyType({})
) -> dict[str, TlsSettings]:
    """What a shell needs for its connections, by the names that ``Connect`` has.

    Args:
        zookeeper: of connections to ZooKeeper; None: they are in plain text.
        listeners: of listeners, by ``tls_profile``.

    Raises:
        TlsError: see :func:`context`; better now than with every connection.
    """
    found = {**listeners, **({} if zookeeper is None else {TLS: zookeeper})}
    for one in found.values():
        context(one)
    return found


def openssl_name(name: str) -> str:
    """OpenSSL's name of a cipher suite that Java names; "" for one of TLS 1.3, always allowed.

    >>> openssl_name("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    'ECDHE-RSA-AES128-GCM-SHA256'
    >>> openssl_name("TLS_RSA_WITH_AES_256_CBC_SHA"), openssl_name("TLS_AES_128_GCM_SHA256")
    ('AES256-SHA', '')
    """
    match = _SUITE.match(name)
    if match is None:
        return "" if name.startswith(("TLS_AES_", "TLS_CHACHA20_")) else name
    cipher = re.sub(r"AES_(\d+)_(?:CBC_)?", r"AES\1-", match["cipher"])
    cipher = re.sub(r"(CHACHA20_POLY1305)_SHA256$", r"\1", cipher).replace("_", "-")
    keys = "" if match["keys"] == "RSA" else f"{match['keys']}-".replace("_", "-")
    return keys + cipher


def explain(error: Exception, peer: str = "server") -> str:
    """The error of a connection as a sentence, for a log line and ``/status``."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the {peer}'s certificate is refused: {error.verify_message}"
    if not isinstance(error, ssl.SSLError):
        return str(error)
    text = str(error)
    alert = _ALERT.search(text)
    if alert is not None:
        return f"TLS: the {peer} refuses our certificate or settings (alert: {alert[1]})"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or "UNEXPECTED_EOF" in text:
        return CUT if peer == "server" else f"TLS: the {peer} hung up in the handshake"
    if any(one in text for one in _NO_TLS):
        return f"TLS: the {peer} does not speak TLS at this port"
    return f"TLS: {text}"


CUT: Final = (
    "TLS: the server closed the connection in the handshake: it wants plain text at this port, or "
    "another certificate of ours"
)
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except TlsError:
        raise
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TlsError(f"{what}: {why}") from error


def _load_keys(made: ssl.SSLContext, store: Store, at: datetime | None) -> None:
    if store.kind == "PEM":
        _check_end(_contents(store).decode("ascii", "replace"), at)
        # Without a password OpenSSL would ask the terminal.
        made.load_cert_chain(store.location, password=store.password or "")
        return
    passphrase = secrets.token_urlsafe(32)
    pem: bytes = _pkcs12(store).key_and_chain(_contents(store), store.password, passphrase)
    _check_end(pem.decode(), at)
    handle, path = tempfile.mkstemp(prefix="kraft-bridge-", suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(pem)
        made.load_cert_chain(path, password=passphrase)
    finally:
        Path(path).unlink()


def _check_end(pem: str, at: datetime | None) -> None:
    """A server's alert does not say why it refuses; an expired certificate is the usual reason."""
    if at is not None and (end := not_after(pem)) < at:
        raise ValueError(f"the certificate expired at {end:%Y-%m-%d %H:%M:%S} UTC")


def _trusted(store: Store) -> str | bytes:
    if store.kind == "PEM":
        return Path(store.location).read_text(encoding="ascii")
    certificates: bytes = _pkcs12(store).certificates(_contents(store), store.password)
    return certificates


def _contents(store: Store) -> bytes:
    return Path(store.location).read_bytes()


def _pkcs12(store: Store) -> Any:
    try:
        return importlib.import_module("emulator.io.pkcs12")
    except ImportError as error:
        raise TlsError(
            f"{store.location}: convert it to PEM, or install what PKCS12 needs, {install('tls')}"
        ) from error


def not_after(pem: str) -> datetime:
    """When the first certificate of a PEM text ends, which OpenSSL's errors do not show.

    Raises:
        ValueError: there is none, or it is damaged.
    """
    begin = pem.find("-----BEGIN CERTIFICATE-----")
    end = pem.find(_END_OF_PEM, begin)
    if begin < 0 or end < 0:
        raise ValueError("no certificate in it")
    der = ssl.PEM_cert_to_DER_cert(pem[begin : end + len(_END_OF_PEM)])
    try:
        (_, certificate), *_ = der_values(der)
        (_, signed), *_ = der_values(certificate)
        fields = [value for kind, value in der_values(signed) if kind != _VERSION_FIELD]
        _, (kind, when) = der_values(fields[3])  # after serial number, algorithm and issuer
        form = "%y%m%d%H%M%SZ" if kind == _UTC_TIME else "%Y%m%d%H%M%SZ"
        return datetime.strptime(when.decode(), form).replace(tzinfo=UTC)
    except (IndexError, ValueError) as error:
        raise ValueError(f"a damaged certificate: {error}") from error
