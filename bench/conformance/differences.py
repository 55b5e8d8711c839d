"""What servers do otherwise than the cases say, each looked at by hand: ``differences.toml``.

A row excuses a case on one server. A failed case without a row, and a row whose case does not fail
any more, are told, and make ``make conformance`` end with 1.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).with_name("differences.toml")


@dataclass(frozen=True, slots=True)
class Difference:
    """One row.

    Args:
        server: name of a server of ``servers.py``.
        cases: ids, with the listener where ``--list`` leaves it open; all have one reason.
        where: class and method, or file and function, of the server.
        why: what it does there, in a sentence.
        kip: what a KIP says that the server breaks; needed of Kafka's own for a *must*.
    """

    server: str
    cases: tuple[str, ...]
    where: str
    why: str
    kip: str = ""


def read(path: Path = PAGE) -> list[Difference]:
    """Every row.

    Raises:
        ValueError: one lacks something, or a case has two on one server.
    """
    rows = [
        Difference(**{**one, "cases": tuple(one["cases"])})
        for one in tomllib.loads(path.read_text()).get("difference", [])
    ]
    pairs = [(one.server, case) for one in rows for case in one.cases]
    twice = {pair for pair in pairs if pairs.count(pair) > 1}
    if twice:
        raise ValueError(f"{path.name}: twice: {sorted(twice)}")
    for one in rows:
        if not (one.where and one.why and one.cases):
            raise ValueError(f"{path.name}: without where, why or cases: {one}")
    return rows


def unexplained(
    server: str, cases: Sequence[dict[str, Any]], rows: Iterable[Difference]
) -> list[str]:
    """Sentences about what the table does not say of a server that was judged whole."""
    told = {case: one for one in rows if one.server == server for case in one.cases}
    failed = {one["id"]: one for one in cases if one["outcome"] == "failed"}
    found = [
        f"{server}: {one['level']} {name}: {one['why']}: "
        f"expected {one['expected']}, got {one['got']}"
        for name, one in failed.items()
        if name not in told
    ]
    found += [
        f"{server}: must {name}: its row quotes no KIP"
        for name, one in failed.items()
        if name in told and one["level"] == "must" and is_kafkas(server) and not told[name].kip
    ]
    return found + [
        f"{server}: {name} does not fail: its row can go" for name in told if name not in failed
    ]


def is_kafkas(server: str) -> bool:
    """Whether a server is Kafka itself."""
    return server.startswith(("kafka-", "zookeeper-"))
