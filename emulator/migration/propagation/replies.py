"""The errors in replies of brokers to control requests, and what is sent again after them.

Two cases are not in Kafka. A broker that was killed while it created a partition has a log folder
without a topic id, and then (LogManager.findStrayReplicas, Kafka 3.6-3.9) fails a FULL LeaderAndIsr
as a whole. It is sent the same request again as INCREMENTAL, which does not search for stray
replicas, but gives an id to the folders of all partitions that it names. Then it is sent as FULL
once more: topics may have been deleted while the broker was away.

Any other request that a broker failed as a whole is sent again after a pause, before what waits
behind it. A broker that was stopped may have lost its ZooKeeper session; until it has another one
it cannot read the configs of topics, and throws. What was merged for it is one request: all of it
would be lost, where Kafka's controller loses one change of many.

That is not enough for followers. A broker that throws at one partition of a LeaderAndIsr has taken
the leader epochs of those before it, and has started no fetcher: the same request, again, changes
nothing there (:class:`HalfDone`).

Source: LeaderAndIsrResponse, UpdateMetadataResponse, StopReplicaResponse, Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Final

import msgspec

from emulator.metadata.image import Image
from emulator.metadata.topics import NO_LEADER
from emulator.net.control import TYPE_FULL, TYPE_INCREMENTAL, ControlRequest, ControlResponse
from emulator.seam import Log, Slices
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

FAILED_MS: Final = 100
"""The first pause after a request that a broker failed as a whole; each further one is doubled."""
FAILED_AGAIN: Final = 7
"""So often it is sent again, over 12.7 s: longer than a broker needs for another ZooKeeper session.
What fails then fails for another reason."""
_KEEPS_STRAYS: Final = (
    "broker failed a FULL LeaderAndIsr once more; it may keep replicas of topics that were deleted "
    "while it was away, until it registers again"
)
CODES_PER_SLICE: Final = 2_500
"""Entries of an answer that are looked at in one step: a millisecond."""
ELECTED_PER_STEP: Final = 100
"""Partitions that get another leader epoch in one step: some milliseconds."""
ELECTED_AGAIN_MS_MAX: Final = 600_000
"""The longest pause before followers of a broker get another leader epoch once more."""
FORGOTTEN_MS: Final = 3_600_000
"""After so long without it the next time is a first time again."""
COORDINATORS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics whose leaders coordinate groups and transactions."""
REPAIRS_MAX: Final = 200
KINDS_LOGGED_MAX: Final = 5
"""Maximum lines in the log about one answer."""


def cannot_look_for_strays(request: ControlRequest, response: object) -> bool:
    """Whether a broker failed a FULL LeaderAndIsr as a whole."""
    return (
        isinstance(request, m.LeaderAndIsrRequest)
        and isinstance(response, m.LeaderAndIsrResponse)
        and request.type == TYPE_FULL
        and response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    )


class RepairKind(Enum):
    """What a broker failed: what was done about it, and what Kafka's own controller does.

    Shown in ``/status``: who rehearses is to learn what would stop there.
    """

    FULL_AS_INCREMENTAL = (
        (
            "sent again as INCREMENTAL, then as FULL; what it follows gets another leader epoch, "
            "what it coordinates another leader"
        ),
        (
            "would not go on: it sends nothing again, and the broker leads and follows none of the "
            "partitions (KAFKA-21022). See the broker's log for a folder without "
            "partition.metadata; stop the broker and move it away"
        ),
    )
    FULL_AGAIN = (
        "not sent again: the broker may keep replicas of deleted topics until it registers again",
        "would not go on, as with the first one",
    )
    SENT_AGAIN = (
        (
            "sent again after a pause, up to 7 times; what a LeaderAndIsr made it follow gets "
            "another leader epoch, what it made it coordinate another leader"
        ),
        "sends nothing again: the broker misses it until it is told of the same partitions again",
    )
    GIVEN_UP = (
        "not sent again after 7 times: see the broker's log",
        "sends nothing again",
    )
    ERRORS = (
        "none: the next change of these partitions, or the next registration, repairs it",
        "does the same",
    )
    QUEUE_DROPPED = (
        "dropped what waited; once the broker answers, it is sent everything",
        "keeps everything in memory until the broker answers",
    )

    def __init__(self, done: str, kafka: str) -> None:
        """What was done, and what Kafka's controller does then."""
        self.done = done
        self.kafka = kafka


class Repair(msgspec.Struct):
    """Requests of one kind that a broker failed in one way; times in ms."""

    kind: RepairKind
    broker_id: int
    request: str
    error: str
    first_ms: int
    last_ms: int
    times: int = 1


