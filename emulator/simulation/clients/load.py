"""The requests of clients, and the state to expect after their answers.

One change of one thing at a time: as long as every answer arrives, exactly one state of each thing
is possible. Where an answer never came, both states are, and the thing is left alone from then on
(its request may still be on its way).

The expectation is the checkers' oracle for "what was answered is committed".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from emulator.simulation.clients.changes import THROUGH, UNKNOWN, unsure
from emulator.simulation.facts import BROKER, TOPIC, Facts
from emulator.simulation.models.broker import BrokerAsked, SimulatedBroker
from emulator.simulation.violation import Violated, ensure
from wire import messages as m
from wire.errors import ErrorCode

TIMEOUT_MS: Final = 4_000
SET: Final = 0
INIT_VERSION: Final = 4
RETENTION: Final = "retention.ms"
BROKER_KEY: Final = "log.cleaner.backoff.ms"
VERSIONS: Final = {
    m.CreateTopicsRequest: 7,
    m.DeleteTopicsRequest: 6,
    m.CreatePartitionsRequest: 3,
    m.IncrementalAlterConfigsRequest: 1,
}
HARMLESS: Final = frozenset({ErrorCode.INVALID_REPLICATION_FACTOR})
"""Errors that mean: not now, nothing was done."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """What clients can see of a topic; ``partitions`` 0: there is none of that name."""

    partitions: int = 0
    retention: str | None = None


@dataclass(slots=True)
class _Thing:
    """A topic by name, or a broker's config (``partitions`` unused)."""

    now: TopicState
    maybe: TopicState | None = None
    """Set when an answer was lost: one of the two."""
    busy: bool = False
    asked: TopicState | None = None
    """What was asked for last."""


