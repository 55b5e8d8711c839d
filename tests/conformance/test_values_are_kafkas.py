"""Texts are read as Java's and Kafka's classes read them: drawn values, judged by both.

``make values`` draws 100,000 of each kind (VALUES=N, 2,000 or more).
"""

from __future__ import annotations

import base64
import math
import random
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from emulator.config import jaas, java_pattern, java_text, properties
from emulator.controller.api.incremental_alter_configs import ConfigOperation, edited
from emulator.controller.tables import config_changes
from emulator.controller.tables.broker_config_defs import validate_broker_configs
from emulator.controller.tables.config_changes import broker_name_error
from emulator.controller.tables.config_defs import ConfigRefusedError, validate_topic_configs
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import java
from tests.conformance.drawn_texts import (
    LISTS,
    NUMBERS,
    PROPERTIES,
    WORDS,
    Texts,
    a_file,
    a_login,
    a_number,
    a_pattern,
    an_edit,
    dynamic_config,
    either,
    made_of,
    one_of,
    subscription,
    topic_values,
)
from tests.kit.laws import at_least
from tests.unit.controller.world import config

HELPERS = [Path(__file__).parent / name for name in ("AdminOracle.java", "ValueOracle.java")]
NUMBER: Final = at_least(2_000, "VALUES")
ROUND: Final = 20_000
"""Values that one JVM is asked about."""
Oracle = Callable[[list[str]], list[str]]


# ---------------------------------------------------------------------------------- our answers
def said(read: Callable[[], str]) -> str:
    try:
        return read()
    except (ValueError, ConfigRefusedError):
        return "!"


def coded(text: str) -> str:
    # Halves of characters, which the oracle cannot write either.
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def in_a_line(values: Iterable[str]) -> str:
    known = list(values)
    return " ".join([str(len(known)), *map(coded, known)])


def takes_pattern(text: str) -> bool:
    try:
        java_pattern.check(text)
    except ValueError:
        return False
    return True


def as_java_prints(values: Mapping[str, str]) -> str:
    pairs = sorted((coded(key), coded(value)) for key, value in values.items())
    return "{" + ",".join(f"{key}={value}" for key, value in pairs) + "}"


def bits(number: float) -> str:
    if math.isnan(number):
        return "7ff8000000000000"
    return f"{struct.unpack('>Q', struct.pack('>d', number))[0]:x}"


def module(found: jaas.LoginModule) -> str:
    return f"1 {coded(found.name)} {as_java_prints(found.options)}"


def of_file(text: str) -> str:
    found = jaas.parse(text).get("Client")
    if found is None:
        return "none"
    return " ".join([str(len(found)), *(module(one)[2:] for one in found)])


def an_edited(before: str, value: str, operation: str) -> str:
    current = None if before == "\0" else before
    made = edited("delete" if current is None else current, value, ConfigOperation[operation])
    return "same" if made == current else coded(made)


def file_of_properties(rng: random.Random) -> Texts:
    """With a last line: of a backslash at the very end Java makes an empty key."""
    (text,) = made_of(PROPERTIES, 6)(rng)
    return (f"{text}\nend=1\n",)


READ: Mapping[str, tuple[Callable[[random.Random], Texts], Callable[..., str]]] = {
    "trim": (one_of(NUMBERS, WORDS), lambda text: coded(java_text.trim(text))),
    "int": (
        either(one_of(NUMBERS), a_number),
        lambda text: str(java_text.whole(text, java_text.INT_MIN, java_text.INT_MAX)),
    ),
    "long": (either(one_of(NUMBERS), a_number), lambda text: str(java_text.whole(text))),
    "double": (either(one_of(NUMBERS), a_number), lambda text: bits(java_text.double(text))),
    "boolean": (
        one_of(WORDS),
        lambda text: str(java_text.boolean(java_text.trim(text))).lower(),
    ),
    "list": (one_of(LISTS), lambda text: in_a_line(java_text.items(text))),
    "edit": (an_edit, an_edited),
    "properties": (
        file_of_properties,
        lambda text: as_java_prints(properties.parse(text)),
    ),
    "login": (a_login, lambda text: module(jaas.one_module(java_text.trim(text)))),
    "file": (a_file, of_file),
}


@pytest.fixture(scope="module")
def oracle(compile_java: Callable[..., Path]) -> Oracle:
    jars = kafka_jars("3.9.2")
    ask = partial(
        java, [*jars, compile_java(HELPERS, jars)], "org.apache.kafka.controller.AdminOracle"
    )

    def answers(questions: list[str]) -> list[str]:
        printed = ask(stdin="\n".join(questions).encode()).decode().splitlines()
        assert len(printed) == len(questions)
        return printed

    return answers


