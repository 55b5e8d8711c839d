"""What clients were told, kept on disk as it comes: a run that is cut goes on with it.

One JSON list per line: ``["r", topic, partition, offset, sequence]`` is a record that was
acknowledged, ``["c", {...}]`` what a load of administrative changes left when it had ended. A line
that a cut left unfinished is dropped: its record may be there or not.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from bench.demo import verdict
from bench.judge.stores import Entities
from bench.load.admin import AdminResult, GivenUp
from bench.load.changes import TopicState
from bench.load.records import Acknowledged

_RECORD, _CHANGES = "r", "c"
_SEQUENCES: Final = 10_000_000
"""More than a run writes to one partition; numbers of a later run are above those of this one."""


def first_sequence(run: int) -> int:
    """The first sequence number of a run: above all that an earlier run can have sent."""
    return run * _SEQUENCES


class Book:
    """The records and changes that were answered with success, of all runs of a life.

    Args:
        path: the file; read if it is there, made if not.

    Raises:
        OSError: the file cannot be read or written.
        ValueError: a line other than the last one is no such list.
    """

    def __init__(self, path: Path) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.loads: list[AdminResult] = []
        """Loads that came to their end, in order."""
        self._lock = threading.Lock()
        self._read(path)
        self._file = path.open("a")

    def _read(self, path: Path) -> None:
        if not path.exists():
            return
        text = path.read_text()
        whole = text[: text.rfind("\n") + 1]
        for line in whole.splitlines():
            kind, *rest = json.loads(line)
            if kind == _RECORD:
                self.acknowledged.append(Acknowledged(*rest))
            elif kind == _CHANGES:
                self.loads.append(_result(rest[0]))
            else:
                raise ValueError(f"{path}: a line that begins with {kind!r}")
        if whole != text:
            path.write_text(whole)

    def add_record(self, record: Acknowledged) -> None:
        """Enter an acknowledged record; any thread may."""
        with self._lock:
            self.acknowledged.append(record)
            self._write([_RECORD, *record])

    def add_load(self, load: AdminResult) -> None:
        """Enter a load that has ended."""
        with self._lock:
            self.loads.append(load)
            self._write([_CHANGES, _plain(load)])

    def _write(self, line: Sequence[Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def records(self) -> list[Acknowledged]:
        """A copy of what was acknowledged so far."""
        with self._lock:
            return self.acknowledged[:]

    @property
    def topics(self) -> dict[str, TopicState]:
        """Topics that the loads left, as they must look."""
        return {name: state for load in self.loads for name, state in load.topics.items()}


def _plain(load: AdminResult) -> dict[str, Any]:
    return {
        "prefix": load.prefix,
        "intended": load.intended,
        "done": dict(load.done),
        "topics": {name: asdict(state) for name, state in load.topics.items()},
        "doubtful": sorted(load.doubtful),
        "given_up": load.given_up,
    }


def _result(plain: Mapping[str, Any]) -> AdminResult:
    return AdminResult(
        intended=plain["intended"],
        done=Counter(plain["done"]),
        topics={name: TopicState(**state) for name, state in plain["topics"].items()},
        doubtful=set(plain["doubtful"]),
        given_up={name: GivenUp(*one) for name, one in plain["given_up"].items()},
        prefix=plain["prefix"],
    )


def unlike(book: Book, store: Entities) -> list[str]:
    """Where a store is not as the loads left it: one line each."""
    wrong = verdict.unlike(book.topics, store)
    for load in book.loads:
        wrong += verdict.undeleted(load, store)
        wrong += _not_already(load, store)
    return wrong


def _not_already(load: AdminResult, store: Entities) -> list[str]:
    """Changes refused because they seemed carried out, and were not; no later change undid them."""
    return [
        f"{change.api} of topic {topic} was answered with {change.error}, and it has "
        f"{_partitions(store, topic) or 'no'} partitions"
        for topic, change in sorted(load.given_up.items())
        if change.error == verdict.ALREADY.get(change.api)
        and (change.partitions or 0) != _partitions(store, topic)
    ]


def never_there(load: AdminResult, log: Entities, ruled_s: float | None) -> list[str]:
    """Topics whose creation was answered, and that no record ever spoke of when they were deleted.

    A deletion that is refused as carried out already has taken something away: the log says so, if
    the deletion was asked for when the controllers of this log ruled. Else the creation was lost.

    Args:
        load: of the phase that the log was written in.
        log: all of it.
        ruled_s: since when they rule, by the monotonic clock; None: they do not.
    """
    error = verdict.ALREADY["DeleteTopics"]
    return [
        f"topic {topic} could not be deleted ({error}), and the log never had it"
        for topic, change in sorted(load.given_up.items())
        if (change.api, change.error) == ("DeleteTopics", error)
        and ruled_s is not None
        and change.sent_ns > ruled_s * 1e9
        and topic not in log.gone | log.topics.keys()
    ]


def _partitions(store: Entities, topic: str) -> int:
    found = store.topics.get(topic)
    return 0 if found is None else len(found["partitions"])
