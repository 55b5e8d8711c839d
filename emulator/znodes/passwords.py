"""Passwords in configs of brokers: encoded in ZooKeeper, plain in the metadata log, as in Kafka.

An encoded password is a comma-separated map that names its own parameters: key factory, cipher, key
length, iterations, salt, initialization vector. In Kafka salt and vector are random for each write.
Here they are derived from the secret, the place and the password, by HMAC: so a plan can be
repeated, and an unchanged password is not written again. A reader without the secret only learns
whether a broker's password has changed.

Deriving a key takes some milliseconds, so results are cached.

Source: EncryptingPasswordEncoder, CipherParamsEncoder, Kafka 3.9.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Final

from emulator.config.java_text import INT_MAX, INT_MIN, trim, whole
from emulator.config.passwords import CIPHERS, ITERATIONS_MIN, KEY_FACTORIES, PasswordSettings

CBC, GCM = CIPHERS
SALT_BYTES: Final = 256
IV_BYTES: Final = {CBC: 16, GCM: 12}
TAG_BITS: Final = 128
ITERATIONS_MAX: Final = 10_000_000
REMEMBERED: Final = 4_096
NOT_CONFIGURED: Final = "is a password, and password.encoder.secret is not configured"


class Passwords:
    """Encodes and decodes by one configuration.

    Args:
        settings: without a secret nothing can be decoded or encoded.
    """

    def __init__(self, settings: PasswordSettings) -> None:
        self._settings = settings
        self._decoded = lru_cache(REMEMBERED)(self._decode)
        self._encoded = lru_cache(REMEMBERED)(self._encode)

    @property
    def can_encode(self) -> bool:
        """Whether a secret is configured."""
        return self._settings.secret is not None

    def decode(self, text: str) -> str:
        """Decode a password.

        Raises:
            ValueError: not encoded, encoded with another secret, or with unsupported parameters;
                the text does not quote it.
        """
        return self._decoded(text)

    def encode(self, place: str, password: str) -> str:
        """Encode a password; the same for the same place and password.

        Args:
            place: path and key, so that equal passwords are encoded differently.
            password: plain.
        """
        return self._encoded(place, password)

    def _decode(self, text: str) -> str:
        settings = self._settings
        if settings.secret is None:
            raise ValueError(NOT_CONFIGURED)
        parameters = _parameters(text)
        secrets = [one for one in (settings.secret, settings.old_secret) if one is not None]
        for secret in secrets:
            try:
                return parameters.decrypt(secret)
            except ValueError:
                continue
        tried = " nor of password.encoder.old.secret" if len(secrets) > 1 else ""
        raise ValueError(f"is not encoded by means of password.encoder.secret{tried}")

    def _encode(self, place: str, password: str) -> str:
        settings = self._settings
        assert settings.secret is not None, "the caller asks can_encode"
        seed = hmac.digest(
            settings.secret.encode(),
            b"\0".join(
                (
                    f"{settings.cipher} {settings.key_factory}".encode(),
                    f"{settings.key_bits} {settings.iterations}".encode(),
                    place.encode(),
                    password.encode(),
                )
            ),
            "sha512",
        )
        made = _Parameters(
            key_factory=settings.key_factory,
            cipher=settings.cipher,
            key_bits=settings.key_bits,
            iterations=settings.iterations,
            salt=_stretched(seed, b"salt", SALT_BYTES),
            iv=_stretched(seed, b"iv", IV_BYTES[settings.cipher]),
        )
        return made.encrypt(settings.secret, password)


def _stretched(seed: bytes, label: bytes, size: int) -> bytes:
    blocks = (hmac.digest(seed, label + bytes([n]), "sha512") for n in range(-(-size // 64)))
    return b"".join(blocks)[:size]


class _Parameters:
    """An encoded password, or the parameters for one."""

    def __init__(
        self,
        *,
        key_factory: str,
        cipher: str,
        key_bits: int,
        iterations: int,
        salt: bytes,
        iv: bytes,
        encrypted: bytes = b"",
        length: int = 0,
        tag_bits: int = TAG_BITS,
    ) -> None:
        self._hash = f"sha{key_factory.removeprefix('PBKDF2WithHmacSHA')}"
        self._key_factory = key_factory
        self._cipher = cipher
        self._key_bits = key_bits
        self._iterations = iterations
        self._salt = salt
        self._iv = iv
        self._encrypted = encrypted
        self._length = length
        self._tag_bits = tag_bits

    def decrypt(self, secret: str) -> str:
        """Return the password.

        Raises:
            ValueError: another secret.
        """
        key = self._key(secret)
        if self._cipher == GCM:
            tag_bytes = self._tag_bits // 8
            plain: bytes = _aes().gcm_decrypt(key, self._iv, self._encrypted, tag_bytes)
        else:
            plain = _aes().cbc_decrypt(key, self._iv, self._encrypted)
        password = plain.decode()
        if _java_length(password) != self._length:
            raise ValueError("another secret")
        return password

    def encrypt(self, secret: str, password: str) -> str:
        """Return the encoded password."""
        encrypt = _aes().gcm_encrypt if self._cipher == GCM else _aes().cbc_encrypt
        encrypted: bytes = encrypt(self._key(secret), self._iv, password.encode())
        parts: dict[str, object] = {
            "keyFactoryAlgorithm": self._key_factory,
            "cipherAlgorithm": self._cipher,
            "keyLength": self._key_bits,
            "salt": base64.b64encode(self._salt).decode(),
            "iterations": self._iterations,
            "encryptedPassword": base64.b64encode(encrypted).decode(),
            "passwordLength": _java_length(password),
            "initializationVector": base64.b64encode(self._iv).decode(),
        }
        if self._cipher == GCM:
            parts["authenticationTagLength"] = TAG_BITS
        return ",".join(f"{name}:{value}" for name, value in parts.items())

    def _key(self, secret: str) -> bytes:
        size = self._key_bits // 8
        return hashlib.pbkdf2_hmac(self._hash, secret.encode(), self._salt, self._iterations, size)


def _aes() -> ModuleType:
    """Imports ``cryptography``, which is only needed if a secret is configured."""
    return import_module("emulator.znodes.aes")


def _java_length(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2


def _int(text: str) -> int:
    return whole(text, INT_MIN, INT_MAX)


def _parameters(text: str) -> _Parameters:
    """Parse an encoded password.

    Raises:
        ValueError: not an encoded password, or unsupported parameters.
    """
    pairs = {}
    for part in text.split(","):
        name, colon, value = trim(part).rpartition(":")
        if not colon:
            raise ValueError("is a password that is not encoded")
        pairs[trim(name)] = trim(value)
    try:
        cipher, key_factory = pairs["cipherAlgorithm"], pairs["keyFactoryAlgorithm"]
        found = _Parameters(
            key_factory=key_factory,
            cipher=cipher,
            key_bits=_int(pairs["keyLength"]),
            iterations=_int(pairs["iterations"]),
            salt=base64.b64decode(pairs["salt"], validate=True),
            iv=base64.b64decode(pairs["initializationVector"], validate=True),
            encrypted=base64.b64decode(pairs["encryptedPassword"], validate=True),
            length=_int(pairs["passwordLength"]),
            tag_bits=_int(pairs.get("authenticationTagLength", str(TAG_BITS))),
        )
        iterations, key_bits = _int(pairs["iterations"]), _int(pairs["keyLength"])
    except KeyError as error:
        raise ValueError(f"is encoded without {error.args[0]}") from None
    except ValueError:
        raise ValueError("is encoded, but a number or base64 in it is malformed") from None
    for what, number, allowed in (
        ("cipherAlgorithm", cipher, cipher in CIPHERS),
        ("keyFactoryAlgorithm", key_factory, key_factory in KEY_FACTORIES),
        ("keyLength", key_bits, key_bits in {128, 192, 256}),
        ("iterations", iterations, ITERATIONS_MIN <= iterations <= ITERATIONS_MAX),
    ):
        if not allowed:
            raise ValueError(f"is encoded with {what} {number}, which is not supported")
    return found
