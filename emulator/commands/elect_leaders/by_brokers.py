"""``kraft-bridge elect-leaders``: read the partitions, ask the controller, sort the results.

Source: KIP-183 "Proposed Changes", KIP-460; LeaderElectionCommand, Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from emulator.commands.asking import plain
from emulator.commands.input_file import whole
from emulator.io.kafka_client import Login, LoginError, TooOldError, ask_controller
from emulator.metadata.topics import name_error
from wire import messages as m
from wire.errors import ErrorCode

ELECTION_TYPES: Final = {"preferred": 0, "unclean": 1}
TopicPartition = tuple[str, int]
INDEX_MAX: Final = 2**31 - 1


class ElectionError(Exception):
    """The election could not be requested; the text says why."""


@dataclass(slots=True)
class Outcome:
    """Partitions by result; ``failed`` holds the reason too."""

    elected: list[TopicPartition] = field(default_factory=list)
    needless: list[TopicPartition] = field(default_factory=list)
    failed: list[tuple[TopicPartition, str]] = field(default_factory=list)


class _Partition(msgspec.Struct):
    topic: str
    partition: int


class _PartitionsFile(msgspec.Struct):
    partitions: list[_Partition]


def read_partitions(path: Path) -> list[TopicPartition]:
    """Partitions of a file ``{"partitions": [{"topic": "foo", "partition": 1}, …]}``.

    Raises:
        ValueError: not such a file, no partition in it, one twice, or one that cannot be.
        OSError: it cannot be read.
    """
    try:
        content = msgspec.json.decode(whole(path), type=_PartitionsFile)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a list of partitions: {error}") from error
    partitions = [(one.topic, one.partition) for one in content.partitions]
    if not partitions:
        raise ValueError(f"{path} names no partition")
    if twice := sorted(one for one, times in Counter(partitions).items() if times > 1):
        raise ValueError(f"{path} names twice: {listed(twice)}")
    try:
        check(partitions)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return partitions


def check(partitions: Iterable[TopicPartition]) -> None:
    """Check that there can be such partitions.

    Raises:
        ValueError: a request cannot hold the name, or no topic can have it or the number.
    """
    for topic, index in partitions:
        if (why := name_error(topic)) is not None:
            raise ValueError(plain(why))
        if not 0 <= index <= INDEX_MAX:
            raise ValueError(f"partition {index} of topic {topic}: no partition has that number")


def listed(partitions: Collection[TopicPartition]) -> str:
    """Partitions as one line.

    >>> listed([("b", 0), ("a", 10), ("a", 9)])
    'a-9, a-10, b-0'
    """
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))


def elect_by_brokers(
    bootstrap: Sequence[tuple[str, int]],
    partitions: Sequence[TopicPartition] | None,
    election_type: str,
    timeout_s: float,
    login: Login | None = None,
) -> Outcome:
    """Ask the controller through the brokers.

    Args:
        bootstrap: (host, port) of some brokers.
        partitions: None for every partition.
        election_type: a key of :data:`ELECTION_TYPES`.
        timeout_s: for everything.
        login: to every broker.

    Raises:
        ElectionError: refused as a whole, or the cluster is too old for the kind of election, or
            the login failed.
        UnreachableError: no broker answered in time.
    """
    group = m.ElectLeadersRequest.TopicPartitions
    topics: dict[str, list[int]] = {}
    for topic, index in partitions or ():
        topics.setdefault(topic, []).append(index)
    request = m.ElectLeadersRequest(
        election_type=ELECTION_TYPES[election_type],
        topic_partitions=None
        if partitions is None
        else [group(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
        timeout_ms=int(timeout_s * 1_000),
    )
    try:
        answer: m.ElectLeadersResponse = ask_controller(
            bootstrap,
            request,
            lowest=0 if election_type == "preferred" else 1,
            not_controller=_not_controller,
            timeout_s=timeout_s,
            login=login,
        )
    except LoginError as error:
        raise ElectionError(str(error)) from error
    except TooOldError as error:
        raise ElectionError(f"{error}; no {election_type} election can be asked for") from error
    results = answer.replica_election_results
    if answer.error_code and not any(one.partition_result for one in results):
        raise ElectionError(_reason(answer.error_code, None))
    return _sorted_out(answer)


def _sorted_out(answer: m.ElectLeadersResponse) -> Outcome:
    outcome = Outcome()
    for topic in answer.replica_election_results:
        for one in topic.partition_result:
            partition = (topic.topic, one.partition_id)
            if one.error_code == ErrorCode.NONE:
                outcome.elected.append(partition)
            elif one.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                outcome.needless.append(partition)
            else:
                outcome.failed.append((partition, _reason(one.error_code, one.error_message)))
    return outcome


def _not_controller(answer: m.ElectLeadersResponse) -> bool:
    """In version 0 only the partitions have error codes."""
    codes = {
        one.error_code
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }
    return answer.error_code == ErrorCode.NOT_CONTROLLER or codes == {ErrorCode.NOT_CONTROLLER}


def _reason(code: int, message: str | None) -> str:
    try:
        name = ErrorCode(code).name
    except ValueError:
        name = f"error {code}"
    return f"{name}: {message}" if message else name
