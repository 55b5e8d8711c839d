"""Types and validators of config values, with Kafka's error texts.

Source: ConfigDef, ThrottledReplicaListValidator, Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from emulator.config.reading import whole_number

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


class ConfigRefusedError(ValueError):
    """A config is refused; the client shows the text."""


@dataclass(frozen=True, slots=True)
class ConfigType:
    """A config type: how its text is parsed, and the error text when parsing fails."""

    name: str
    parse: Callable[[str], object]
    complaint: str


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = whole_number(text.strip())
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return parse


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise ValueError(text)
    return word == "true"


def _list(text: str) -> tuple[str, ...]:
    text = text.strip()
    return tuple(part.strip() for part in text.split(",")) if text else ()


INT = ConfigType("int", _whole(INT_MIN, INT_MAX), "Not a number of type INT")
LONG = ConfigType("long", _whole(LONG_MIN, LONG_MAX), "Not a number of type LONG")
DOUBLE = ConfigType("double", lambda text: float(text.strip()), "Not a number of type DOUBLE")
BOOLEAN = ConfigType("boolean", _boolean, "Expected value to be either true or false")
STRING = ConfigType("string", lambda text: text.strip(), "Expected value to be a string")
LIST = ConfigType("list", _list, "Expected a comma separated list.")

Validator = Callable[[str, object], None]


def _refuse(name: str, value: object, why: str) -> ConfigRefusedError:
    shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
    return ConfigRefusedError(f"Invalid value {shown} for configuration {name}: {why}")


def between(low: float, high: float | None = None) -> Validator:
    """A number within bounds, both inclusive."""

    def check(name: str, value: object) -> None:
        assert isinstance(value, int | float)
        # Negated, so that NaN is refused as well.
        if not value >= low:
            raise _refuse(name, value, f"Value must be at least {low}")
        if high is not None and not value <= high:
            raise _refuse(name, value, f"Value must be no more than {high}")

    return check


def level_or_default(low: int, high: int, default: int) -> Validator:
    """A compression level within bounds, or the value that means the codec's own default."""

    def check(name: str, value: object) -> None:
        assert isinstance(value, int)
        if value != default and not low <= value <= high:
            why = f"Value must be between {low} and {high} or equal to {default}"
            raise _refuse(name, value, why)

    return check


def any_of(*words: str) -> Validator:
    """One of a fixed set of values."""

    def check(name: str, value: object) -> None:
        if value not in words:
            raise _refuse(name, value, f"String must be one of: {', '.join(words)}")

    return check


def valid_list(*words: str) -> Validator:
    """A list of values from a fixed set."""

    def check(name: str, value: object) -> None:
        assert isinstance(value, tuple)
        for word in value:
            if word not in words:
                raise _refuse(name, word, f"String must be one of: {', '.join(words)}")

    return check


def throttled_replicas(name: str, value: object) -> None:
    """``*`` or entries ``partition:broker``."""
    assert isinstance(value, tuple)
    if value == ("*",):
        return
    for entry in value:
        if re.fullmatch(r"[0-9]+:[0-9]+", entry) is None:
            why = (
                "must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
            raise _refuse(name, value, f"{name} {why}")


def message_format(name: str, value: object) -> None:
    """A release number or one of its inter-broker protocol versions."""
    if re.fullmatch(r"[0-9]+\.[0-9]+(\.[0-9]+)*(-IV[0-9]+)?", str(value)) is None:
        raise _refuse(name, value, f"Version {value} is not a valid version")
