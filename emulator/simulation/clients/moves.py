"""Clients that ask for leaders and for other replicas, and what an answer promises.

Any number at once, on whatever partitions there are: two elections of one partition, an election in
the middle of a reassignment, one reassignment on top of another.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from emulator.simulation.clients.caller import OnAnswer
from emulator.simulation.clients.changes import REFUSED, THROUGH
from emulator.simulation.facts import Facts
from emulator.simulation.models.broker import SimulatedBroker
from emulator.simulation.violation import ensure
from wire import messages as m
from wire.errors import ErrorCode

TIMEOUT_MS: Final = 4_000
ELECT_VERSION: Final = 2
REASSIGN_VERSION: Final = 0
PREFERRED: Final = 0
ELECTION_ERRORS: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
    }
)
MOVE_ERRORS: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
)
WHOLE_ERRORS: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, REFUSED})
Key = tuple[bytes, int]


class Moves:
    """Asks, and holds each answer against what is committed by then.

    Args:
        facts: the newest that is committed.
    """

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self.rng = Random(0)
        """Decides what is asked for; set anew before each request."""
        self._facts = facts
        self._waiting = 0
        self.elected = 0
        self.moved = 0
        self.timed_out = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""
        return self._waiting > 0

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask for an election or a reassignment through one of the brokers."""
        broker = self.rng.choice(brokers)
        facts = self._facts()
        partitions = sorted(
            (topic.name, index, (topic.id, index))
            for topic in facts.topics.values()
            for index in topic.partitions
        )
        if not partitions:
            return
        chosen = self.rng.sample(partitions, min(len(partitions), self.rng.randint(1, 3)))
        self._waiting += 1
        if self.rng.random() < 0.5:
            self._elect(broker, chosen)
        else:
            self._move(broker, chosen)

    def _elect(self, broker: SimulatedBroker, chosen: list[tuple[str, int, Key]]) -> None:
        group = m.ElectLeadersRequest.TopicPartitions
        everything = self.rng.random() < 0.3
        before = {key: self._epoch(key) for _, _, key in chosen}
        request = m.ElectLeadersRequest(
            election_type=self.rng.choice((0, 0, 1)),
            topic_partitions=None
            if everything
            else [group(topic=name, partitions=(index, index)) for name, index, _ in chosen],
            timeout_ms=TIMEOUT_MS,
        )
        keys = {(name, index): key for name, index, key in chosen}

        def answered(answer: object | None) -> None:
            self._waiting -= 1
            if not isinstance(answer, m.ElectLeadersResponse) or self._refused(answer.error_code):
                return
            for topic in answer.replica_election_results:
                ids = [one.partition_id for one in topic.partition_result]
                ensure(len(set(ids)) == len(ids), "elected-once", f"{topic.topic}: {ids}")
                for one in topic.partition_result:
                    code = one.error_code
                    ensure(code in ELECTION_ERRORS, "expected-answers", f"election: {code}")
                    key = keys.get((topic.topic, one.partition_id))
                    if code == ErrorCode.NONE and key is not None:
                        self.elected += 1
                        self._later(key, before[key], "election")

        self._ask(broker, request, ELECT_VERSION, answered)

    def _move(self, broker: SimulatedBroker, chosen: list[tuple[str, int, Key]]) -> None:
        kinds = m.AlterPartitionReassignmentsRequest
        ids = sorted(self._facts().brokers)
        topics = []
        for name, index, key in chosen:
            cancels = self.rng.random() < 0.2
            target = self._target(ids, key)
            part = kinds.ReassignablePartition(
                partition_index=index, replicas=None if cancels else tuple(target)
            )
            topics.append(kinds.ReassignableTopic(name=name, partitions=[part]))

        def answered(answer: object | None) -> None:
            self._waiting -= 1
            if not isinstance(answer, m.AlterPartitionReassignmentsResponse) or self._refused(
                answer.error_code
            ):
                return
            for topic in answer.responses:
                for one in topic.partitions:
                    code = one.error_code
                    ensure(code in MOVE_ERRORS, "expected-answers", f"reassignment: {code}")
                    self.moved += code == ErrorCode.NONE

        request = kinds(topics=topics, timeout_ms=TIMEOUT_MS)
        self._ask(broker, request, REASSIGN_VERSION, answered)

    def _ask(
        self, broker: SimulatedBroker, request: object, version: int, answered: OnAnswer
    ) -> None:
        if self.rng.random() < THROUGH:
            broker.ask_as_client(request, version, lambda asked: answered(asked.answer))
            return

        def plainly(answer: object | None) -> None:
            code = getattr(answer, "error_code", ErrorCode.NONE)
            ensure(code != REFUSED, "expected-answers", f"of the controller itself: {code}")
            answered(answer)

        broker.ask(request, version, plainly)

    def _target(self, ids: list[int], key: Key) -> list[int]:
        """The same brokers in another order, which leaves another one preferred, or any."""
        partition = self._facts().partition(*key)
        if partition is not None and self.rng.random() < 0.5:
            return self.rng.sample(partition.replicas, len(partition.replicas))
        return self.rng.sample(ids, self.rng.randint(1, len(ids)))

    def _refused(self, code: int) -> bool:
        if code == ErrorCode.NONE:
            return False
        ensure(code in WHOLE_ERRORS, "expected-answers", f"a whole request: {code}")
        self.timed_out += code == ErrorCode.REQUEST_TIMED_OUT
        return True

    def _epoch(self, key: Key) -> int:
        partition = self._facts().partition(*key)
        return -1 if partition is None else partition.partition_epoch

    def _later(self, key: Key, before: int, what: str) -> None:
        now = self._epoch(key)
        ensure(now == -1 or now > before, "answered-is-committed", f"{what} of {key}: {now}")
