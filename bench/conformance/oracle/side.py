"""One of the two controllers: sends operations, reads its log, and names its ids.

What differs by server is named: topics by name and how often the name was made, broker epochs and
ids of access control entries by when they were first seen, producer ids by the first of them.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench.conformance.case import Ask, End
from bench.conformance.connection import ANSWER_S, Line, decoded, request_bytes
from bench.conformance.oracle.operation import Operation
from bench.conformance.runner import Address, UnreachableError, opened
from wire import frame
from wire import messages as m
from wire import records as r
from wire.batch import decode_batches
from wire.plain import to_plain
from wire.record_serde import decode_record
from wire.schema import ZERO_UUID, Layout, api_name, declared_messages, layout, spec

STARTS_S: Final = 30.0
"""Within this time a controller that listens knows its cluster."""
METADATA: Final = "__cluster_metadata"
_FETCH_VERSION: Final = 13
"""With topic ids, which Kafka 3.9 asks for; every release of a controller has it."""
_METADATA_ID: Final = bytes(15) + b"\x01"
_FETCH_BYTES: Final = 8 << 20
_NO_CHANGE: Final = -2
REQUESTS: Final[Mapping[str, type]] = {
    api_name(what.key): cls
    for cls, what in declared_messages().items()
    if what.kind == "request" and what.key is not None
}
RESPONSES: Final[Mapping[int, type]] = {
    what.key: cls
    for cls, what in declared_messages().items()
    if what.kind == "response" and what.key is not None
}
_EPOCHS: Final = frozenset({"broker_epoch", "epoch"})
_PRODUCER_IDS: Final = frozenset({"producer_id_start", "next_producer_id"})
Plain = dict[str, Any]


@dataclass(slots=True)
class Partition:
    """What the log says of a partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: bool = False
    removing: bool = False

    @property
    def moving(self) -> bool:
        """Whether a reassignment is going on."""
        return self.adding or self.removing


@dataclass(slots=True)
class Registered:
    """What the log says of a broker."""

    fenced: bool
    directories: tuple[bytes, ...]


@dataclass(slots=True)
class Names:
    """Ids of this side, and their names; all are forgotten when a history begins."""

    topics: dict[bytes, str] = field(default_factory=dict)
    latest: dict[str, bytes] = field(default_factory=dict)
    """Name of a topic -> its newest id."""
    made: dict[str, int] = field(default_factory=dict)
    numbers: dict[tuple[str, object], str] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    """Broker -> its newest epoch."""
    partitions: dict[tuple[bytes, int], Partition] = field(default_factory=dict)
    brokers: dict[int, Registered] = field(default_factory=dict)

    def partition(self, topic: str, number: int) -> Partition | None:
        """Of the newest topic of that name."""
        return self.partitions.get((self.latest.get(topic, b""), number))

    def partitions_of(self, topic: str) -> list[Partition]:
        """Of the newest topic of that name."""
        id_ = self.latest.get(topic)
        return [one for (of, _), one in self.partitions.items() if of == id_]

    def topic(self, name: str, id_: bytes) -> None:
        """A topic was made."""
        if id_ != ZERO_UUID and id_ not in self.topics:
            self.made[name] = self.made.get(name, 0) + 1
            self.topics[id_] = f"{name}#{self.made[name]}"
            self.latest[name] = id_

    def number(self, kind: str, value: object) -> str:
        """The name of what has none but when it was first seen."""
        count = sum(1 for one, _ in self.numbers if one == kind)
        return self.numbers.setdefault((kind, value), f"{kind} {count}")


