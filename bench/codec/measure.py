"""Timing: thread CPU time, garbage collection off, the compared codecs alternate by round."""

from __future__ import annotations

import gc
import io
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.codec.workload import Sample
from bench.rig.jars import kafka_jars
from bench.rig.java_tools import compile_java, java
from wire import codec, reference
from wire.messages import MetadataResponse
from wire.schema import layout

ROUNDS: Final = 5
ROUND_NS: Final = 40_000_000


@dataclass(slots=True)
class Timing:
    """Microseconds of CPU per decode and per encode."""

    decode_us: float
    encode_us: float


@dataclass(slots=True)
class Row:
    """The timings of one message. ``java`` and ``kio`` are None where not measured."""

    sample: Sample
    generated: Timing
    construct: Timing
    java: Timing | None = None
    kio: Timing | None = None


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


def measure(sample: Sample) -> Row:
    """Time one message in this process: generated code, construct, and kio where it knows it."""
    cls, version = type(sample.message), sample.version
    group = reference.Group(layout(cls, version))
    assert reference.whole(group, sample.data, "") == sample.message
    assert group.build(sample.message) == sample.data
    decoders: list[Callable[[], Any]] = [
        lambda: codec.raw_decode(cls, version, sample.data),
        lambda: reference.whole(group, sample.data, ""),
    ]
    encoders: list[Callable[[], Any]] = [
        lambda: codec.raw_encode(sample.message, version),
        lambda: group.build(sample.message),
    ]
    if cls is MetadataResponse:
        decode_kio, encode_kio = _kio(sample)
        decoders.append(decode_kio)
        encoders.append(encode_kio)
    decoded, encoded = alternated(decoders), alternated(encoders)
    timings = [Timing(*both) for both in zip(decoded, encoded, strict=True)]
    return Row(sample, timings[0], timings[1], kio=timings[2] if len(timings) > 2 else None)


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


def measure_java(samples: list[Sample]) -> list[Timing]:
    """Time Kafka 3.9.2's classes in one JVM."""
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
    found = []
    for line in printed.decode().splitlines():
        decode_ns, encode_ns = map(float, line.split())
        found.append(Timing(decode_ns / 1_000, encode_ns / 1_000))
    return found
