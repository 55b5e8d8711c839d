"""Preflight blocks the files with which Kafka does not start, and only those.

Kafka 3.9.2 itself is asked: ``KafkaConfig``, and ZooKeeper's reading of the connect string. One
file of each kind, of four clean clusters, is spoilt in many ways that a hand can spoil it.
"""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import javaproperties
import pytest

from emulator.operations.preflight.endpoints import controller_names, listening
from emulator.operations.preflight.engine import RULES, Finding, Severity
from emulator.operations.preflight.kafka_values import BOOLEANS, NAMES, NUMBERS
from emulator.operations.preflight.node_file import ENABLE, IBP, Properties
from emulator.operations.preflight.report import run
from emulator.operations.preflight.survey import Survey
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import java
from tests.unit.operations.preflight.clean import CLEAN, clean
from tests.unit.operations.preflight.file_changes import FILE_CHANGES

JAVA = Path(__file__).parents[1] / "java"
Oracle = Callable[[list[Mapping[str, str]]], list[str]]
SEEDS = range(30)
OF_FILES = ("B11", "B12", "B16", "B17", "B21", "B23", "B25")
"""Rules that judge a file by itself."""
NUMERIC = frozenset({"INT", "SHORT", "LONG", "DOUBLE"})
STOPS = ("the node does not start", "the broker does not start", "the controller does not start")
AUTHORIZER = "the node does not start: this authorizer keeps its ACLs in ZooKeeper"
"""What a configuration alone does not show: Kafka fails when it makes the authorizer."""
LATER = "the broker does not start with the migration switched on"
SEEN_LATER = frozenset(
    {
        "a super user without a type",
        "a folder twice",
        "a port too high",
        "a chroot after each server",
        "servers with a semicolon",
    }
)
"""Changes with which Kafka starts, and ends a little later, or looks at another tree."""
TAKEN_BEFORE = {
    "controller.quorum.bootstrap.servers": "3.9 was the first to know it",
    "broker.id=-1": "an id that ZooKeeper makes: they start, and register as -1",
    "no broker.id": "the same",
    "controller.listener.names=PLAINTEXT": "its only listener: they advertise it all the same",
    "controller.listener.names=inter.broker.listener.name=": "the same",
    "controller.listener.names=early.start.listeners=PLAINTEXT": "the same",
}
"""What brokers of 3.4.1 (and of 3.5.2) take, and preflight blocks as 3.9.2 does."""
KEYS = (
    "process.roles node.id broker.id listeners advertised.listeners listener.security.protocol.map "
    "controller.listener.names controller.quorum.voters controller.quorum.bootstrap.servers "
    "inter.broker.listener.name security.inter.broker.protocol early.start.listeners "
    "control.plane.listener.name zookeeper.connect zookeeper.metadata.migration.enable "
    "inter.broker.protocol.version log.dirs log.dir sasl.enabled.mechanisms "
    "sasl.mechanism.inter.broker.protocol broker.id.generation.enable reserved.broker.max.id"
).split()
LISTENER_KEYS = ("listeners", "advertised.listeners", "listener.security.protocol.map")
NAME_KEYS = (
    "controller.listener.names",
    "control.plane.listener.name",
    "inter.broker.listener.name",
    "early.start.listeners",
)
VALUES = (
    "",
    "controller",
    "broker",
    "broker,controller",
    "CONTROLLER",
    "PLAINTEXT",
    "SASL_SSL",
    "PLAINTEXT://0.0.0.0:9092",
    "CONTROLLER://0.0.0.0:9093",
    "CONTROLLER://:9093,CONTROLLER://:9094",
    "PLAINTEXT://:9092,CONTROLLER://:9093",
    "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092",
    "PLAINTEXT://127.0.0.1:9092,SSL://localhost:9092",
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "3000@c3000.example.com:9093",
    "3000@c:9093,3000@d:9093",
    "-1",
    "0",
    "1001",
    "+1",
    "02",
    "true",
    "false",
    "ture",
    "3.3",
    "3.9-IV0",
    "3.9.2",
    "/a,/b",
    "PLAIN,SCRAM-SHA-256",
    "${env:X}",
    "${X}",
)
NUMERALS = (
    "1\u00a0",
    "\x01 1 \x1f",
    "-2",
    "-1",
    "0",
    "1",
    "13",
    "1000",
    "2147483647",
    str(2**63 - 1),
    "1.5",
    "x",
    "",
)
SPOILT: Mapping[str, Callable[[str], str]] = {
    "small": str.lower,
    "capitals": str.upper,
    "comment": lambda text: f"{text} # as before",
    "comma behind": lambda text: f"{text},",
    "comma before": lambda text: f",{text}",
    "blanks": lambda text: text.replace(",", " , "),
    "semicolons": lambda text: text.replace(",", ";"),
    "no colons": lambda text: text.replace(":", ""),
    "without its end": lambda text: text[:-1],
    "without its start": lambda text: text[1:],
    "doubled": lambda text: f"{text},{text}",
    "repeated": lambda text: text + text,
    "empty": lambda _: "",
}


