"""Log in to a broker's SASL listener over raw frames, by PLAIN or SCRAM."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import itertools
import secrets
from typing import Any, Final

from bench.load.connection import Connection, address_of
from emulator.servers.waiting import PATIENCE_S
from wire import messages as m

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ids = itertools.count(1)


class LoginError(Exception):
    """The broker refused; ``code`` is Kafka's error code, 58 for a wrong user or password."""

    def __init__(self, code: int, text: str | None) -> None:
        super().__init__(f"error {code}: {text}")
        self.code = code


def call_as(address: str, mechanism: str, user: str, password: str, *requests: Any) -> list[Any]:
    """Log in on a connection of its own and send requests, one after the other.

    Args:
        address: ``host:port`` of a SASL listener.
        mechanism: ``PLAIN`` or one of `HASHES`.
        user: name of the user that logs in.
        password: as the broker knows it.
        requests: sent after the login; with none of them only the login is tried.

    Raises:
        LoginError: refused.
        OSError: the broker cannot be reached.
    """
    return asyncio.run(_call(address, mechanism, user, password, requests))


async def _call(
    address: str, mechanism: str, user: str, password: str, requests: tuple[Any, ...]
) -> list[Any]:
    connection = await Connection.open(address_of(address), f"as-{user}", _ids, PATIENCE_S)
    try:
        answer, _ = await connection.call(m.SaslHandshakeRequest(mechanism=mechanism), 1)
        if answer.error_code:
            raise LoginError(answer.error_code, mechanism)
        if mechanism == "PLAIN":
            await _step(connection, f"\0{user}\0{password}".encode())
        else:
            await _scram(connection, HASHES[mechanism], user, password)
        return [(await connection.call(request))[0] for request in requests]
    finally:
        connection.close()


async def _step(connection: Connection, data: bytes) -> bytes:
    answer, _ = await connection.call(m.SaslAuthenticateRequest(auth_bytes=data), 1)
    if answer.error_code:
        raise LoginError(answer.error_code, answer.error_message)
    response: bytes = answer.auth_bytes
    return response


async def _scram(connection: Connection, name: str, user: str, password: str) -> None:
    """RFC 5802, without channel binding."""
    bare = f"n={user},r={secrets.token_hex(12)}"
    first = (await _step(connection, f"n,,{bare}".encode())).decode()
    challenge = dict(part.split("=", 1) for part in first.split(","))
    salt, iterations = base64.b64decode(challenge["s"]), int(challenge["i"])
    final = f"c=biws,r={challenge['r']}"
    salted = salted_password(name, password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    stored = hashlib.new(name, client_key).digest()
    signature = hmac.digest(stored, f"{bare},{first},{final}".encode(), name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    await _step(connection, f"{final},p={base64.b64encode(proof).decode()}".encode())


def salted_password(name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """What AlterUserScramCredentials carries; ``name`` is one of `HASHES`' values."""
    return hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
