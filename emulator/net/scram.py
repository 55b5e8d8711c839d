"""SCRAM: its arithmetic for both sides, and the server's side of a login.

Source: RFC 5802, RFC 7677; ScramFormatter, ScramMessages, ScramSaslServer, Kafka 3.9; KIP-84,
KIP-48 (``tokenauth``).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from emulator.net.reply import PeerPrincipal

DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""Kafka creates no credential with more; a server that asks for more would keep a client busy."""
OTHER_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_TOKEN: Final = "tokenauth"  # noqa: S105 - the name of an extension
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9/+]+={0,2}"
_MORE: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<more>{_MORE}))"
)
_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_MORE}),p=(?P<proof>{_BASE64})"
)


class ScramVerifier(Protocol):
    """What a server keeps of a password."""

    @property
    def salt(self) -> bytes:
        """Of the password."""

    @property
    def stored_key(self) -> bytes:
        """Verifies the client."""

    @property
    def server_key(self) -> bytes:
        """Proves that the server knows the user."""

    @property
    def iterations(self) -> int:
        """Of the key derivation."""


class DerivedKeys(NamedTuple):
    """A verifier that was computed from a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class KnownToken(NamedTuple):
    """A delegation token: ``owner`` is ``Type:name``; the keys are those of its password."""

    owner: str
    keys: ScramVerifier


class UsedCredential(NamedTuple):
    """What a client logged in with: a user's credential of a mechanism, or a token by its id.

    ``mechanism`` is empty for a token, which is one for all of them.
    """

    name: str
    mechanism: str = ""


class CredentialStore(Protocol):
    """Where a server looks up who logs in."""

    @property
    def known(self) -> bool:
        """Whether users and tokens are those that are committed, and not those of some time ago."""

    def scram(self, mechanism: str, user: str) -> ScramVerifier | None:
        """The credential of a user for a mechanism; None if there is none."""

    def token(self, mechanism: str, token_id: str, now_ms: int) -> KnownToken | None:
        """A delegation token that is valid now; None if there is none."""

    def valid_until_ms(self, used: UsedCredential) -> int:
        """The last millisecond in which it lets a client in; -1: it is gone."""

    def made_of(self) -> tuple[object, ...]:
        """Objects of which one is replaced whenever a user or a token changes."""


class CredentialsRefusedError(Exception):
    """A login failed. ``told``: what the client may read; None: nothing about the reason."""

    def __init__(self, why: str, told: str | None = None) -> None:
        """Keep the reason, which quotes nothing of the client."""
        super().__init__(why)
        self.told = told


@lru_cache(maxsize=256)
def salted(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password (``Hi`` in RFC 5802).

    It takes milliseconds, and a connection that is made again has the same salt.
    """
    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)


def client_key(digest: str, salted_password: bytes) -> bytes:
    """The client's key."""
    return hmac.digest(salted_password, b"Client Key", digest)


def server_key(digest: str, salted_password: bytes) -> bytes:
    """The server's key."""
    return hmac.digest(salted_password, b"Server Key", digest)


def hashed(digest: str, key: bytes) -> bytes:
    """The stored key of a client's key."""
    return hashlib.new(digest, key).digest()


def xored(one: bytes, other: bytes) -> bytes:
    """A proof from key and signature, and a key from proof and signature.

    Raises:
        ValueError: of different lengths.
    """
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def derived(mechanism: str, password: str) -> DerivedKeys:
    """What a server would keep of a password, with a new salt; takes milliseconds."""
    digest, salt = DIGESTS[mechanism], secrets.token_bytes(16)
    key = salted.__wrapped__(digest, password, salt, ITERATIONS_MIN)
    stored = hashed(digest, client_key(digest, key))
    return DerivedKeys(salt, stored, server_key(digest, key), ITERATIONS_MIN)


class _Stage(Enum):
    FIRST = auto()
    FINAL = auto()
    OVER = auto()