@pytest.fixture(scope="session")
def oracle(compile_java: Callable[..., Path]) -> Oracle:
    """Ask Kafka 3.9.2 for each file: "ok", or "! why"."""
    return oracle_of("3.9.2", compile_java)


def oracle_of(release: str, compile_java: Callable[..., Path]) -> Oracle:
    """The same of any release."""
    jars = kafka_jars(release)
    classes = compile_java([JAVA / "ConfigOracle.java"], jars)

    def ask(files: list[Mapping[str, str]]) -> list[str]:
        texts = (javaproperties.dumps(dict(file), timestamp=False) for file in files)
        lines = b"\n".join(base64.b64encode(text.encode("latin-1")) for text in texts)
        printed = java([classes, *jars], "ConfigOracle", stdin=lines)
        answers = printed.decode().splitlines()
        assert len(answers) == len(files)
        return answers

    return ask


def files_of(name: str) -> list[Properties]:
    return list(clean(name).all_files)


def spoilt(one: Properties) -> Iterator[tuple[str, Properties]]:
    """A file with one key changed in each way, and with some changed at random."""
    for key in KEYS:
        for how, change in SPOILT.items():
            if key in one.values:
                yield f"{key} {how}", changed(one, {key: change(one.values[key])})
        for value in VALUES:
            yield f"{key}={value}", changed(one, {key: value})
        if key in one.values:
            yield f"no {key}", changed(one, {key: None})
    yield from named_alike(one)
    for seed in SEEDS:
        chance = random.Random(f"{one.name} {seed}")
        changes: dict[str, str | None] = {
            key: chance.choice([None, *VALUES]) for key in chance.sample(KEYS, 2)
        }
        yield f"{seed}: {changes}", changed(one, changes)


def named_alike(one: Properties) -> Iterator[tuple[str, Properties]]:
    """One listener that exists under two keys, advertised and not: names no fixed list has."""
    listens, told, mapped = (one.get(key) for key in LISTENER_KEYS)
    plane = "PLANE://localhost:9990"
    more = {
        "listeners": f"{listens or 'PLAINTEXT://:9092'},{plane}",
        "listener.security.protocol.map": f"{mapped or 'PLAINTEXT:PLAINTEXT'},PLANE:PLAINTEXT",
    }
    advertised = {**more, "advertised.listeners": f"{told},{plane}"} if told else more
    bases = {"as it is": {}, "with PLANE": more, "with PLANE advertised": advertised}
    names = ["PLANE", *(end.name for end in listening(one)), *controller_names(one)]
    for (base, changes), name in product(bases.items(), dict.fromkeys(names)):
        for keys in (*combinations(NAME_KEYS, 1), *combinations(NAME_KEYS, 2)):
            how = f"{base}: {'='.join(keys)}={name}"
            yield how, changed(one, {**changes, **dict.fromkeys(keys, name)})
            yield f"{how} in small", changed(one, {**changes, **dict.fromkeys(keys, name.lower())})


def changed(one: Properties, changes: Mapping[str, str | None]) -> Properties:
    values = {**one.values, **changes}
    return replace(one, values={k: v for k, v in values.items() if v is not None})


def combined(one: Properties) -> bool:
    """Whether it has both roles: Kafka starts it, but no migration can use it (B12)."""
    return {"broker", "controller"} <= set(one.names("process.roles"))


def refused(one: Properties) -> list[str]:
    """Why a node does not start with this file, as preflight says."""
    survey = Survey({}, (one,))
    told = [x for code in OF_FILES for x in RULES[code].check(survey) if isinstance(x, Finding)]
    told = [x for x in told if x.consequence.startswith(STOPS)]
    told = [x for x in told if one.flag(ENABLE) or x.consequence != LATER]
    return [
        f"{x.code} {x.znode}: {x.fact}"
        for x in told
        if x.severity is Severity.BLOCKER and x.consequence != AUTHORIZER
    ]


@pytest.mark.parametrize("name", CLEAN)
def test_the_files_of_a_clean_cluster_start(name: str, oracle: Oracle) -> None:
    files = files_of(name)
    answers = oracle([one.values for one in files])
    assert [(one.name, answer) for one, answer in zip(files, answers, strict=True)] == [
        (one.name, "ok") for one in files
    ]


@pytest.mark.parametrize("name", ["plain", "guide", "secured", "leftovers"])
def test_a_spoilt_file_is_blocked_as_kafka_refuses_it(name: str, oracle: Oracle) -> None:
    kinds = {
        (one.is_controller, one.is_kraft_broker, one.is_untouched): one for one in files_of(name)
    }
    cases = [case for one in kinds.values() for case in spoilt(one) if not combined(case[1])]
    answers = oracle([one.values for _, one in cases])
    wrong = []
    for (how, one), answer in zip(cases, answers, strict=True):
        said = refused(one)
        if bool(said) != answer.startswith("!"):
            wrong.append((one.name, how, answer, said))
    assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[:20]}"


