"""The requests of each kind of load, encoded before they are due wherever that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from bench.runs.client import UNANSWERED, Load, request_frame
from bench.runs.scenario import Case, Kind, WarmUp
from bench.runs.seeding import present_id, present_name
from wire import messages as m
from wire.errors import named
from wire.frame import decode_response

REPLICAS: Final = (0, 1, 2)
LEADER: Final = 0
CLIENT_ID: Final = "bench"
MADE: Final = "made"
"""Names of topics that the load creates begin with it."""
_TIMEOUT_MS: Final = 120_000
"""Timeout of a creation: longer than any freeze, so that the request waits and is not refused."""
_TOPIC: Final = 2
_KEYS: Final = {
    "CreateTopics": (19, 7),
    "IncrementalAlterConfigs": (44, 1),
    "AlterPartition": (56, 3),
}


class _Encoded:
    """Requests of one API."""

    def __init__(self, api: str) -> None:
        self.api = api
        self.api_key, self.version = _KEYS[api]
        self.doubtful: set[str] = set()
        """Topics whose state is not known, because a request was not answered with success."""

    def _frame(self, message: object) -> bytes:
        return request_frame(message, self.api_key, self.version, CLIENT_ID)

    def _message(self, frame: bytes) -> object:
        return decode_response(self.api_key, self.version, frame)[1]


class Creations(_Encoded):
    """CreateTopics of one topic each, all replicas placed by hand: leader 0."""

    def __init__(self, prefix: str, count: int, partitions: int) -> None:
        super().__init__("CreateTopics")
        self._prefix = prefix
        kinds = m.CreateTopicsRequest
        assignments = [
            kinds.CreatableReplicaAssignment(partition_index=index, broker_ids=REPLICAS)
            for index in range(partitions)
        ]
        self._frames: list[bytes] = []
        for number in range(count):
            topic = kinds.CreatableTopic(
                name=self.name(number),
                num_partitions=-1,
                replication_factor=-1,
                assignments=assignments,
            )
            self._frames.append(self._frame(kinds(topics=[topic], timeout_ms=_TIMEOUT_MS)))
        self.doubtful = {self.name(number) for number in range(count)}

    def name(self, number: int) -> str:
        """Name of a topic."""
        return f"{self._prefix}-{number:06d}"

    def key(self, number: int) -> None:
        """Creations do not depend on each other."""
        del number

    def frame(self, number: int) -> bytes:
        """See Load."""
        return self._frames[number]

    def answered(self, number: int, frame: bytes) -> int:
        """See Load."""
        answer = self._message(frame)
        assert isinstance(answer, m.CreateTopicsResponse)
        error = int(answer.topics[0].error_code)
        if not error:
            self.doubtful.discard(self.name(number))
        return error


class ConfigChanges(_Encoded):
    """One topic's ``retention.ms`` after the other's, each time another value.

    Args:
        count: of changes.
        topics: present.
        first: added to the values; those of two loads must not be the same.
    """

    def __init__(self, count: int, topics: int, first: int = 0) -> None:
        super().__init__("IncrementalAlterConfigs")
        self._topics = topics
        kinds = m.IncrementalAlterConfigsRequest
        self._frames = []
        for number in range(count):
            value = kinds.AlterableConfig(
                name="retention.ms", value=str(3_600_000 + first + number)
            )
            resource = kinds.AlterConfigsResource(
                resource_type=_TOPIC, resource_name=present_name(number % topics), configs=[value]
            )
            self._frames.append(self._frame(kinds(resources=[resource])))

    def key(self, number: int) -> int:
        """Changes of one topic follow each other: the last value is known."""
        return number % self._topics

    def frame(self, number: int) -> bytes:
        """See Load."""
        return self._frames[number]

    def answered(self, number: int, frame: bytes) -> int:
        """See Load."""
        answer = self._message(frame)
        assert isinstance(answer, m.IncrementalAlterConfigsResponse)
        error = int(answer.responses[0].error_code)
        if error:
            self.doubtful.add(present_name(number % self._topics))
        return error


class IsrChanges(_Encoded):
    """AlterPartition in broker 0's name: a partition's ISR shrinks to two, then grows to three.

    Args:
        topics: topics present; the first partition of each changes, one topic after the other.
        broker_epoch: of broker 0.
        epochs: leader epoch and partition epoch of the first topics' partitions; of others 0.
    """

    def __init__(
        self, topics: int, broker_epoch: int, epochs: Sequence[tuple[int, int]] = ()
    ) -> None:
        super().__init__("AlterPartition")
        self._topics = topics
        self._broker_epoch = broker_epoch
        self._epochs = [*epochs, *[(0, 0)] * (topics - len(epochs))]
        """Leader epoch and partition epoch of each."""
        self._lost: set[int] = set()

    @property
    def epochs(self) -> Sequence[tuple[int, int]]:
        """Leader epoch and partition epoch of each, as the last answers have them."""
        return self._epochs

    def key(self, number: int) -> int:
        """A change needs the epochs that the one before it was answered."""
        return number % self._topics

    def frame(self, number: int) -> bytes | None:
        """See Load."""
        at = number % self._topics
        if at in self._lost:
            return None
        leader_epoch, partition_epoch = self._epochs[at]
        shrinks = number // self._topics % 2 == 0
        kinds = m.AlterPartitionRequest
        partition = kinds.PartitionData(
            partition_index=0,
            leader_epoch=leader_epoch,
            new_isr_with_epochs=[
                kinds.BrokerState(broker_id=one) for one in REPLICAS[: 2 if shrinks else 3]
            ],
            partition_epoch=partition_epoch,
        )
        topic = kinds.TopicData(topic_id=present_id(at), partitions=[partition])
        return self._frame(kinds(broker_id=LEADER, broker_epoch=self._broker_epoch, topics=[topic]))

    def answered(self, number: int, frame: bytes) -> int:
        """See Load."""
        answer = self._message(frame)
        assert isinstance(answer, m.AlterPartitionResponse)
        at = number % self._topics
        error = int(answer.error_code)
        if not error:
            partition = answer.topics[0].partitions[0]
            error = int(partition.error_code)
            if not error:
                self._epochs[at] = (partition.leader_epoch, partition.partition_epoch)
        if error:
            # Whether it was done is not known, nor then the epochs.
            self._lost.add(at)
            self.doubtful.add(present_name(at))
        return error


Loaded: TypeAlias = Creations | ConfigChanges | IsrChanges


def load_of(
    kind: Kind, case: Case, broker_epoch: int, epochs: Sequence[tuple[int, int]] = ()
) -> Loaded:
    """The load of a case; ``broker_epoch`` and ``epochs`` as of :class:`IsrChanges`."""
    assert case.count is not None
    if kind is Kind.CREATE:
        return Creations(MADE, case.count, case.partitions)
    if kind is Kind.CONFIG:
        return ConfigChanges(case.count, case.topics_present)
    return IsrChanges(case.topics_present, broker_epoch, epochs)


def warm_up(plan: WarmUp) -> Creations:
    """What is created before anything is measured."""
    return Creations("warm", plan.topics, plan.partitions)


def warm_changes(
    kind: Kind, case: Case, plan: WarmUp, broker_epoch: int
) -> tuple[ConfigChanges | IsrChanges, int]:
    """Changes of the load's own kind before it, and how many; ISRs are then as they were.

    Args:
        kind: of ISRs or configs.
        case: what is measured afterwards.
        plan: how many at least.
        broker_epoch: as of :class:`IsrChanges`.

    >>> warm_changes(Kind.ISR, Case("a", topics_present=20_000), WarmUp(changes=4_001), 7)[1]
    4002
    >>> warm_changes(Kind.ISR, Case("a", topics_present=300), WarmUp(changes=4_000), 7)[1]
    4200
    """
    topics = min(case.topics_present, -(-plan.changes // 2))
    count = -(-plan.changes // (2 * topics)) * 2 * topics
    if kind is Kind.CONFIG:
        assert case.count is not None
        return ConfigChanges(count, topics, first=case.count), count
    return IsrChanges(topics, broker_epoch), count


def errors_of(codes: Sequence[int]) -> dict[str, int]:
    """Name of an error -> how many requests were answered with it."""
    found: dict[str, int] = {}
    for code in codes:
        if code:
            name = "UNANSWERED" if code == UNANSWERED else named(code)
            found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


__all__ = [
    "ConfigChanges",
    "Creations",
    "IsrChanges",
    "Load",
    "Loaded",
    "errors_of",
    "load_of",
    "warm_changes",
    "warm_up",
]
