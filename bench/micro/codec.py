"""How fast messages are decoded and encoded, beside construct, Kafka's Java classes and kio.

Thread CPU time, garbage collection off; the compared codecs alternate by round. kio is a
development dependency.
"""

from __future__ import annotations

import gc
import io
import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.micro import table
from bench.micro.messages import Sample, samples
from emulator.servers.jars import kafka_jars
from emulator.servers.java_tools import compile_java, java
from wire import codec, reference
from wire.messages import MetadataResponse
from wire.schema import layout

TARGETS: Final = (
    ("LeaderAndIsr", "decode", "construct", "generated", "at least", 15.0),
    ("LeaderAndIsr", "encode", "construct", "generated", "at least", 18.0),
    ("LeaderAndIsr", "decode", "generated", "Java 3.9.2", "at most", 15.0),
    ("Metadata", "decode", "generated", "kio", "at most", 2.5),
    ("Metadata", "encode", "generated", "kio", "at most", 0.3),
)
"""Message, operation, one codec by another, and what that ratio has to be."""
ROUNDS: Final = 5
ROUND_NS: Final = 40_000_000


@dataclass(slots=True)
class _Contender:
    work: Callable[[], object]
    times: int
    rounds_ns: list[float] = field(default_factory=list)

    def calibrate(self) -> None:
        """Find how often to repeat the work in one round."""
        began = time.thread_time_ns()
        self.work()
        self.work()
        once = max((time.thread_time_ns() - began) // 2, 1)
        self.times = max(1, min(5_000, ROUND_NS // once))

    def round(self) -> None:
        """Run one round."""
        began = time.thread_time_ns()
        for _ in range(self.times):
            self.work()
        self.rounds_ns.append((time.thread_time_ns() - began) / self.times)

    @property
    def median_us(self) -> float:
        """Median over the rounds."""
        return statistics.median(self.rounds_ns) / 1_000


def alternated(works: list[Callable[[], object]]) -> list[float]:
    """Microseconds of each work; one round of each after the other, several times."""
    contenders = [_Contender(work, 1) for work in works]
    for contender in contenders:
        contender.calibrate()
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for contender in contenders:
                contender.round()
    finally:
        gc.enable()
    return [contender.median_us for contender in contenders]


def options(_parser: ArgumentParser) -> None:
    """Nothing may be asked for."""


def rows(_asked: Namespace, _folder: Path) -> Iterator[dict[str, Any]]:
    """Two rows for each message, decode and encode: microseconds of each codec; needs a Java."""
    chosen = samples()
    for sample, java_us in zip(chosen, measure_java(chosen), strict=True):
        for row, of_java in zip(measure(sample), java_us, strict=True):
            yield {**row, "Java 3.9.2": of_java}


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Every row, and whether the targets hold."""
    lines, held = [table.plain(rows), ""], True
    for message, operation, above, below, bound, target in TARGETS:
        [row] = [
            row
            for row in rows
            if row["message"].startswith(f"{message} ") and row["operation"] == operation
        ]
        ratio = row[above] / row[below]
        holds = ratio >= target if bound == "at least" else ratio <= target
        held &= holds
        verdict = "holds" if holds else "MISSED"
        name = f"{message}: {operation}, {above} / {below}"
        lines.append(f"{verdict:6} {name}: {ratio:.2f}, {bound} {target}")
    return "\n".join(lines), held


def measure(sample: Sample) -> list[dict[str, Any]]:
    """Time one message in this process: generated code, construct, and kio where it knows it."""
    cls, version = type(sample.message), sample.version
    group = reference.Group(layout(cls, version))
    assert reference.whole(group, sample.data, "") == sample.message
    assert group.build(sample.message) == sample.data
    decoders: dict[str, Callable[[], object]] = {
        "generated": lambda: codec.raw_decode(cls, version, sample.data),
        "construct": lambda: reference.whole(group, sample.data, ""),
    }
    encoders: dict[str, Callable[[], object]] = {
        "generated": lambda: codec.raw_encode(sample.message, version),
        "construct": lambda: group.build(sample.message),
    }
    if cls is MetadataResponse:
        decoders["kio"], encoders["kio"] = _kio(sample)
    return [
        {"message": sample.name, "bytes": len(sample.data), "operation": operation}
        | dict(zip(works, alternated([*works.values()]), strict=True))
        for operation, works in (("decode", decoders), ("encode", encoders))
    ]


def _kio(sample: Sample) -> tuple[Callable[[], object], Callable[[], object]]:
    """The reader and the writer of kio, for the same bytes."""
    from kio.schema.metadata.v12.response import MetadataResponse as KioMetadata  # noqa: PLC0415 - a library to compare with, which others need not have
    from kio.serial import entity_reader, entity_writer  # noqa: PLC0415 - a library to compare with, which others need not have

    read, write = entity_reader(KioMetadata), entity_writer(KioMetadata)
    message, _ = read(sample.data, 0)

    def encode() -> bytes:
        buffer = io.BytesIO()
        write(buffer, message)
        return buffer.getvalue()

    assert encode() == sample.data
    return lambda: read(sample.data, 0), encode


def measure_java(samples: list[Sample]) -> list[list[float]]:
    """Time Kafka 3.9.2's classes in one JVM: of each message microseconds to decode, to encode."""
    jars = kafka_jars("3.9.2")
    classes = compile_java([Path(__file__).with_name("WireBench.java")], jars)
    lines = [f"{one.java_class} {one.version} {one.data.hex()}" for one in samples]
    # The quick-start flags of short-lived tools would hold the optimising compiler back.
    printed = java(
        [classes, *jars],
        "WireBench",
        flags=["-XX:TieredStopAtLevel=4", "-Xmx512m"],
        stdin="\n".join(lines).encode(),
        timeout_s=300,
    )
    return [[float(ns) / 1_000 for ns in line.split()] for line in printed.decode().splitlines()]