class Repairs:
    """All of them, the latest last; of more than :data:`REPAIRS_MAX` the oldest are forgotten."""

    def __init__(self) -> None:
        self._known: dict[tuple[RepairKind, int, str, str], Repair] = {}

    @property
    def known(self) -> tuple[Repair, ...]:
        """In the order in which they were seen last."""
        return tuple(self._known.values())

    def note(self, kind: RepairKind, broker_id: int, request: str, error: str, now_ms: int) -> None:
        """A broker has failed a request. ``request``: the API; ``error``: its name, or the fact."""
        key = kind, broker_id, request, error
        one = self._known.pop(key, None)
        if one is None:
            one = Repair(kind, broker_id, request, error, now_ms, now_ms, 0)
        one.last_ms, one.times = now_ms, one.times + 1
        self._known[key] = one
        if len(self._known) > REPAIRS_MAX:
            del self._known[next(iter(self._known))]


class StraySearch:
    """How a broker that failed a FULL LeaderAndIsr is made to search for stray replicas.

    The request itself is sent again, before what waits behind it, so that nothing newer is undone.
    """

    def __init__(self) -> None:
        self._named: m.LeaderAndIsrRequest | None = None
        """Sent as INCREMENTAL, and not answered without an error yet."""
        self._again: m.LeaderAndIsrRequest | None = None
        """Sent as FULL once more."""

    def failed(self, broker_id: int, request: ControlRequest) -> tuple[list[ControlRequest], Log]:
        """A FULL request was failed: what is sent again, and the line for the log."""
        assert isinstance(request, m.LeaderAndIsrRequest)
        about: dict[str, object] = {"broker": broker_id}
        if request is self._again:
            self._again = None
            return [], Log("warning", _KEEPS_STRAYS, about)
        self._named = request
        request.type = TYPE_INCREMENTAL
        text = "broker failed a FULL LeaderAndIsr; it is sent again as INCREMENTAL"
        return [request], Log("warning", text, about)

    def answered(self, request: ControlRequest, response: object) -> list[ControlRequest]:
        """Any other answer, which has been looked at: what is sent as FULL once more."""
        assert isinstance(response, ControlResponse), type(response)
        if request is not self._named or response.error_code:
            return []
        self._again, self._named = self._named, None
        self._again.type = TYPE_FULL
        return [self._again]


class _Left(msgspec.Struct):
    """Of one broker: those whose state is not known, and those that get another leader epoch."""

    failed: dict[tuple[bytes, int], int] = msgspec.field(default_factory=dict)
    """Topic id and partition -> leader epoch, as named by requests that the broker failed."""
    last: m.LeaderAndIsrRequest | None = None
    """The request that was noted last: it is sent again as it is."""
    elected: dict[tuple[bytes, int], int] = msgspec.field(default_factory=dict)
    """The same of those that get another epoch, from ``due_ms`` on."""
    due_ms: int = 0
    rounds: int = 0


class HalfDone:
    """Partitions that brokers may have left half done, until they get another leader epoch.

    A broker takes the leader epochs of a request partition by partition, and starts the fetchers
    after the last one. If it throws between, those before have the epoch and no fetcher; in 3.9 the
    one at which it throws, too. A further LeaderAndIsr with that epoch starts none, so they stay
    out of the ISR until their leader changes. Kafka's own controller repairs nothing.

    The coordinators of groups and transactions hear last of what the broker leads now, and if it
    throws before, never: it has that epoch too, and leads already. So clients are sent to it and
    answered NOT_COORDINATOR. Their partitions get another leader, if the ISR has one.

    A broker may throw at one partition each time that this gets an epoch: so from the second time
    on there is a pause first, twice as long each time.

    Source: Partition.makeFollower, Partition.makeLeader, ReplicaManager.becomeLeaderOrFollower,
    RequestHandlerHelper.onLeadershipChange, Kafka 3.4 and 3.9.
    """

    def __init__(self) -> None:
        self.brokers: dict[int, _Left] = {}
        """By broker id: it may have another broker epoch when it answers."""
        self.due_ms: int | None = None
        """When :meth:`take` has something."""

    def failed(self, broker_id: int, request: ControlRequest) -> Slices[None]:
        """A broker failed a request as a whole, which may name 1,000,000 partitions."""
        if not isinstance(request, m.LeaderAndIsrRequest):
            return
        of = self.brokers.setdefault(broker_id, _Left())
        if of.last is not request:
            of.last = request
            for seen, left in enumerate(_half_done(broker_id, request), 1):
                if left is not None:
                    partition, leader_epoch = left
                    of.failed[partition] = leader_epoch
                if not seen % CODES_PER_SLICE:
                    yield

    def done(self, broker_id: int, request: ControlRequest, now_ms: int) -> None:
        """A broker has done a request: if it is a LeaderAndIsr, it will do the next one too."""
        of = self.brokers.get(broker_id)
        if of is None or not of.failed or not isinstance(request, m.LeaderAndIsrRequest):
            return
        if not of.elected:
            if now_ms - of.due_ms > FORGOTTEN_MS:
                of.rounds = 0
            pause_ms = FAILED_MS << of.rounds if of.rounds else 0
            of.due_ms = now_ms + min(pause_ms, ELECTED_AGAIN_MS_MAX)
            of.rounds += 1
        if of.elected:
            of.elected |= of.failed
        else:
            of.elected = of.failed
        of.failed, of.last = {}, None
        self._follow()

    def take(self, image: Image, now_ms: int) -> list[r.PartitionChangeRecord]:
        """Another leader epoch, of followers with the same leader, for the next that are due.

        Not for those that have got another one since: a request with it is on its way.

        Args:
            image: the newest.
            now_ms: the time.
        """
        records: list[r.PartitionChangeRecord] = []
        due = (one for one in self.brokers.items() if one[1].elected and one[1].due_ms <= now_ms)
        broker_id, of = next(due, (-1, _Left()))
        for _ in range(min(ELECTED_PER_STEP, len(of.elected))):
            (topic_id, index), leader_epoch = of.elected.popitem()
            partition = image.partition(topic_id, index)
            if partition is None or partition.leader_epoch != leader_epoch:
                continue
            leader = partition.leader
            if leader == broker_id:
                others = (x for x in partition.replicas if x in partition.isr and x != broker_id)
                leader = next(others, NO_LEADER)
            if leader != NO_LEADER:
                records.append(
                    r.PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=leader)
                )
        self._follow()
        return records

    def clear(self) -> None:
        """Leadership is lost."""
        self.brokers.clear()
        self.due_ms = None

    def _follow(self) -> None:
        due = (one.due_ms for one in self.brokers.values() if one.elected)
        self.due_ms = min(due, default=None)