def drawn(kind: str, draw: Callable[[random.Random], Texts]) -> Iterable[list[Texts]]:
    """Different values, in rounds."""
    rng = random.Random(kind)
    for begin in range(0, NUMBER, ROUND):
        yield [draw(rng) for _ in range(min(ROUND, NUMBER - begin))]


def questions(kind: str, values: list[Texts]) -> list[str]:
    return [" ".join(["value", kind, *map(coded, texts)]) for texts in values]


@pytest.mark.jars
@pytest.mark.parametrize("kind", READ)
def test_a_text_is_read_as_by_java(kind: str, oracle: Oracle) -> None:
    """The same value, or both refuse it."""
    draw, read = READ[kind]
    taken = refused = 0
    for values in drawn(kind, draw):
        theirs = oracle(questions(kind, values))
        ours = [said(partial(read, *texts)) for texts in values]
        differ = [
            (texts, mine, line)
            for texts, mine, line in zip(values, ours, theirs, strict=True)
            if mine != ("!" if line[:1] == "!" else line)
        ]
        assert not differ, (len(differ), differ[:10])
        refused += ours.count("!")
        taken += len(ours) - ours.count("!")
    assert taken > NUMBER / 20
    assert refused > NUMBER / 20 or kind in {"trim", "list", "edit", "properties"}


@pytest.mark.jars
@pytest.mark.parametrize(
    "shape", ["\\{}", "[\\{}]", "[a\\{}-z]", "(\\{})", "\\{}{{2}}", "[a&&\\{}]"]
)
def test_each_escape_of_one_character_is_javas(shape: str, oracle: Oracle) -> None:
    """Drawn patterns meet a wrong one once in 100,000."""
    patterns = [shape.format(chr(code)) for code in range(0x100)]
    theirs = oracle(questions("pattern", [(one,) for one in patterns]))
    differ = [
        (pattern, line)
        for pattern, line in zip(patterns, theirs, strict=True)
        if takes_pattern(pattern) != (set(line.split()) == {"ok"}) and not NOT_TAKEN.search(pattern)
    ]
    assert not differ


def _pairs(texts: Texts) -> dict[str, str]:
    return dict(zip(texts[::2], texts[1::2], strict=True))


def takes_topic(*texts: str) -> bool:
    try:
        validate_topic_configs(CONFIG, _pairs(texts))
    except ConfigRefusedError:
        return False
    return True


def takes_dynamic(*texts: str) -> bool:
    try:
        validate_broker_configs(_pairs(texts))
    except ConfigRefusedError:
        return False
    return True


CONFIG = config()
JUDGED: Mapping[str, tuple[Callable[[random.Random], Texts], Callable[..., bool]]] = {
    "topic": (topic_values, takes_topic),
    "dynamic": (dynamic_config, takes_dynamic),
    "metrics": (subscription, lambda *texts: config_changes.error("s", _pairs(texts)) is None),
    "pattern": (lambda rng: (a_pattern(rng, rng.choice((3, 6, 12))),), takes_pattern),
    "broker": (either(one_of(NUMBERS), a_number), lambda name: broker_name_error(name) is None),
}


@pytest.mark.jars
@pytest.mark.parametrize("kind", JUDGED)
def test_what_brokers_cannot_load_is_refused(kind: str, oracle: Oracle) -> None:
    """Ours takes what Kafka's controller takes and its brokers load, but for rows of divergence."""
    draw, takes = JUDGED[kind]
    counted: Counter[tuple[bool, bool]] = Counter()
    stricter: list[Texts] = []
    for values in drawn(kind, draw):
        for texts, line in zip(values, oracle(questions(kind, values)), strict=True):
            ours, theirs = takes(*texts), set(line.split()) == {"ok"}
            assert theirs or not ours, (texts, line)
            counted[ours, theirs] += 1
            if theirs and not ours and not _meant(kind, texts):
                stricter.append(texts)
    assert not stricter, (len(stricter), stricter[:20])
    assert counted[True, True] > NUMBER / 50, counted
    assert counted[False, False] > NUMBER / 20, counted


NOT_TAKEN = re.compile(
    r"[{,]0*[1-9]\d{4,}[,}]|\\[NX]|\\b\{|\(\?[a-zA-Z-]*[xc]|\\[pP](\{In|\{Is)|\\[1-9k]|\(\?<[=!]"
)
"""Patterns of docs/divergence.md that Java takes."""


def _meant(kind: str, texts: Texts) -> bool:
    """Whether the difference is a row of docs/divergence.md."""
    if kind == "broker":
        return not texts[0] or texts[0] != texts[0].lstrip("+-0") or not texts[0].isascii()
    return kind in {"pattern", "metrics"} and any(map(NOT_TAKEN.search, texts))
