"""``password.encoder.*``: read by Kafka's names, refused with a sentence, never shown."""

from __future__ import annotations

import pytest

from emulator.config.passwords import PasswordSettings
from emulator.config.reading import PropertyReader

SECRET = {"password.encoder.secret": "geheim", "password.encoder.old.secret": "alt"}


def read(properties: dict[str, str]) -> tuple[PasswordSettings, list[str]]:
    reader = PropertyReader(properties)
    return PasswordSettings.read(reader), reader.problems


def test_the_defaults_are_kafkas_and_secrets_are_not_shown() -> None:
    settings, problems = read(SECRET)
    assert settings == PasswordSettings(
        "geheim", "alt", "PBKDF2WithHmacSHA512", "AES/CBC/PKCS5Padding", 128, 4_096
    )
    assert "geheim" not in repr(settings)
    assert "alt" not in repr(settings).replace("salt", "")
    assert read({})[0].secret is None
    assert problems == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cipher.algorithm", "DES/CBC/PKCS5Padding"),
        ("keyfactory.algorithm", "PBKDF2WithHmacMD5"),
        ("key.length", "64"),
        ("key.length", "many"),
        ("iterations", "1023"),
        ("iterations", "-1"),
    ],
)
def test_what_cannot_be_is_named(name: str, value: str) -> None:
    _, (problem,) = read({**SECRET, f"password.encoder.{name}": value})
    assert problem.startswith(f"password.encoder.{name}={value}: must be ")


def test_all_of_them_count() -> None:
    properties = {
        "password.encoder.secret": "s",
        "password.encoder.cipher.algorithm": "AES/GCM/NoPadding",
        "password.encoder.keyfactory.algorithm": "PBKDF2WithHmacSHA256",
        "password.encoder.key.length": "256",
        "password.encoder.iterations": "5000",
    }
    settings, problems = read(properties)
    assert problems == []
    assert settings == PasswordSettings(
        "s", None, "PBKDF2WithHmacSHA256", "AES/GCM/NoPadding", 256, 5_000
    )