def _half_done(
    broker_id: int, request: m.LeaderAndIsrRequest
) -> Iterator[tuple[tuple[bytes, int], int] | None]:
    """Of each partition: it and its leader epoch; None: nothing is left half done there."""
    for topic in request.topic_states:
        coordinates = topic.topic_name in COORDINATORS
        for state in topic.partition_states:
            left = state.leader != NO_LEADER and (coordinates or state.leader != broker_id)
            partition = topic.topic_id, state.partition_index
            yield (partition, state.leader_epoch) if left else None


def pause_after(response: object, failed: int) -> int | None:
    """After how many ms a request is sent again; None: it is done, or given up.

    Args:
        response: of the broker.
        failed: how often in a row the broker has failed the request before, as a whole.

    >>> failed = m.LeaderAndIsrResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    >>> [pause_after(failed, times) for times in (0, 1, 6, 7)]
    [100, 200, 6400, None]
    """
    if not failed_as_a_whole(response) or failed >= FAILED_AGAIN:
        return None
    return FAILED_MS << failed


def failed_as_a_whole(response: object) -> bool:
    """Whether a broker threw while it was at a request."""
    assert isinstance(response, ControlResponse), type(response)
    return response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def _codes(response: ControlResponse) -> Iterator[tuple[str | bytes, int, int]]:
    """Topic or its id, partition and error code of each entry, first of the whole request.

    The entries are dropped: to free those of 100,000 topics at once takes as long as to read them.
    """
    yield "", -1, response.error_code
    if isinstance(response, m.LeaderAndIsrResponse):
        topics = response.topics
        topics.reverse()
        while topics:
            topic = topics.pop()
            for p in topic.partition_errors:
                yield topic.topic_id, p.partition_index, p.error_code
    if isinstance(response, m.StopReplicaResponse):
        left = response.partition_errors
        left.reverse()
        while left:
            q = left.pop()
            yield q.topic_name, q.partition_index, q.error_code


def error_name(code: int) -> str:
    """Kafka's name of an error code, or the number if it has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def logging_errors(
    broker_id: int, request: ControlRequest, response: ControlResponse, *, older: bool = True
) -> Slices[tuple[list[Log], int]]:
    """The errors of a reply for the log, and how many there are, in slices.

    One line for each kind, with the first partition that has it: many may have one. That a broker
    has the leader epoch of a partition already is no error: releases before 3.6.2 answer so to each
    FULL request. Later ones answer the same if they know a higher epoch than the log has, which is
    one (ReplicaManager.becomeLeaderOrFollower, Kafka 3.4, 3.6.2 and 3.9).

    Args:
        broker_id: who replied.
        request: to this.
        response: its entries are dropped.
        older: whether the broker may be one of those releases.
    """
    first: dict[int, tuple[str | bytes, int]] = {}
    times: Counter[int] = Counter()
    for seen, (topic, partition, code) in enumerate(_codes(response), 1):
        if code:
            times[code] += 1
            first.setdefault(code, (topic, partition))
        if not seen % CODES_PER_SLICE:
            yield
    logs = []
    about = {"broker": broker_id, "request": type(request).__name__}
    for code, count in times.most_common():
        topic, partition = first[code]
        fields = {
            **about,
            "topic": topic.hex() if isinstance(topic, bytes) else topic,
            "partition": partition,
            "error": error_name(code),
            "times": count,
        }
        if older and code == ErrorCode.STALE_CONTROLLER_EPOCH and partition >= 0:
            del times[code]
            logs.append(Log("info", "broker has these leader epochs already", fields))
        elif len(logs) < KINDS_LOGGED_MAX:
            logs.append(Log("warning", "broker answered a control request with errors", fields))
    return logs, times.total()
