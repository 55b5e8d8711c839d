"""Prints the table, the load of the machine, and which targets hold; exit 1 if one does not."""

from __future__ import annotations

import os
import platform
import sys
from typing import Final

from bench.codec.measure import Row, Timing, measure, measure_java
from bench.codec.workload import samples

TARGETS: Final = (
    ("LeaderAndIsr: decode, construct / generated", "at least", 15.0),
    ("LeaderAndIsr: encode, construct / generated", "at least", 18.0),
    ("LeaderAndIsr: decode, generated / Java", "at most", 15.0),
    ("Metadata: decode, generated / kio", "at most", 2.5),
    ("Metadata: encode, generated / kio", "at most", 0.3),
)


def load() -> str:
    """The machine and how busy it is."""
    one, five, _ = os.getloadavg()
    return (
        f"{os.cpu_count()} cores, load {one:.1f} (1 min) {five:.1f} (5 min),"
        f" Python {platform.python_version()}"
    )


def table(rows: list[Row]) -> str:
    """Microseconds per message, decode / encode."""
    lines = [("us of CPU, decode / encode", "bytes", "generated", "construct", "Java 3.9.2", "kio")]
    lines += [
        (
            row.sample.name,
            f"{len(row.sample.data):,}",
            _both(row.generated),
            _both(row.construct),
            _both(row.java),
            _both(row.kio),
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _both(timing: Timing | None) -> str:
    if timing is None:
        return "-"
    return f"{timing.decode_us:,.2f} / {timing.encode_us:,.2f}"


def ratios(rows: list[Row]) -> list[float]:
    """The ratio of each target, in their order."""
    leader_and_isr, metadata = rows[0], rows[2]
    assert leader_and_isr.java is not None
    assert metadata.kio is not None
    return [
        leader_and_isr.construct.decode_us / leader_and_isr.generated.decode_us,
        leader_and_isr.construct.encode_us / leader_and_isr.generated.encode_us,
        leader_and_isr.generated.decode_us / leader_and_isr.java.decode_us,
        metadata.generated.decode_us / metadata.kio.decode_us,
        metadata.generated.encode_us / metadata.kio.encode_us,
    ]


def main() -> int:
    """Measure and print."""
    print(f"before: {load()}")  # noqa: T201 - what the program is for
    chosen = samples()
    rows = [measure(sample) for sample in chosen]
    for row, timing in zip(rows, measure_java(chosen), strict=True):
        row.java = timing
    print(table(rows))  # noqa: T201 - what the program is for
    held = True
    for (name, bound, target), ratio in zip(TARGETS, ratios(rows), strict=True):
        holds = ratio >= target if bound == "at least" else ratio <= target
        held &= holds
        verdict = "holds" if holds else "MISSED"
        print(f"{verdict:6} {name}: {ratio:.2f}, {bound} {target}")  # noqa: T201 - what the program is for
    print(f"after: {load()}")  # noqa: T201 - what the program is for
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
