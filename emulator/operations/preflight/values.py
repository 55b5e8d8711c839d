"""Rules on keys and values: spelt as Kafka knows them, of the type that Kafka reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from emulator.config.confidential import is_name, value_of
from emulator.config.java_text import trim
from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.config.unknown import OWN_PREFIX, nearest
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, rule
from emulator.operations.preflight.kafka_relations import contradictions
from emulator.operations.preflight.kafka_values import why_refused
from emulator.operations.preflight.node_file import IBP, PROVIDERS, Properties
from emulator.operations.preflight.survey import Survey

_B25: Final = FindingOf("B25", "KafkaConfig.configDef")
_W20: Final = FindingOf("W20", "KafkaConfig.configNames")
_FOREIGN: Final = (OWN_PREFIX, "confluent.", "config.", "listener.name.", "rsm.config.", "rlmm.")
"""Prefixes of keys that are not Kafka's own, or hold a name of the operator's."""
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}")
_JUDGED_MAX: Final = 100
"""Unknown keys of one file that are compared with the known ones."""


@rule(
    "B25",
    "each value is of the type that Kafka reads",
    "A comment stood behind a number, on its line. Java's properties have no such comments: the "
    "number was none, and the node did not start.",
)
def typed(survey: Survey) -> Iterator[Outcome]:
    """Numbers, their bounds alone and beside others, booleans, and names from a fixed list."""
    if not survey.all_files:
        yield NotRun("B25", "no server.properties given: use -c")
    for one in survey.all_files:
        wrong = {key: why for key, text in one.values.items() if (why := _why(one, key, text))}
        for key, why in contradictions(one.values):
            wrong.setdefault(key, why)
        for key in sorted(wrong):
            text = one.get(key)
            yield _B25(
                one.at(key),
                f"{value_of(key, text)!r}: {wrong[key]}",
                "the node does not start",
                "write such a value; a comment needs a line of its own"
                if "#" in text
                else "write such a value",
            )
        for key in sorted(one.values.keys() - wrong.keys()):
            found = _VARIABLE.search(one.values[key])
            if found is not None and not one.provides(key):
                yield _B25(
                    one.at(key),
                    f"{found[0]}: no provider of {PROVIDERS} fills it in",
                    "Kafka takes it as it is written",
                    f"write the value, or name the provider in {PROVIDERS}",
                    Severity.WARNING,
                )


def _why(one: Properties, key: str, text: str) -> str:
    if one.provides(key):
        return ""
    judged = not one.is_zookeeper_broker or not trim(text)
    if key == IBP and judged and one.protocol is None:
        return "no version that Kafka 3.9 knows"  # B11 says so of ZooKeeper-mode brokers
    return why_refused(key, trim(text))


@rule(
    "W20",
    "each key is spelt as Kafka knows it",
    "zookeeper.metadata.migration.enabled stood in the files instead of .enable. Kafka ignores "
    "what it does not know: the controllers started a cluster of their own, without a migration.",
)
def spelt(survey: Survey) -> Iterator[Outcome]:
    """Keys that Kafka does not know and that are nearly one that it knows."""
    if not survey.all_files:
        yield NotRun("W20", "no server.properties given: use -c")
    for one in survey.all_files:
        unknown = sorted(one.values.keys() - KAFKA_CONFIG_NAMES)
        unknown = [x for x in unknown if is_name(x) and not x.startswith(_FOREIGN)]
        for key in unknown[:_JUDGED_MAX]:
            near = nearest(key, KAFKA_CONFIG_NAMES)
            if near:
                yield _W20(
                    one.at(key),
                    f"unknown; {near} is known",
                    "Kafka ignores it, and what it was set for has its default",
                    f"write {near}, if it is meant",
                    Severity.INFO if near in one.values else None,
                )