class ScramServer:
    """The server's side of one login; ``principal`` is None until it is complete.

    Args:
        mechanism: one of :data:`DIGESTS`.
        store: looks up users and tokens.
        nonce: makes the server's part of the nonce, printable and without comma.
    """

    def __init__(
        self,
        mechanism: str,
        store: CredentialStore,
        nonce: Callable[[], str] = secrets.token_urlsafe,
    ) -> None:
        self.principal: PeerPrincipal | None = None
        self.used: UsedCredential | None = None
        """What the client logs in with, once it has named it."""
        self._mechanism = mechanism
        self._digest = DIGESTS[mechanism]
        self._store = store
        self._new_nonce = nonce
        self._stage = _Stage.FIRST
        self._claimed = PeerPrincipal()
        self._keys: ScramVerifier | None = None
        self._spoken = ""
        self._nonce = ""
        self._binding = b""

    def answer(self, token: bytes, now_ms: int) -> bytes:
        """The answer to the client's next message.

        Raises:
            CredentialsRefusedError: the login failed; the object is not used any more.
        """
        stage, self._stage = self._stage, _Stage.OVER
        # Latin-1 takes every byte; those above 127 are in none of the patterns.
        text = token.decode("latin-1")
        if stage is _Stage.FIRST:
            return self._first(text, now_ms)
        if stage is _Stage.FINAL:
            return self._final(text, now_ms)
        raise CredentialsRefusedError("a message after the end of the exchange")

    def _first(self, text: str, now_ms: int) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise CredentialsRefusedError("the first message is not one of SCRAM")
        user, asked = _name(found["name"]), _name(found["authorization"] or "")
        extensions = dict(part.split("=", 1) for part in found["more"].split(",")[1:])
        if not self._store.known:
            raise CredentialsRefusedError("users and tokens are not known here yet")
        if extensions.get(_TOKEN, "").lower() == "true":
            keys, principal = self._token(user, now_ms)
        else:
            keys, principal = self._user(user)
        if asked and asked != user:
            raise CredentialsRefusedError("another authorization id", OTHER_ID)
        if keys.iterations < ITERATIONS_MIN:
            raise CredentialsRefusedError(f"a credential of less than {ITERATIONS_MIN} iterations")
        self._keys, self._claimed = keys, principal
        self._nonce = found["nonce"] + self._new_nonce()
        self._binding = found["header"].encode()
        salt = base64.b64encode(keys.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={keys.iterations}"
        self._spoken = f"{found['bare']},{challenge}"
        self._stage = _Stage.FINAL
        return challenge.encode()

    def _user(self, name: str) -> tuple[ScramVerifier, PeerPrincipal]:
        keys = self._store.scram(self._mechanism, name)
        if keys is None:
            raise CredentialsRefusedError("no such user for this mechanism")
        self.used = UsedCredential(name, self._mechanism)
        return keys, PeerPrincipal(f"User:{name}")

    def _token(self, token_id: str, now_ms: int) -> tuple[ScramVerifier, PeerPrincipal]:
        known = self._store.token(self._mechanism, token_id, now_ms)
        if known is None:
            raise CredentialsRefusedError("no such delegation token")
        self.used = UsedCredential(token_id)
        return known.keys, PeerPrincipal(known.owner, token_authenticated=True)

    def _final(self, text: str, now_ms: int) -> bytes:
        found = _FINAL.fullmatch(text)
        if found is None:
            raise CredentialsRefusedError("the final message is not one of SCRAM")
        if found["nonce"] != self._nonce:
            raise CredentialsRefusedError("the nonce is not that of this exchange")
        keys, message = self._keys, f"{self._spoken},{found['unproven']}".encode()
        assert keys is not None, "set with the stage"
        signature = hmac.digest(keys.stored_key, message, self._digest)
        try:
            bound = base64.b64decode(found["binding"], validate=True) == self._binding
            key = xored(base64.b64decode(found["proof"], validate=True), signature)
        except ValueError:
            raise CredentialsRefusedError("the proof does not have its form") from None
        if not bound:
            raise CredentialsRefusedError("the channel binding is not that of the first message")
        if not hmac.compare_digest(hashed(self._digest, key), keys.stored_key):
            raise CredentialsRefusedError("the password is wrong")
        if not self._still_valid(keys, now_ms):
            raise CredentialsRefusedError("the credential was changed or deleted meanwhile")
        self.principal = self._claimed
        proven = hmac.digest(keys.server_key, message, self._digest)
        return b"v=" + base64.b64encode(proven)

    def _still_valid(self, keys: ScramVerifier, now_ms: int) -> bool:
        """Whether what the client named first would be taken now: it may have waited."""
        used, store = self.used, self._store
        assert used is not None, "named in the first message"
        if not store.known or store.valid_until_ms(used) < now_ms:
            return False
        if not used.mechanism:
            return True
        now = store.scram(used.mechanism, used.name)
        return now is not None and now.stored_key == keys.stored_key


def _name(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")
