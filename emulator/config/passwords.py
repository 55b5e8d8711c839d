"""``password.encoder.*``: how passwords in configs of brokers are encoded in ZooKeeper.

Kafka reads these on brokers; a migrating controller needs the same values as the brokers.
Source: PasswordEncoderConfigs, Kafka 3.9.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Final

from emulator.config.reading import PropertyReader, integer, one_of
from emulator.config.words import install

PREFIX: Final = "password.encoder."
CIPHERS: Final = ("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding")
KEY_FACTORIES: Final = tuple(f"PBKDF2WithHmacSHA{bits}" for bits in (1, 224, 256, 384, 512))
KEY_LENGTHS: Final = (128, 192, 256)
ITERATIONS_MIN: Final = 1_024
NAMES: Final = (
    "sasl.jaas.config",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
)
"""Dynamic configs of type PASSWORD."""


def is_password(key: str) -> bool:
    """Whether a config holds a password, with or without a listener or mechanism prefix.

    Source: DynamicBrokerConfig.isPasswordConfig.

    >>> is_password("listener.name.x.ssl.keystore.password"), is_password("ssl.keystore.location")
    (True, False)
    """
    return key.endswith(NAMES)


@dataclass(frozen=True, slots=True)
class PasswordSettings:
    """The secrets with which passwords are encoded, and how new ones are.

    The other fields are for encoding alone: an encoded password holds those it was encoded with.
    ``secret`` None: passwords can be neither encoded nor decoded.
    """

    secret: str | None = field(default=None, repr=False)
    old_secret: str | None = field(default=None, repr=False)
    """Tried if ``secret`` does not decode a password."""
    key_factory: str = "PBKDF2WithHmacSHA512"
    cipher: str = CIPHERS[0]
    key_bits: int = 128
    iterations: int = 4_096

    @classmethod
    def read(cls, reader: PropertyReader) -> PasswordSettings:
        """Read ``password.encoder.*``; problems are collected in the reader, without the secrets.

        >>> reader = PropertyReader({"password.encoder.key.length": "8"})
        >>> PasswordSettings.read(reader).key_bits, reader.problems
        (128, ['password.encoder.key.length=8: must be one of 128, 192, 256'])
        """
        plain = cls()
        secret = reader.take(PREFIX + "secret", str, "") or None
        if secret is not None and importlib.util.find_spec("cryptography") is None:
            reader.problems.append(
                f"{PREFIX}secret is set, which needs the package cryptography; "
                f"{install('passwords')}"
            )
        bits = one_of(*map(str, KEY_LENGTHS))
        return cls(
            secret=secret,
            old_secret=reader.take(PREFIX + "old.secret", str, "") or None,
            key_factory=reader.take(
                PREFIX + "keyfactory.algorithm", one_of(*KEY_FACTORIES), plain.key_factory
            ),
            cipher=reader.take(PREFIX + "cipher.algorithm", one_of(*CIPHERS), plain.cipher),
            key_bits=int(reader.take(PREFIX + "key.length", bits, str(plain.key_bits))),
            iterations=reader.take(
                PREFIX + "iterations", integer(ITERATIONS_MIN), plain.iterations
            ),
        )