class Load:
    """Asks for changes through brokers and remembers what was promised.

    Args:
        facts: the newest that is committed, as the ledger has it.
        add_line: takes a line of the story.
        partitions_max: what a topic is made with at most.
        keeps_one: the last topic is not deleted. A ZooKeeper without topics is not gone back to:
            ``rollback`` takes it for one that was emptied (R03).
    """

    def __init__(
        self,
        facts: Callable[[], Facts],
        add_line: Callable[[str], None],
        partitions_max: int = 4,
        *,
        keeps_one: bool = False,
    ) -> None:
        self.rng = Random(0)
        """Decides what is asked for; set anew before each request."""
        self._facts = facts
        self._add_line = add_line
        self._partitions_max = partitions_max
        self._keeps_one = keeps_one
        self._topics: dict[str, _Thing] = {}
        self._configs: dict[str, _Thing] = {}
        self._blocks: list[tuple[int, int]] = []
        self._made = 0
        self.asked = 0
        self.acknowledged = 0
        self.timed_out = 0

    def inherit(self, before: Load) -> None:
        """Hold what clients were promised in an earlier migration of the cluster; none waits."""
        self._topics = {name: _inherited(one) for name, one in before._topics.items()}
        self._configs = {name: _inherited(one) for name, one in before._configs.items()}
        self._blocks = [*before._blocks]
        self._made, self.acknowledged = before._made, before.acknowledged

    def begin(self) -> None:
        """Take what the migration has copied as known; what was promised earlier is among it."""
        self.compare()
        facts = self._facts()
        for topic in facts.topics.values():
            self._topics.setdefault(topic.name, _Thing(_topic_state(facts, topic.name)))

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask for one change through one of the brokers."""
        broker = self.rng.choice(brokers)
        self.asked += 1
        kind = self.rng.random()
        if kind < 0.12:
            self._allocate(broker)
        elif kind < 0.35:
            self._alter_partition(broker)
        elif kind < 0.45:
            self._broker_config(broker)
        else:
            self._topic(broker, len(brokers))

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""
        return any(one.busy for one in (*self._topics.values(), *self._configs.values()))

    # ---------------------------------------------------------------- changes
    def _topic(self, broker: SimulatedBroker, alive: int) -> None:
        idle = [n for n, t in self._topics.items() if not t.busy and t.maybe is None]
        if len(idle) < 6:
            self._made += 1
            idle.append(f"n{self._made}")
        name = self.rng.choice(idle)
        thing = self._topics.setdefault(name, _Thing(TopicState()))
        request: object
        if not thing.now.partitions:
            count, retention = (
                self.rng.randint(1, self._partitions_max),
                str(self.rng.randint(1, 9_999)),
            )
            after = TopicState(count, retention if self.rng.random() < 0.5 else None)
            request = _create(name, after, self.rng.randint(1, min(2, alive)))
        elif (kind := self.rng.random()) < 0.35 and self._may_delete(name):
            after = TopicState()
            states = [m.DeleteTopicsRequest.DeleteTopicState(name=name)]
            request = m.DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)
        elif kind < 0.65:
            after = replace(thing.now, partitions=thing.now.partitions + self.rng.randint(1, 3))
            asked = m.CreatePartitionsRequest.CreatePartitionsTopic(
                name=name, count=after.partitions, assignments=None
            )
            request = m.CreatePartitionsRequest(topics=[asked], timeout_ms=TIMEOUT_MS)
        else:
            after = replace(thing.now, retention=str(self.rng.randint(1, 9_999)))
            request = _set(TOPIC, name, RETENTION, after.retention)
        self._change(broker, f"topic {name}", thing, after, request)

    def _may_delete(self, name: str) -> bool:
        others = (one for other, one in self._topics.items() if other != name)
        return not self._keeps_one or any(
            one.now.partitions and not one.busy and one.maybe is None for one in others
        )

    def _broker_config(self, broker: SimulatedBroker) -> None:
        name = self.rng.choice(("", str(broker.id)))
        thing = self._configs.setdefault(name, _Thing(TopicState()))
        if thing.busy or thing.maybe is not None:
            return
        after = TopicState(0, str(self.rng.randint(1, 9_999)))
        request = _set(BROKER, name, BROKER_KEY, after.retention)
        self._change(broker, f"broker config {name!r}", thing, after, request)

    def _change(
        self, broker: SimulatedBroker, what: str, thing: _Thing, after: TopicState, request: object
    ) -> None:
        thing.busy, thing.asked = True, after

        def answered(error: int | None, *, through: BrokerAsked | None = None) -> None:
            thing.busy = False
            if error == ErrorCode.NONE:
                thing.now = after
                self.acknowledged += 1
                self._add_line(f"acknowledged {what}: {after}")
                self._compare(what, thing)
            elif error in UNKNOWN or unsure(through, error):
                thing.maybe = after
                self.timed_out += error == ErrorCode.REQUEST_TIMED_OUT
                self._add_line(f"in doubt {what}: {after}")
            else:
                known = error in HARMLESS
                ensure(known, "expected-answers", f"{what} -> {after} was answered {error}")

        version = VERSIONS[type(request)]
        if self.rng.random() < THROUGH:
            broker.ask_as_client(
                request,
                version,
                lambda asked: answered(_error(asked.answer), through=asked),
            )
        else:
            broker.ask(request, version, lambda answer: answered(_error(answer)))

    # ---------------------------------------------------------------- requests of brokers' own
    def _allocate(self, broker: SimulatedBroker) -> None:
        """A block of ids, as another broker asks for it, or one id of this broker's block."""

        def given(asked: BrokerAsked) -> None:
            answer = asked.answer
            if isinstance(answer, m.InitProducerIdResponse) and not answer.error_code:
                self._given(answer.producer_id, answer.producer_id + 1)

        def answered(answer: object | None) -> None:
            if isinstance(answer, m.AllocateProducerIdsResponse) and not answer.error_code:
                end = answer.producer_id_start + answer.producer_id_len
                self._given(answer.producer_id_start, end)

        if self.rng.random() < THROUGH:
            broker.ask_as_client(m.InitProducerIdRequest(), INIT_VERSION, given)
            return
        request = m.AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
        broker.ask(request, 0, answered)

    def _alter_partition(self, broker: SimulatedBroker) -> None:
        """Some followers of a leader fall behind, the others catch up: it changes the ISR."""
        led = [one for one in broker.replicas.led if len(one.partition.replicas) > 1]
        if not led:
            return
        hosted = self.rng.choice(sorted(led, key=lambda one: one.key))
        others = [one for one in hosted.partition.replicas if one != broker.id]
        broker.hold_back(hosted.key, self.rng.sample(others, self.rng.randint(0, len(others))))

    def _given(self, first: int, end: int) -> None:
        self.acknowledged += 1
        for one, other in self._blocks:
            ensure(end <= one or other <= first, "producer-ids-once", f"{first} to {end}")
        self._blocks.append((first, end))
        following = self._facts().next_producer_id
        ensure(following >= end, "answered-is-committed", f"producer ids below {end}")

    # ---------------------------------------------------------------- the oracle
    def compare(self) -> None:
        """Hold every promise against the newest committed facts.

        Raises:
            Violated: one was not kept.
        """
        for name, thing in self._topics.items():
            if not thing.busy:
                self._compare(f"topic {name}", thing)
        for name, thing in self._configs.items():
            if not thing.busy:
                self._compare(f"broker config {name!r}", thing)
        following = self._facts().next_producer_id
        for _, end in self._blocks:
            ensure(following >= end, "answered-is-committed", f"producer ids below {end}")

    def _compare(self, what: str, thing: _Thing) -> None:
        facts = self._facts()
        if what.startswith("topic "):
            found = _topic_state(facts, what[6:])
        else:
            name = what.split("'")[1]
            found = TopicState(0, facts.config(BROKER, name).get(BROKER_KEY))
        if found not in (thing.now, thing.maybe):
            text = f"{what} is {found}, was answered {thing.now}, may be {thing.maybe}"
            raise Violated("answered-is-committed", text)


def _inherited(thing: _Thing) -> _Thing:
    """A thing of an earlier attempt; a change that waited for its answer is in doubt."""
    return replace(thing, busy=False, maybe=thing.asked if thing.busy else thing.maybe)


def _topic_state(facts: Facts, name: str) -> TopicState:
    topic = facts.topic(name)
    if topic is None:
        return TopicState()
    return TopicState(len(topic.partitions), facts.config(TOPIC, name).get(RETENTION))


def _create(name: str, wanted: TopicState, replication_factor: int) -> m.CreateTopicsRequest:
    request = m.CreateTopicsRequest
    configs = []
    if wanted.retention is not None:
        configs = [request.CreatableTopicConfig(name=RETENTION, value=wanted.retention)]
    topic = request.CreatableTopic(
        name=name,
        num_partitions=wanted.partitions,
        replication_factor=replication_factor,
        configs=configs,
    )
    return request(topics=[topic], timeout_ms=TIMEOUT_MS)


def _set(kind: int, name: str, key: str, value: str | None) -> m.IncrementalAlterConfigsRequest:
    request = m.IncrementalAlterConfigsRequest
    config = request.AlterableConfig(name=key, config_operation=SET, value=value)
    resource = request.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[config]
    )
    return request(resources=[resource])


def _error(answer: object | None) -> int | None:
    match answer:
        case m.CreateTopicsResponse():
            return answer.topics[0].error_code
        case m.DeleteTopicsResponse():
            return answer.responses[0].error_code
        case m.CreatePartitionsResponse():
            return answer.results[0].error_code
        case m.IncrementalAlterConfigsResponse():
            return answer.responses[0].error_code
        case _:
            return None
