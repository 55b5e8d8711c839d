"""One scripted fault, as it is written: which requests it strikes, when, and what follows."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

import wire.messages  # noqa: F401 - declares every API
from emulator.net.faults.entities import ENTITIES
from wire.errors import ErrorCode
from wire.schema import declared_messages

FAULTS_MAX: Final = 1_000
"""Maximum faults of one script."""
TEXT_MAX: Final = 1_000
"""Maximum characters of one text of a fault."""
DELAY_MS_MAX: Final = 3_600_000
EVERY_TOPIC: Final = "*"


class ScriptError(ValueError):
    """The script cannot be used; the text says which fault and why."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault. Every field but ``api`` may be left out.

    What it strikes: requests of an ``api`` (Kafka's name, such as "CreateTopics"), alone or inside
    an Envelope; with ``client_id`` those of that client; with ``topic`` (a name, an id, or "*" for
    each) and ``partition`` those that name it.

    What becomes of them, one of: ``error`` (Kafka's name): they are not executed and answered with
    it, and with ``topic`` only what they ask of that topic or partition, while the rest is
    executed; ``drop``: the connection is closed; ``silent``: no answer, nor to what follows on that
    connection; only ``delay_ms``: they are late. ``delay_ms`` makes an error or a drop late, too.
    What is dropped, silent or late is not executed before; with ``executed`` it is executed at
    once, and the answer is what is lost or late.

    When: each time; from the ``nth`` such request on (alone: only then); ``times`` at most; with a
    ``probability`` drawn from ``seed``.

    ``may_miss``: a test does not fail if it never fires. ``message``: the text beside the error.

    Raises:
        ScriptError: the fields do not fit together.
    """

    api: str
    error: str = ""
    message: str | None = None
    drop: bool = False
    silent: bool = False
    delay_ms: int = 0
    executed: bool = False
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    nth: int | None = None
    times: int | None = None
    probability: float | None = None
    seed: int | None = None
    may_miss: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        problems = [why for wrong, why in self._checks() if wrong]
        if problems:
            raise ScriptError(f"fault of {self.api[:TEXT_MAX]!r}: " + "; ".join(problems))

    def _checks(self) -> list[tuple[bool, str]]:
        key = api_keys().get(self.api.lower())
        texts = (self.api, self.error, self.message, self.client_id, self.topic)
        ends = (bool(self.error), self.drop, self.silent)
        shape = None if key is None else ENTITIES.get(key)
        bounds: tuple[tuple[str, float | None, float, float], ...] = (
            ("delay_ms", self.delay_ms, 0, DELAY_MS_MAX),
            ("nth", self.nth, 1, 2**53),
            ("times", self.times, 1, 2**53),
            ("probability", self.probability, 0, 1),
            ("partition", self.partition, 0, 2**31 - 1),
        )
        return [
            (key is None, "no API of that name"),
            (
                bool(self.error)
                and (self.error == "NONE" or self.error not in ErrorCode.__members__),
                f"{self.error[:TEXT_MAX]!r} is no error of Kafka",
            ),
            (
                any(text is not None and len(text) > TEXT_MAX for text in texts),
                "a text is too long",
            ),
            (sum(ends) > 1, "one of error, drop and silent"),
            (not any(ends) and not self.delay_ms, "needs error, drop, silent or delay_ms"),
            (self.silent and bool(self.delay_ms), "what has no answer cannot be late"),
            (self.executed and bool(self.error), "what is answered with an error is not executed"),
            (self.message is not None and not self.error, "a message needs an error"),
            (self.topic is not None and shape is None, "its requests cannot be told by topic"),
            (self.partition is not None and self.topic is None, "a partition needs a topic"),
            (
                self.partition is not None and shape is not None and shape.parts is None,
                "its requests cannot be told by partition",
            ),
            (
                (self.probability is None) != (self.seed is None),
                "probability and seed belong together",
            ),
            *(
                (value is not None and not low <= value <= high, f"{name} is not {low} to {high}")
                for name, value, low, high in bounds
            ),
        ]

    @property
    def key(self) -> int:
        """Kafka's key of the API."""
        return api_keys()[self.api.lower()]

    @property
    def action(self) -> str:
        """In one word, what becomes of the request: error, drop, silent or delay."""
        if self.error:
            return "error"
        return "drop" if self.drop else "silent" if self.silent else "delay"

    @property
    def code(self) -> ErrorCode:
        """The error; NONE if there is none."""
        return ErrorCode[self.error] if self.error else ErrorCode.NONE


@cache
def api_keys() -> Mapping[str, int]:
    """API key by the lower-case name of the API."""
    return {
        one.name.removesuffix("Request").lower(): one.key
        for one in declared_messages().values()
        if one.kind == "request" and one.key is not None
    }


def read_toml(text: str) -> list[Fault]:
    """The faults of a TOML document: one table ``[[fault]]`` each.

    Raises:
        ScriptError: it is no such document.
    """
    return _read(tomllib.loads, text)


def read_json(text: str) -> list[Fault]:
    """The faults of a JSON document: ``{"fault": [{...}, ...]}``.

    Raises:
        ScriptError: it is no such document.
    """
    return _read(json.loads, text)


def _read(parse: Callable[[str], Any], text: str) -> list[Fault]:
    try:
        document = parse(text)
    except (ValueError, RecursionError) as error:
        raise ScriptError(f"cannot be read: {str(error)[:TEXT_MAX]}") from error
    if not isinstance(document, dict) or set(document) - {"fault"}:
        raise ScriptError("a script holds the list `fault` and nothing else")
    entries = document.get("fault", [])
    if not isinstance(entries, list) or len(entries) > FAULTS_MAX:
        raise ScriptError(f"`fault` is a list of at most {FAULTS_MAX}")
    return [_fault(number, entry) for number, entry in enumerate(entries, 1)]


def _fault(number: int, entry: object) -> Fault:
    try:
        return msgspec.convert(entry, Fault)
    except (msgspec.ValidationError, ScriptError) as error:
        raise ScriptError(f"fault {number}: {str(error)[:TEXT_MAX]}") from error
