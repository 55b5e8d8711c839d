"""``preflight --connect``: from this machine to every listener; nothing is written there.

Each is tried once, eight at a time. A password is sent only with ``--login``, over TLS, to a server
whose certificate was verified in the same handshake.
"""

from __future__ import annotations

import queue
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from emulator.config.listeners import SASL_PROTOCOLS, SECURITY_PROTOCOLS, TLS_PROTOCOLS
from emulator.config.reading import PropertyReader
from emulator.config.sasl import access_to
from emulator.config.tls import TlsSettings, listener_tls
from emulator.io.kafka_client import Connection, Login, LoginError, TooOldError
from emulator.io.tls import TlsError, context, explain, not_after
from emulator.operations.preflight.node_file import BROKER_MECHANISM
from emulator.operations.preflight.reaching import CONTROLLER_MECHANISM
from emulator.operations.preflight.survey import Address, ListenerTrouble, Probe

STEP_S: Final = 5.0
"""For each step of a connection."""
ALL_S: Final = 60.0
AT_ONCE: Final = 8


def connect_to(addresses: Sequence[Address], *, login: bool, all_s: float = ALL_S) -> list[Probe]:
    """Try every address; those that are not reached in time are said to be unseen.

    Args:
        addresses: of listeners.
        login: whether logins may be sent.
        all_s: for all of them together, in seconds.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Probe]] = queue.SimpleQueue()
    for index in range(len(addresses)):
        waiting.put(index)
    ends_s = time.monotonic() + all_s

    def work() -> None:
        while time.monotonic() < ends_s:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            one = addresses[index]
            try:
                done.put((index, probe(one, login=login)))
            except Exception as error:  # noqa: BLE001 - one address must not end all
                done.put((index, Probe(one, unseen=(f"{error!r}",))))

    # The name of a host may take longer than any limit: such a thread is left behind.
    for _ in range(min(AT_ONCE, len(addresses))):
        threading.Thread(target=work, daemon=True).start()
    found: dict[int, Probe] = {}
    while len(found) < len(addresses):
        try:
            index, one = done.get(timeout=max(0.001, ends_s - time.monotonic()))
        except queue.Empty:
            break
        found[index] = one
    over = f"not reached within the {all_s:g} s that all together have"
    return [found.get(i) or Probe(one, unseen=(over,)) for i, one in enumerate(addresses)]


def probe(at: Address, *, login: bool) -> Probe:
    """Connect to one listener, once; see :class:`Probe`."""
    if at.protocol not in SECURITY_PROTOCOLS:
        return Probe(at, unseen=("no file or registration says its security protocol",))
    unseen: list[str] = []
    tls, why_not = _tls(at)
    if why_not:
        unseen.append(why_not)
    found = Probe(at)
    try:
        if at.protocol in TLS_PROTOCOLS:
            found = _handshake(at, tls)
            if found.trouble is not None:
                return replace(found, unseen=tuple(unseen))
        user, no_login = _login(at, login=login, verified=tls is not None)
        unseen += [no_login] if no_login else []
        if at.protocol in TLS_PROTOCOLS and tls is None:
            unseen.append("ApiVersions: not asked, as the certificate is not verified")
        else:
            began = time.monotonic()
            with closing(Connection(at.host, at.port, STEP_S, user, tls=tls)):
                found = replace(found, ms=(time.monotonic() - began) * 1e3)
    except (OSError, UnicodeError, ValueError, LoginError, TooOldError) as error:
        trouble, text = classified(error)
        found = replace(found, trouble=trouble, text=text)
    return replace(found, unseen=tuple(unseen))


def classified(error: Exception) -> tuple[ListenerTrouble, str]:
    """What an error of a connection means.

    >>> classified(ConnectionRefusedError(111, "Connection refused"))
    (<ListenerTrouble.REFUSED: 'nothing listens there'>, 'Connection refused')
    """
    text = str(getattr(error, "strerror", None) or error)
    match error:
        case socket.gaierror() | UnicodeError():
            return ListenerTrouble.NAME, text
        case ConnectionRefusedError():
            return ListenerTrouble.REFUSED, text
        case TimeoutError():
            return ListenerTrouble.SILENT, f"no answer within {STEP_S:g} s"
        case ssl.SSLCertVerificationError():
            return ListenerTrouble.CERTIFICATE, explain(error)
        case LoginError():
            return ListenerTrouble.LOGIN, text
        case ssl.SSLError():
            return ListenerTrouble.PROTOCOL, explain(error)
        case ConnectionResetError():
            return (
                ListenerTrouble.PROTOCOL,
                f"closed the connection: it may want TLS, or a login ({text})",
            )
        case ConnectionError() | TooOldError() | ValueError():
            return ListenerTrouble.NO_KAFKA, text
        case _:
            return ListenerTrouble.SILENT, text


def _tls(at: Address) -> tuple[TlsSettings | None, str]:
    """Our side of TLS, from the file; None, and why, if the server cannot be verified with it."""
    if at.protocol not in TLS_PROTOCOLS:
        return None, ""
    if at.file is None:
        return None, "TLS is not verified: no file with a truststore was given for it"
    reader = PropertyReader(dict(at.file.values))
    found = listener_tls(reader, at.listener, serves=False)
    hidden = [key for key in at.file.values if "ssl." in key and at.file.provides(key)]
    if hidden:
        return None, f"TLS is not verified: a config provider has {hidden[0]}"
    if reader.problems:
        return None, f"TLS is not verified: {reader.problems[0]}"
    for store in (found.truststore, found.keystore):
        if store is not None and not Path(store.location).is_file():
            return None, f"TLS is not verified: {store.location} is not on this machine"
    try:
        context(found)
    except TlsError as error:
        return None, f"TLS is not verified: {error}"
    return found, ""


def _handshake(at: Address, tls: TlsSettings | None) -> Probe:
    """TLS: verified if the settings are known, else only to read when the certificate ends."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if tls is not None:
        made = context(tls)
    with (
        socket.create_connection((at.host, at.port), STEP_S) as plain,
        made.wrap_socket(plain, server_hostname=at.host) as secured,
    ):
        der = secured.getpeercert(binary_form=True) or b""
    ends = not_after(ssl.DER_cert_to_PEM_cert(der)) if der else None
    if ends is not None and ends < datetime.now(UTC):
        text = f"the certificate ended at {ends:%Y-%m-%d %H:%M} UTC"
        return Probe(at, ListenerTrouble.CERTIFICATE, text, ends)
    return Probe(at, ends=ends)


def _login(at: Address, *, login: bool, verified: bool) -> tuple[Login | None, str]:
    """The login that may be sent, and why none is where the listener wants one."""
    if at.protocol not in SASL_PROTOCOLS:
        return None, ""
    if not login:
        return None, "the login: give --login to try it"
    if at.protocol not in TLS_PROTOCOLS:
        return None, "the login: never sent in plain text"
    if not verified or at.file is None:
        return None, "the login: not sent to a server that is not verified"
    if not at.between:
        return None, "the login: no node logs in there"
    reader = PropertyReader(dict(at.file.values))
    key = CONTROLLER_MECHANISM if at.node.startswith("controller") else BROKER_MECHANISM
    access = access_to(reader, at.listener, at.protocol, key)
    if access.login is None:
        return None, "the login: " + (reader.problems[0] if reader.problems else "none in the file")
    return Login.of(access.login), ""
