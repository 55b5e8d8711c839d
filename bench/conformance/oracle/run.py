"""Carries histories out on both controllers, and compares what they did."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.conformance.oracle import compare, grammar
from bench.conformance.oracle.compare import Difference, Record
from bench.conformance.oracle.known import DEPENDS, Excuses
from bench.conformance.oracle.operation import Operation
from bench.conformance.oracle.shrink import shrunk
from bench.conformance.oracle.side import REQUESTS, RESPONSES, Side
from bench.conformance.runner import Address, UnreachableError
from wire import records as r
from wire.schema import spec

EVERY: Final = 20
"""After so many operations the logs are compared."""
LEVEL: Final = "metadata.version"
LATE_S: Final = (0.02, 0.1, 0.5, 2.0)
"""Pauses before an answer that may be late is asked for again."""
Shown = Callable[[Operation, Any, Any], None]


@dataclass(slots=True)
class Found:
    """A difference that no row excuses, and the shortest history that shows it."""

    differences: list[Difference]
    operations: Sequence[Operation]
    placed: bool
    seed: int
    history: int
    again: bool = True
    """Whether it was seen again in the tries that made it short."""


@dataclass(slots=True)
class Progress:
    """What has been done; a run goes on from it."""

    seed: int
    history: int = 0
    operations: int = 0
    seconds: float = 0.0
    clusters: list[str] = field(default_factory=list)
    """Ids of both clusters, once they are known to hold nothing of others."""
    excuses: Excuses = field(default_factory=Excuses)

    def write(self, path: Path) -> None:
        """Keep it."""
        document = {
            "seed": self.seed,
            "history": self.history,
            "operations": self.operations,
            "seconds": self.seconds,
            "clusters": self.clusters,
            "excused": dict(self.excuses.counts),
            "examples": self.excuses.examples,
        }
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Progress:
        """What was kept.

        Raises:
            OSError: the file cannot be read.
            ValueError: it holds something else.
        """
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            numbers = (kept["history"], kept["operations"], kept["seconds"])
            found = cls(kept["seed"], *numbers, kept["clusters"])
            found.excuses.counts.update(kept["excused"])
            found.excuses.examples.update(kept["examples"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is no progress of the oracle") from error
        return found


class Oracle:
    """Two controllers: ``reference`` is right.

    Raises:
        UnreachableError: one cannot be reached, or they cannot be compared.
    """

    def __init__(self, reference: Address, ours: Address) -> None:
        self.reference, self.ours = Side(reference), Side(ours)
        self.sides = (self.reference, self.ours)
        (one, level), (other, ours_level) = map(_offers, self.sides)
        if level != ours_level:
            why = f"their levels of {LEVEL} differ: {level} there, {ours_level} here"
            raise UnreachableError(f"{why}. Format both with the same release")
        self.level = level
        self.ranges = {
            name: (max(low, other[name][0]), min(high, other[name][1]))
            for name, (low, high) in one.items()
            if name in other and max(low, other[name][0]) <= min(high, other[name][1])
        }
        self.removal = grammar.removal(self.ranges)
        self.told: Callable[[str], None] = lambda _: None

    def close(self) -> None:
        """End both connections."""
        for side in self.sides:
            side.close()

    def claim(self, progress: Progress) -> None:
        """See that both controllers hold nothing that a history would remove.

        Raises:
            UnreachableError: one does, or it cannot be seen.
        """
        clusters = [side.cluster_id for side in self.sides]
        if progress.clusters == clusters:
            return
        for side in self.sides:
            others = strangers(side.whole())
            if others:
                why = "histories would remove it. Take controllers of their own"
                raise UnreachableError(f"{side.address} holds {others[0]}: {why}")
        progress.clusters = clusters

    def run(self, progress: Progress, operations: int, kept: Path | None = None) -> Found | None:
        """Go on until so many operations were carried out; None: nothing differs."""
        self.claim(progress)
        self.clean()
        while progress.operations < operations:
            began = time.monotonic()
            drawn = grammar.history(progress.seed, progress.history, self.ranges, self.level)
            whole = [*drawn.operations, *self.removal]
            found = self.one(whole, progress.excuses, placed=drawn.placed)
            progress.history += 1
            progress.operations += len(whole)
            progress.seconds += time.monotonic() - began
            if found:
                return self.short(found, drawn, progress)
            if kept is not None:
                progress.write(kept)
            self.told(f"{progress.operations} operations, {progress.history} histories")
        return None

    def clean(self) -> None:
        """Remove what histories make, on both sides; what they answer does not matter."""
        for operation in self.removal:
            for side in self.sides:
                side.ask(operation)
        for side in self.sides:
            side.begin()

    def one(
        self,
        operations: Sequence[Operation],
        excuses: Excuses,
        *,
        placed: bool,
        every: int = EVERY,
        shown: Shown | None = None,
    ) -> list[Difference]:
        """Carry a history out; returns the first differences that no row excuses."""
        for side in self.sides:
            side.begin()
        since = 0
        for operation in operations:
            if since and (since >= every or operation.needs_state or operation.api in DEPENDS):
                found = self._logs(excuses, placed=placed)
                since = 0
                if found:
                    return found
            if excuses.passes(operation, self.reference.names):
                continue
            since += 1
            found = self._answers(operation, excuses, shown)
            if found:
                return found
        return self._logs(excuses, placed=placed)

    def _answers(
        self, operation: Operation, excuses: Excuses, shown: Shown | None
    ) -> list[Difference]:
        one, other = self._asked(operation, shown)
        found = compare.answers(operation, one, other, excuses)
        row = excuses.late(operation) if found else None
        if row is None:
            return found
        for pause in LATE_S:
            time.sleep(pause)
            one, other = self._asked(operation, shown)
            again = compare.answers(operation, one, other, excuses)
            if not again:
                excuses.count(row, found[0])
                return []
        return again

    def _asked(
        self, operation: Operation, shown: Shown | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        for side in self.sides:
            side.send(operation)
        one, other = (_masked(side.named(side.receive(), operation.version)) for side in self.sides)
        if shown is not None:
            shown(operation, one, other)
        return one, other

    def _logs(self, excuses: Excuses, *, placed: bool) -> list[Difference]:
        one, other = ([_record(side, *one) for one in side.records()] for side in self.sides)
        return compare.logs(one, other, excuses, placed=placed)

    def short(self, found: list[Difference], drawn: grammar.History, progress: Progress) -> Found:
        """The shortest history that shows a difference of the same kind."""
        kind = found[0].kind
        last: list[list[Difference]] = [found]

        def fails(operations: Sequence[Operation]) -> bool:
            self.clean()
            seen = self.one(operations, Excuses(), placed=drawn.placed, every=1)
            if any(one.kind == kind for one in seen):
                last.append(seen)
                return True
            return False

        what = [drawn.operations, self._with_removal(drawn.operations)]
        whole = next((one for one in what if fails(one)), None)
        history = progress.history - 1
        if whole is None:
            return Found(found, drawn.operations, drawn.placed, progress.seed, history, again=False)
        short = shrunk(whole, fails)
        fails(short)
        self.clean()
        return Found(last[-1], short, drawn.placed, progress.seed, history)

    def _with_removal(self, operations: Sequence[Operation]) -> list[Operation]:
        return [*operations, *self.removal]


def strangers(records: Iterable[Any]) -> list[str]:
    """Topics, brokers and ACLs of a log that no history makes."""
    found: dict[object, str] = {}
    for record in records:
        match record:
            case r.TopicRecord() if record.name not in {*grammar.TOPICS, *grammar.BAD_TOPICS}:
                found[record.topic_id] = f"a topic, {record.name}"
            case r.RemoveTopicRecord():
                found.pop(record.topic_id, None)
            case r.RegisterBrokerRecord() if not grammar.is_ours(record):
                found[record.broker_id] = f"a broker, {record.broker_id}"
            case r.UnregisterBrokerRecord():
                found.pop(record.broker_id, None)
            case r.AccessControlEntryRecord() if record.resource_name not in grammar.RESOURCES:
                found[record.id] = f"an ACL, of {record.resource_name}"
            case r.RemoveAccessControlEntryRecord():
                found.pop(record.id, None)
            case _:
                pass
    return [*found.values()]


def _offers(side: Side) -> tuple[dict[str, tuple[int, int]], int]:
    """The APIs that a side offers and `wire` knows, and its level."""
    answer = side.ask(
        Operation(
            "ApiVersions",
            3,
            {"client_software_name": "kraft-bridge", "client_software_version": "1"},
        )
    )
    names = {spec(cls).key: (name, spec(cls)) for name, cls in REQUESTS.items()}
    found = {}
    for one in answer.api_keys:
        if one.api_key in names and one.api_key in RESPONSES:
            name, what = names[one.api_key]
            low, high = (
                max(one.min_version, what.min_version),
                min(one.max_version, what.max_version),
            )
            found[name] = (low, high)
    levels = [one for one in answer.finalized_features if one.name == LEVEL]
    if not levels:
        raise UnreachableError(f"{side.address}: it tells no level of {LEVEL}")
    return found, int(levels[0].max_version_level)


def _record(side: Side, record: Any, version: int) -> Record:
    return {"record": type(record).__name__, "version": version, **side.named(record, version)}


def _masked(answer: dict[str, Any]) -> dict[str, Any]:
    """Without what each controller has its own of: where controllers listen."""
    if "controller_id" not in answer:
        return answer
    brokers = answer["brokers"] if answer.get("endpoint_type") == 1 else []
    return {**answer, "controller_id": 0, "brokers": brokers}
