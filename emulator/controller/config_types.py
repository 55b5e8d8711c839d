"""Types and validators of config values, with Kafka's error texts.

Source: ConfigDef, ThrottledReplicaListValidator, Kafka 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from emulator.config import zookeeper_mode
from emulator.config.java_text import (
    INT_MAX,
    INT_MIN,
    boolean,
    double,
    items,
    split,
    trim,
    whole,
)


class ConfigRefusedError(ValueError):
    """A config is refused; the client shows the text."""


@dataclass(frozen=True, slots=True)
class ConfigType:
    """A config type: how its text is parsed, and the error text when parsing fails."""

    name: str
    parse: Callable[[str], object]
    complaint: str


def _int(text: str) -> int:
    return whole(trim(text), INT_MIN, INT_MAX)


INT = ConfigType("int", _int, "Not a number of type INT")
SHORT = ConfigType(
    "short", lambda text: whole(trim(text), -(2**15), 2**15 - 1), "Not a number of type SHORT"
)
LONG = ConfigType("long", lambda text: whole(trim(text)), "Not a number of type LONG")
DOUBLE = ConfigType("double", double, "Not a number of type DOUBLE")
BOOLEAN = ConfigType(
    "boolean", lambda text: boolean(trim(text)), "Expected value to be either true or false"
)
STRING = ConfigType("string", trim, "Expected value to be a string")
LIST = ConfigType("list", items, "Expected a comma separated list.")

Validator = Callable[[str, object], None]


def _refuse(name: str, value: object, why: str) -> ConfigRefusedError:
    shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
    return ConfigRefusedError(f"Invalid value {shown} for configuration {name}: {why}")


def between(low: float, high: float | None = None) -> Validator:
    """A number within bounds, both inclusive."""

    def check(name: str, value: object) -> None:
        assert isinstance(value, int | float)
        if value < low:  # NaN passes, as in Kafka
            raise _refuse(name, value, f"Value must be at least {low}")
        if high is not None and value > high:
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
    if trim("".join(value)) == "*":
        return
    if not all(re.fullmatch("([0-9]+:[0-9]+)?", trim(entry)) for entry in value):
        why = (
            "must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise _refuse(name, value, f"{name} {why}")


def readable_replicas(text: str) -> bool:
    """Whether every broker can read the text of :func:`throttled_replicas`.

    The validator takes more: blanks, empty entries and large numbers, for which the handler of
    topic configs throws.

    Source: TopicConfigHandler.parseThrottledPartitions, Kafka 3.9.
    """
    text = trim(text)
    return text in {"", "*"} or all(map(_readable, split(text, ",")))


def _readable(entry: str) -> bool:
    try:
        partition, broker = split(entry, ":")[:2]
        whole(partition, INT_MIN, INT_MAX)
        whole(broker, INT_MIN, INT_MAX)
    except ValueError:
        return False
    return True


def message_format(release: str) -> Validator:
    """A version that a release of Kafka knows."""

    def check(name: str, value: object) -> None:
        try:
            zookeeper_mode.known(str(value), release)
        except ValueError:
            raise _refuse(name, value, f"Version {value} is not a valid version") from None

    return check
