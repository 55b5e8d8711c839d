"""The login of a client to a broker: properties of ``--admin.config``, PLAIN and SCRAM.

Source: KIP-12, KIP-84, KIP-152; SaslClientAuthenticator and ScramSaslClient, Kafka 3.9; RFC 5802.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from emulator.config import jaas
from emulator.config.java_text import trim
from emulator.config.sasl import MECHANISMS, PLAIN, SaslLogin
from emulator.net import scram
from emulator.net.scram import DIGESTS, ITERATIONS_MAX, ITERATIONS_MIN
from wire import messages as m

Conversation: TypeAlias = Generator[Any, Any, None]
"""Yields requests and takes the answers."""


class LoginError(Exception):
    """The broker refused the login, or did not prove that it knows the password."""


@dataclass(frozen=True, slots=True)
class Login:
    """User, password and mechanism of a login."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    @classmethod
    def of(cls, configured: SaslLogin | None) -> Login | None:
        """The login that is configured, if one is."""
        if configured is None:
            return None
        return cls(configured.mechanism, configured.username, configured.password)

    def conversation(self) -> Conversation:
        """The requests of a login, in order; it succeeded when there are no more.

        Raises:
            LoginError: see there.
        """
        answer = yield m.SaslHandshakeRequest(mechanism=self.mechanism)
        if answer.error_code:
            offered = ", ".join(answer.mechanisms)
            raise LoginError(f"the broker does not support {self.mechanism}; it supports {offered}")
        if self.mechanism == PLAIN:
            yield from _send(f"\0{self.username}\0{self.password}".encode())
            return
        try:
            yield from self._scram()
        except (ValueError, KeyError) as error:
            raise LoginError("the broker's challenge is not a SCRAM challenge") from error

    def _scram(self) -> Conversation:
        digest = DIGESTS[self.mechanism]
        name = self.username.replace("=", "=3D").replace(",", "=2C")
        nonce = secrets.token_hex(16)
        first = f"n={name},r={nonce}"
        challenge = (yield from _send(f"n,,{first}".encode())).decode()
        told = _attributes(challenge)
        salt, iterations = base64.b64decode(told["s"]), int(told["i"])
        fits = ITERATIONS_MIN <= iterations <= ITERATIONS_MAX
        if not told["r"].startswith(nonce) or not fits:
            raise LoginError("the broker's challenge is not a SCRAM challenge")
        salted = scram.salted(digest, self.password, salt, iterations)
        client_key = scram.client_key(digest, salted)
        without_proof = f"c=biws,r={told['r']}"
        message = f"{first},{challenge},{without_proof}".encode()
        signature = hmac.digest(scram.hashed(digest, client_key), message, digest)
        proof = scram.xored(client_key, signature)
        final = f"{without_proof},p={base64.b64encode(proof).decode()}"
        proven = _attributes((yield from _send(final.encode())).decode()).get("v", "")
        server_key = scram.server_key(digest, salted)
        if base64.b64decode(proven) != hmac.digest(server_key, message, digest):
            raise LoginError("the broker did not prove that it knows the password")


def login_of(properties: Mapping[str, str]) -> Login | None:
    """The login that a client's properties configure; None: no login.

    Raises:
        ValueError: a protocol, mechanism or login configuration that is not supported.
    """
    protocol = trim(properties.get("security.protocol", "PLAINTEXT")).upper()
    if protocol == "PLAINTEXT":
        return None
    if protocol != "SASL_PLAINTEXT":
        raise ValueError(
            f"security.protocol={protocol}: PLAINTEXT and SASL_PLAINTEXT are supported"
        )
    mechanism = trim(properties.get("sasl.mechanism", "GSSAPI"))
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism={mechanism}: {', '.join(MECHANISMS)} are supported")
    try:
        module = jaas.one_module(trim(properties.get("sasl.jaas.config", "")))
        return Login(mechanism, module.options["username"], module.options["password"])
    except (ValueError, KeyError) as error:
        raise ValueError("sasl.jaas.config: one module with username and password") from error


def _send(token: bytes) -> Generator[Any, Any, bytes]:
    answer = yield m.SaslAuthenticateRequest(auth_bytes=token)
    if answer.error_code:
        raise LoginError(answer.error_message or f"the login failed with error {answer.error_code}")
    return bytes(answer.auth_bytes)


def _attributes(text: str) -> dict[str, str]:
    """``r=…,s=…,i=…`` by letter.

    Raises:
        LoginError: an error of the broker, or not of that form.
    """
    found = dict(part.partition("=")[::2] for part in text.split(","))
    if "e" in found or not found:
        raise LoginError(f"the login failed: {found.get('e', text)}")
    return found