class Side:
    """A connection to one controller.

    Raises:
        UnreachableError: it cannot be reached.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.names = Names()
        self.base: int | None = None
        """The first producer id that was seen."""
        self._line: Line = opened(address)
        self._numbers = itertools.count(1)
        self._waiting = (0, 0, 0)
        self._sent = Operation("", 0)
        self.cluster_id = self._asked_cluster_id()
        self._epoch = -1
        self._offset = 0
        self.begin()

    def _asked_cluster_id(self) -> str:
        """Kafka's refuses, and gives no id, until it has applied its metadata.version.

        Source: ControllerApis.handleDescribeCluster, Kafka 3.9.
        """
        end_s = time.monotonic() + STARTS_S
        while True:
            answer = self.ask(Operation("DescribeCluster", 1, {"endpoint_type": 2}))
            if not answer.error_code:
                return str(answer.cluster_id)
            if time.monotonic() > end_s:
                why = f"{answer.error_code} {answer.error_message or ''}".strip()
                raise UnreachableError(f"{self.address} does not say its cluster id: error {why}")
            time.sleep(0.1)

    def close(self) -> None:
        """End it."""
        self._line.close()

    # -------------------------------------------------------------- requests
    def begin(self) -> None:
        """A new history: everything so far is forgotten, its records are not read."""
        self.names = Names()
        topics = [{"topic_name": METADATA, "partitions": [{"partition_index": 0}]}]
        answer = self.ask(Operation("DescribeQuorum", 0, {"topics": topics}))
        if answer.error_code or not answer.topics or answer.topics[0].partitions[0].error_code:
            why = f"DescribeQuorum is answered {answer!r}"
            raise UnreachableError(f"{self.address}: no active controller: {why}")
        state = answer.topics[0].partitions[0]
        self._epoch, self._offset = state.leader_epoch, state.high_watermark

    def send(self, operation: Operation) -> None:
        """Send it; `receive` has the answer."""
        cls = REQUESTS[operation.api]
        number = next(self._numbers)
        self._sent = operation
        self._waiting = (spec(cls).key or 0, operation.version, number)
        request = self._build(layout(cls, operation.version), operation.body)
        self._line.send(frame.framed(request_bytes(Ask(request), operation.version, number)))

    def receive(self) -> Any:
        """The answer to what was sent.

        Raises:
            UnreachableError: there is none.
            Violation: it cannot be read.
        """
        got = self._line.frame(ANSWER_S)
        if isinstance(got, End):
            what = api_name(self._waiting[0])
            raise UnreachableError(f"{self.address}: {what} is not answered: {got.value}")
        answer = decoded(*self._waiting, got)
        self._learn(answer)
        return answer

    def ask(self, operation: Operation) -> Any:
        """Send it, and wait for the answer."""
        self.send(operation)
        return self.receive()

    def _build(self, where: Layout, body: Mapping[str, Any]) -> Any:
        values = {}
        for entry in (*where.fields, *where.tagged):
            if entry.name not in body:
                continue
            value = self._resolved(body[entry.name])
            if entry.group is not None and value is not None:
                of = entry.group
                value = (
                    [self._build(of, one) for one in value]
                    if entry.array
                    else self._build(of, value)
                )
            elif entry.array and value is not None:
                value = tuple(self._scalar(entry.kind, self._resolved(one)) for one in value)
            else:
                value = self._scalar(entry.kind, value)
            values[entry.name] = value
        return where.cls(**values)

    @staticmethod
    def _scalar(kind: str, value: Any) -> Any:
        if kind in {"uuid", "bytes"} and isinstance(value, str):
            return bytes.fromhex(value)
        return value

    def _resolved(self, value: Any) -> Any:
        """A value, or what a reference means here."""
        if not isinstance(value, Mapping) or "$" not in value:
            return value
        names, kind = self.names, value["$"]
        if kind == "cluster":
            return self.cluster_id
        if kind == "epoch":
            return names.epochs.get(value["broker"], 7) + value.get("add", 0)
        id_ = (
            names.latest.get(value["topic"])
            or hashlib.md5(value["topic"].encode(), usedforsecurity=False).digest()
        )
        if kind == "topic":
            return id_
        found = names.partitions.get((id_, value["partition"])) or Partition((), (), 0, 0, 0)
        if kind == "isr":
            isr = [one for at, one in enumerate(found.replicas) if value["mask"] >> at & 1]
            return (
                [{"broker_id": one, "broker_epoch": self.names.epochs.get(one, 7)} for one in isr]
                if value.get("epochs")
                else isr
            )
        if kind == "leader":
            if value.get("epoch"):
                return names.epochs.get(found.leader, 7)
            return found.leader
        return int(getattr(found, kind)) + value.get("add", 0)

    # -------------------------------------------------------------- the log
    def records(self) -> list[Any]:
        """What was logged since the last call, with versions; records that do nothing left out.

        Raises:
            UnreachableError: it is not shown: there is another leader, or none.
        """
        found: list[Any] = []
        while True:
            part = self._fetched()
            for batch in decode_batches(part.records or b"", whole_only=False):
                if not batch.is_control:
                    found += [decode_record(value) for _, value in batch.records]
                self._offset = batch.last_offset + 1
            if self._offset >= part.high_watermark:
                break
        kept = [(one, version) for one, version in found if not isinstance(one, r.NoOpRecord)]
        for one, _ in kept:
            self._apply(one)
        return kept

    def whole(self) -> list[Any]:
        """All that was ever logged, without versions.

        Raises:
            UnreachableError: it is not shown, as the log begins with a snapshot.
        """
        self._offset = 0
        return [one for one, _ in self.records()]

    def _fetched(self) -> Any:
        partition = {
            "partition": 0,
            "fetch_offset": self._offset,
            "current_leader_epoch": self._epoch,
            "last_fetched_epoch": self._epoch if self._offset else 0,
            "partition_max_bytes": _FETCH_BYTES,
        }
        topics = [{"topic_id": _METADATA_ID, "partitions": [partition]}]
        answer = self.ask(Operation("Fetch", _FETCH_VERSION, {"topics": topics}))
        if answer.error_code or not answer.responses:
            raise UnreachableError(
                f"{self.address}: Fetch of {METADATA}: error {answer.error_code}"
            )
        part = answer.responses[0].partitions[0]
        if (
            part.error_code
            or part.diverging_epoch.end_offset >= 0
            or part.snapshot_id.end_offset >= 0
        ):
            why = f"error {part.error_code}, leader {part.current_leader.leader_id}"
            raise UnreachableError(f"{self.address}: Fetch of {METADATA} at {self._offset}: {why}")
        return part

    def _learn(self, answer: Any) -> None:
        """Ids of an answer."""
        if isinstance(answer, m.CreateTopicsResponse):
            for topic in answer.topics:
                if topic.error_code == 0:
                    self.names.topic(topic.name, topic.topic_id)
        elif isinstance(answer, m.DeleteTopicsResponse):
            for gone in answer.responses:
                if gone.error_code == 0 and gone.name is not None:
                    self.names.topic(gone.name, gone.topic_id)
        elif isinstance(answer, m.BrokerRegistrationResponse) and answer.error_code == 0:
            self.names.epochs[self._sent.body["broker_id"]] = answer.broker_epoch

    def _apply(self, record: Any) -> None:
        names = self.names
        match record:
            case r.TopicRecord():
                names.topic(record.name, record.topic_id)
            case r.RegisterBrokerRecord():
                names.epochs[record.broker_id] = record.broker_epoch
                directories = tuple(record.log_dirs or ())
                names.brokers[record.broker_id] = Registered(record.fenced, directories)
            case r.BrokerRegistrationChangeRecord():
                broker = names.brokers.get(record.broker_id)
                if broker is not None:
                    broker.fenced = record.fenced > 0 or (broker.fenced and not record.fenced)
                    broker.directories = tuple(record.log_dirs or ()) or broker.directories
            case r.UnregisterBrokerRecord():
                names.brokers.pop(record.broker_id, None)
            case r.RemoveTopicRecord():
                for key in [one for one in names.partitions if one[0] == record.topic_id]:
                    del names.partitions[key]
            case r.PartitionRecord():
                names.partitions[record.topic_id, record.partition_id] = Partition(
                    tuple(record.replicas),
                    tuple(record.isr),
                    record.leader,
                    record.leader_epoch,
                    record.partition_epoch,
                )
            case r.PartitionChangeRecord():
                found = names.partitions.get((record.topic_id, record.partition_id))
                if found is not None:
                    _change(found, record)
            case _:
                pass

    # -------------------------------------------------------------- names
    def named(self, message: Any, version: int) -> Plain:
        """A message as plain values, with names in place of ids."""
        plain = to_plain(layout(type(message), version), message)
        return {name: self._value(name, value) for name, value in plain.items()}

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._value(key, one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._value(name, one) for one in value]
        if name == "topic_id":
            return self.names.topics.get(value) or ("-" if value == ZERO_UUID else value.hex())
        if name in _EPOCHS:
            return self.names.number("epoch", value) if value > 0 else value
        if name in _PRODUCER_IDS:
            if not value:
                return value
            self.base = value if self.base is None else self.base
            return value - self.base
        if name == "id" and isinstance(value, bytes):
            return self.names.number("acl", value)
        if name == "cluster_id":
            return "the cluster" if value == self.cluster_id else value
        return value.hex() if isinstance(value, bytes) else value


def _change(found: Partition, record: Any) -> None:
    """Source: PartitionRegistration.merge, Kafka 3.9."""
    if record.replicas is not None:
        found.replicas = tuple(record.replicas)
    if record.isr is not None:
        found.isr = tuple(record.isr)
    if record.leader != _NO_CHANGE:
        found.leader = record.leader
        found.leader_epoch += 1
    found.partition_epoch += 1
    if record.adding_replicas is not None:
        found.adding = bool(record.adding_replicas)
    if record.removing_replicas is not None:
        found.removing = bool(record.removing_replicas)
