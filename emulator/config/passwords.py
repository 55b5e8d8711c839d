"""``password.encoder.*``: how passwords in configs of brokers are encoded in ZooKeeper.

Kafka reads these on brokers; a controller that migrates must have those of the brokers.
Source: PasswordEncoderConfigs, Kafka 3.9.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

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
    """Whether a config holds a password; of listeners and mechanisms too.

    Source: DynamicBrokerConfig.isPasswordConfig.

    >>> is_password("listener.name.x.ssl.keystore.password"), is_password("ssl.keystore.location")
    (True, False)
    """
    return key.endswith(NAMES)


@dataclass(frozen=True, slots=True)
class PasswordSettings:
    """Secrets and parameters; what is encoded names its own parameters, so these are for writing.

    ``secret`` None: nothing encoded can be read or written.
    """

    secret: str | None = field(default=None, repr=False)
    old_secret: str | None = field(default=None, repr=False)
    """Tried when ``secret`` does not fit."""
    key_factory: str = "PBKDF2WithHmacSHA512"
    cipher: str = CIPHERS[0]
    key_bits: int = 128
    iterations: int = 4_096

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> PasswordSettings:
        """Read checked properties."""
        plain = cls()
        return cls(
            secret=properties.get(PREFIX + "secret") or None,
            old_secret=properties.get(PREFIX + "old.secret") or None,
            key_factory=properties.get(PREFIX + "keyfactory.algorithm", plain.key_factory),
            cipher=properties.get(PREFIX + "cipher.algorithm", plain.cipher),
            key_bits=int(properties.get(PREFIX + "key.length", plain.key_bits)),
            iterations=int(properties.get(PREFIX + "iterations", plain.iterations)),
        )


def problems(properties: Mapping[str, str]) -> list[str]:
    """What is wrong with these settings, one sentence each; values of secrets are not shown.

    >>> problems({"password.encoder.key.length": "8"})
    ['password.encoder.key.length=8: must be one of 128, 192, 256']
    """
    found = []
    for name, allowed in (
        ("cipher.algorithm", CIPHERS),
        ("keyfactory.algorithm", KEY_FACTORIES),
        ("key.length", tuple(map(str, KEY_LENGTHS))),
    ):
        text = properties.get(PREFIX + name)
        if text is not None and text not in allowed:
            found.append(f"{PREFIX}{name}={text}: must be one of {', '.join(allowed)}")
    iterations = properties.get(PREFIX + "iterations", str(ITERATIONS_MIN))
    if not iterations.isdecimal() or int(iterations) < ITERATIONS_MIN:
        found.append(f"{PREFIX}iterations={iterations}: must be at least {ITERATIONS_MIN}")
    if properties.get(PREFIX + "secret") and importlib.util.find_spec("cryptography") is None:
        found.append(
            f"{PREFIX}secret is set, which needs the package cryptography: install "
            "kraft-bridge[passwords]"
        )
    return found
