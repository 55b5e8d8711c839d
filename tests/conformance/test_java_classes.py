"""Kafka's own Java classes read what we write, and write the same bytes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.servers.jars import kafka_jars, schema_jars
from emulator.servers.java_tools import class_path, java
from tests.conformance.official import DIFFERENT, RELEASES, definitions, versions
from tests.laws.wire_values import all_layouts, made
from wire import codec
from wire.schema import Layout, spec

JAVA = Path(__file__).parents[1] / "java"
SEEDS = range(3)


@pytest.fixture(scope="session")
def oracle(compile_java: Callable[..., Path]) -> Callable[[list[str]], list[str]]:
    """Ask Kafka's classes of all six releases: one line in, one line out."""
    newest = kafka_jars("3.9.2")
    logging = [jar for jar in newest if jar.name.startswith("slf4j-api-")]
    sources = [JAVA / "WireOracle.java", JAVA / "WireWorker.java"]
    classes = compile_java(sources, schema_jars("3.9.2"))
    arguments: list[str] = []
    for release in RELEASES:
        arguments += [release, class_path([classes, *schema_jars(release), *logging])]

    def ask(questions: list[str]) -> list[str]:
        text = "\n".join(questions).encode()
        printed = java([classes], "WireOracle", *arguments, stdin=text)
        answers = printed.decode().splitlines()
        assert len(answers) == len(questions)
        return answers

    return ask


def class_name(form: Layout) -> str:
    """Kafka's class of a message."""
    kind = spec(form.cls).kind
    package = "metadata" if kind == "record" else "message"
    ending = "Data" if kind in {"request", "response", "header"} else ""
    return f"org.apache.kafka.common.{package}.{form.name}{ending}"


def questions(release: str) -> Iterator[tuple[Layout, Any]]:
    """Every layout that a release has as we have it."""
    known = definitions(release)
    for form in all_layouts():
        same = release not in DIFFERENT.get((form.name, form.version), ())
        if same and form.name in known and form.version in versions(known[form.name]):
            yield form, known


@pytest.mark.requirement("R01", "R04", "R06")
def test_random_values_come_back_byte_identical(
    oracle: Callable[[list[str]], list[str]],
) -> None:
    """Of every (message, version), from the classes of every release that has it."""
    asked: list[str] = []
    sent: list[str] = []
    covered: set[tuple[str, int]] = set()
    for release in RELEASES:
        for form, _ in questions(release):
            covered.add((form.name, form.version))
            for seed in SEEDS:
                hexed = codec.raw_encode(made(form, seed), form.version).hex()
                asked.append(f"{release} {class_name(form)} {form.version} {hexed}")
                sent.append(hexed)
    answers = oracle(asked)
    wrong = [
        f"{question[:120]} -> {answer[:200]}"
        for question, wanted, answer in zip(asked, sent, answers, strict=True)
        if answer != wanted
    ]
    assert wrong == []
    assert covered == {(form.name, form.version) for form in all_layouts()}


def test_the_oracle_can_say_no(oracle: Callable[[list[str]], list[str]]) -> None:
    """Bytes that are not a message, and bytes that Kafka would write otherwise, show as such."""
    heartbeat = "org.apache.kafka.common.message.BrokerHeartbeatResponseData"
    cut, long_varint = oracle(
        [
            f"3.9.2 {heartbeat} 0 00000000002901",
            f"3.4.1 {heartbeat} 0 00000000002901010080" + "00",
        ]
    )
    assert cut.startswith("! java.nio.BufferUnderflowException")
    assert long_varint == "00000000002901010000"