@pytest.mark.parametrize("name", CLEAN)
def test_kafka_refuses_each_bad_change_of_a_file(name: str, oracle: Oracle) -> None:
    bad = [
        (change, one)
        for change in FILE_CHANGES
        if change.code in {"B23", "B25"} and change.name not in SEEN_LATER
        if change.severity is Severity.BLOCKER
        for one in change.apply(clean(name)).all_files
        if one.values not in [x.values for x in clean(name).all_files]
    ]
    answers = oracle([one.values for _, one in bad])
    assert [
        change.name for (change, _), told in zip(bad, answers, strict=True) if told == "ok"
    ] == []
    assert all(run(change.apply(clean(name))).count(Severity.BLOCKER) for change, _ in bad)


def test_each_number_is_blocked_as_kafka_refuses_it(oracle: Oracle) -> None:
    """Alone and beside the defaults of the others, in a file of each kind."""
    files = files_of("plain")
    kinds = {(one.is_controller, one.is_kraft_broker): one for one in files}
    cases = [
        (f"{one.name} {key}={text}", changed(one, {key: text}))
        for one in kinds.values()
        for key in sorted(NUMBERS.keys() - {"broker.id", "node.id"})
        for text in NUMERALS
    ]
    answers = oracle([one.values for _, one in cases])
    wrong = [
        (how, answer, refused(one))
        for (how, one), answer in zip(cases, answers, strict=True)
        if bool(refused(one)) != answer.startswith("!")
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[:20]}"


# 3.5.2 passes too, but its jars are fetched for `make matrix` alone.
@pytest.mark.parametrize("release", ["3.4.1"])
def test_a_brokers_file_of_an_older_release_is_blocked_as_that_refuses_it(
    release: str, compile_java: Callable[..., Path]
) -> None:
    """A ZooKeeper-mode broker before and in the migration, with that release's protocol.

    Preflight judges as 3.9.2 does, and warns where it knows that older releases differ. Else it may
    block only what is in `TAKEN_BEFORE`.
    """
    ibp = {"inter.broker.protocol.version": release[:3]}
    brokers = [
        changed(next(x for x in files_of(name) if x.is_zookeeper_broker), ibp)
        for name in ("plain", "leftovers")
    ]
    cases = [
        (how, file)
        for one in brokers
        for how, file in spoilt(one)
        # With another protocol it is not a file of that release.
        if file.is_zookeeper_broker and file.get(IBP) in {release[:3], ""}
    ]
    answers = oracle_of(release, compile_java)([one.values for _, one in cases])
    wrong = []
    for (how, one), answer in zip(cases, answers, strict=True):
        said = [*refused(one), *warned(one, release)]
        known = answer == "ok" and any(key in how for key in TAKEN_BEFORE)
        if bool(said) != answer.startswith("!") and not known:
            wrong.append((one.name, how, answer, said))
    assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[:20]}"


def warned(one: Properties, release: str) -> list[str]:
    """What preflight says of brokers of some releases, with the migration switched on or not."""
    told = [x for x in RULES["B11"].check(Survey({}, (one,))) if isinstance(x, Finding)]
    since = "a broker of 3.5 or later does not start with the migration switched on"
    said = ["a broker before 3.9 does not start with it"]
    said += [since] if release >= "3.5" and one.flag(ENABLE) else []
    return [f"{x.znode}: {x.fact}" for x in told if x.consequence.startswith(tuple(said))]


def test_types_and_bounds_are_those_of_kafka(compile_java: Callable[..., Path]) -> None:
    jars = kafka_jars("3.9.2")
    classes = compile_java([JAVA / "ConfigOracle.java"], jars)
    text = java([classes, *jars], "ConfigOracle", "definitions").decode()
    rows = [line.split("\t") for line in text.splitlines()]
    assert {key for key, kind, _ in rows if kind == "BOOLEAN"} == BOOLEANS
    numbers = {key: bounds_of(kind, valid) for key, kind, valid in rows if kind in NUMERIC}
    assert numbers == NUMBERS
    fixed = {key: valid for key, kind, valid in rows if kind in {"STRING", "LIST"}}
    for key, names in NAMES.items():
        assert fixed[key] == f"[{', '.join(names)}]"


def bounds_of(kind: str, valid: str) -> str:
    """A type and its bounds, as the tables have them; bounds in other words are none."""
    found = re.fullmatch(r"\[(?:(-?[0-9.]+),)?\.\.\.(?:,(-?[0-9.]+))?\]", valid)
    low, high = found.groups() if found else (None, None)
    return f"{kind} {low or '-'} {high or '-'}"
