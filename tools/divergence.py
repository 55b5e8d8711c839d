"""The page of differences from Kafka, out of tools/divergence.toml."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_suffix(".toml")
SEVERITIES: Final = {
    "high": "a client, a tool or an operator meets it in ordinary use",
    "low": "only at a fault, with an unusual input, or with a setting that few have",
    "none": "seen only in the log, in ZooKeeper or on the wire",
}
_HEAD: Final = """\
# Where kraft-bridge differs from Apache Kafka 3.4 … 3.9

**A client or broker meets few of these.** The ones to know: callers may wait for ZooKeeper
([how long](blocking.md)); a leader without the flag [waits before it finalises](finalising.md);
and each *high* below.

What no row names is done as in Kafka; the log has Kafka's format (`kafka-dump-log` and the metadata
shell read it). An API that is not implemented is not advertised, or gets a clear error of Kafka. A
setting that is not implemented stops the start and is named. A ZooKeeper tree with anything that
cannot be copied is refused, each znode by name, and never copied in part; `preflight` and `plan`
show it beforehand. *Kafka* is 3.9.2 where no release is named.

Next: [where the KIPs and Kafka disagree](dev/kips.md), and
[the same calls of ten clients](dev/matrix.md#clients-of-many-ages) on both.

| severity | meaning |
|---|---|
"""


def sections() -> list[dict[str, Any]]:
    """Each section: ``heading``; if it has them ``before``, ``columns`` and ``rows``, ``after``."""
    found: list[dict[str, Any]] = tomllib.loads(FILE.read_text())["section"]
    return found


def page() -> Iterator[str]:
    """docs/divergence.md."""
    yield _HEAD
    for severity, meaning in SEVERITIES.items():
        yield f"| {severity} | {meaning} |\n"
    for section in sections():
        yield f"\n{section['heading']}\n"
        if "before" in section:
            yield f"\n{section['before']}\n"
        if "rows" in section:
            subject, *columns = section["columns"]
            yield f"\n| {' | '.join([subject, 'severity', *columns])} |\n"
            yield "|---" * (len(columns) + 2) + "|\n"
            for name, (severity, *cells) in section["rows"].items():
                shown = "**high**" if severity == "high" else severity
                yield f"| {' | '.join([name, shown, *cells])} |\n"
        if "after" in section:
            yield f"\n{section['after']}\n"
