"""The commands of ``compose/README.md`` in their order, and what each has to say or to leave.

A test holds the page and this list equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.compose import plan

_MIGRATION: Final = "docker compose -f compose/migration.yaml"
_ANALYSIS: Final = "docker compose -f compose/analysis.yaml"
_OPERATOR: Final = f"{_MIGRATION} exec operator"
_ANALYST: Final = f"{_ANALYSIS} exec analyst"
_TOPICS: Final = f"{_OPERATOR} kafka-topics.sh --bootstrap-server broker-1:19092"
_REPORT: Final = "/var/lib/kraft-bridge-trace/report"


@dataclass(frozen=True, slots=True)
class Command:
    """One command, as an operator types it."""

    text: str
    expected: tuple[str, ...] = ()
    """Texts that must occur in the command's output."""
    healthy: bool = False
    """Whether every health check of its file must hold afterwards."""
    opens: tuple[str, ...] = ()
    """Addresses of this machine that must answer afterwards, as in a browser."""


_STATUS: Final = f"{_OPERATOR} rehearse status"
_DESCRIBE: Final = f"{_TOPICS} --describe --topic orders"
_WHOLE: Final = ("PartitionCount: 6", "ReplicationFactor: 3")
_PAGES: Final = (
    *(plan.url(each, "localhost") for each in plan.CONTROLLERS),
    f"{plan.prometheus_url('localhost')}/-/ready",
)

BUILD: Final = (Command("docker build -f compose/Dockerfile -t kraft-bridge ."),)
MIGRATION: Final = (
    Command(f"{_MIGRATION} up -d"),
    Command(f"{_OPERATOR} rehearse ready", ("3 brokers answer",), healthy=True),
    Command(
        f"{_TOPICS} --create --topic orders --partitions 6 --replication-factor 3",
        ("Created topic orders",),
    ),
    Command(f"{_OPERATOR} rehearse migrate", ("broker-3: zookeeper -> migrating",)),
    Command(_STATUS, ("dual write (0 of 3 brokers in KRaft mode)",), healthy=True),
    Command(_DESCRIBE, _WHOLE),
    Command(f"{_OPERATOR} rehearse roll", ("broker-3: migrating -> kraft",)),
    Command(_STATUS, ("dual write (3 of 3 brokers in KRaft mode)",), healthy=True),
    Command(_DESCRIBE, _WHOLE),
    Command(f"{_OPERATOR} rehearse back", ("broker-3: migrating -> zookeeper",)),
    Command(_STATUS, ("no controller leads",), healthy=True),
    Command(_DESCRIBE, _WHOLE),
    Command(f"{_OPERATOR} rehearse migrate", ("broker-3: zookeeper -> migrating",)),
    Command(f"{_OPERATOR} rehearse load", ("), 0 failed, 0 without an answer",)),
    Command(f"{_OPERATOR} rehearse roll", ("broker-3: migrating -> kraft",)),
    Command(f"{_OPERATOR} rehearse board", ("phase on the board: dual write",), opens=_PAGES),
    Command(f"{_OPERATOR} rehearse finalise", ("migrating -> kraft",)),
    Command(_STATUS, ("OK: final",), healthy=True),
    Command(f"{_MIGRATION} stop zookeeper"),
    Command(f"{_TOPICS} --create --topic afterwards --replication-factor 3", ("Created topic",)),
    Command(_DESCRIBE, _WHOLE),
    Command(f"{_MIGRATION} down"),
)
ANALYSIS: Final = (
    Command(f"{_ANALYSIS} up -d"),
    Command(f"{_ANALYST} rehearse workers", ("2 workers are ready",), healthy=True),
    Command(
        f"{_ANALYST} kraft-bridge analyze /var/lib/kraft-bridge-trace/trace --out {_REPORT} "
        "--master spark://spark-master:17077",
        ("report.html",),
    ),
    Command(f"{_ANALYSIS} exec -T analyst cat {_REPORT}/report.html > report.html"),
    Command(f"{_ANALYSIS} down"),
    Command(f"{_MIGRATION} down --volumes"),
)
STORIES: Final = {"build": BUILD, "migration": MIGRATION, "analysis": ANALYSIS}
"""In their order: the analysis reads the trace that the migration leaves."""
