"""Random administrative changes, chosen so that none should fail.

Pure: a seeded choice over the topics known to exist. A topic with a change in flight gets no other
change. After an attempt without an answer it rests for a while: a broker may carry that out late.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from wire import messages as m
from wire.errors import ErrorCode

_TIMEOUT_MS: Final = 20_000
_TOPIC_RESOURCE: Final = 2
_SET: Final = 0
_PARTITIONS_MAX: Final = 24
_WITH_CONFIGS: Final = 0.2
"""Share of new topics that have a config of their own."""
_CONFIGS: Final = {
    "retention.ms": ("3600000", "7200000", "86400000"),
    "max.message.bytes": ("500000", "1000012", "2000000"),
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "segment.bytes": ("16777216", "67108864"),
}


class _Kind(NamedTuple):
    """One kind of change."""

    answers: str
    """The field of the response that has the answers."""
    share: float
    """Of all changes."""
    share_crowded: float
    """The same above the wanted number of topics."""


_KINDS: Final = {
    "CreateTopics": _Kind("topics", 0.45, 0.20),
    "DeleteTopics": _Kind("responses", 0.10, 0.45),
    "CreatePartitions": _Kind("results", 0.35, 0.25),
    # Few: at each one a broker in ZooKeeper mode reads every notification of the last 15 minutes,
    # so that many of them within minutes measure the brokers alone.
    "IncrementalAlterConfigs": _Kind("responses", 0.10, 0.10),
}
"""By API; the order decides what a seed draws."""


@dataclass
class TopicState:
    """What a topic must look like once every change was answered."""

    partitions: int
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """One administrative request about one topic."""

    api: str
    topic: str
    request: Any
    after: TopicState | None
    """The topic once the change is done; none: it is gone."""
    done_already: ErrorCode | None
    """What a second attempt is answered when the first was carried out after all."""


class TemporaryRefusal(NamedTuple):
    """An attempt of a change that was refused for a time, and repeated."""

    api: str
    topic: str
    error: str
    sent_ns: int
    answered_ns: int
    """Monotonic clock; it was refused between the two."""


class Changes:
    """Draws changes and tracks the expected state of topics.

    Args:
        seed: same seed, same answers: same changes.
        prefix: of every topic's name.
        replication_factor: of new topics.
        topics_wanted: about as many are kept; above, deletions outweigh.
    """

    def __init__(
        self,
        seed: int,
        *,
        prefix: str = "load",
        replication_factor: int = 2,
        topics_wanted: int = 40,
    ) -> None:
        self._rng = random.Random(seed)
        self._prefix = prefix
        self._replication_factor = replication_factor
        self._wanted = topics_wanted
        self._made = 0
        self._busy: set[str] = set()
        self._resting: dict[str, None] = {}
        """Topics that an attempt given up may still change, the oldest first."""
        self.topics: dict[str, TopicState] = {}
        """Topics that exist for certain, as they must look."""
        self.doubtful: set[str] = set()
        """Topics whose last change failed: their state is unknown."""
        self.deleted: set[str] = set()

    def draw(self) -> Change:
        """The next change; its topic is busy until ``settle``."""
        free = sorted(self.topics.keys() - self._busy - self._resting.keys())
        api = self.draw_api()
        if not free or api == "CreateTopics":
            change = self._create()
        else:
            make = {
                "DeleteTopics": self._delete,
                "CreatePartitions": self._add_partitions,
                "IncrementalAlterConfigs": self._alter_config,
            }[api]
            change = make(self._rng.choice(free))
        self._busy.add(change.topic)
        return change

    def draw_api(self) -> str:
        """Draw the API of the next change; consumes one random number."""
        # Topics that are being created count as there.
        there = (self.topics.keys() | self._busy) - self._resting.keys()
        crowded = len(there) >= self._wanted
        shares = [kind.share_crowded if crowded else kind.share for kind in _KINDS.values()]
        (api,) = self._rng.choices(tuple(_KINDS), shares)
        return api

    def settle(self, change: Change, *, done: bool, late: bool = False) -> None:
        """Note how a change ended.

        Args:
            change: from ``draw``.
            done: it was carried out.
            late: an attempt of it had no answer, so a broker may still send it to a controller. It
                says the same as the attempt that was answered, so it does harm only after another
                change of the topic: the topic rests. At most ``topics_wanted`` topics rest, those
                that began last.
        """
        self._busy.discard(change.topic)
        if not done:
            self.topics.pop(change.topic, None)
            self.doubtful.add(change.topic)
        elif change.after is None:
            self.topics.pop(change.topic, None)
            self.deleted.add(change.topic)
        else:
            self.topics[change.topic] = change.after
            if late:
                self._resting[change.topic] = None
                if len(self._resting) > self._wanted:
                    del self._resting[next(iter(self._resting))]

    def withdraw(self, change: Change) -> None:
        """Take back a change that was never sent: its topic is as it was."""
        self._busy.discard(change.topic)

    def _create(self) -> Change:
        self._made += 1
        name = f"{self._prefix}-{self._made}"
        configs = {}
        if self._rng.random() < _WITH_CONFIGS:
            key = self._rng.choice(sorted(_CONFIGS))
            configs[key] = self._rng.choice(_CONFIGS[key])
        state = TopicState(self._rng.randint(1, 4), configs)
        kinds = m.CreateTopicsRequest
        topic = kinds.CreatableTopic(
            name=name,
            num_partitions=state.partitions,
            replication_factor=self._replication_factor,
            configs=[
                kinds.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
            ],
        )
        request = kinds(topics=[topic], timeout_ms=_TIMEOUT_MS)
        return Change("CreateTopics", name, request, state, ErrorCode.TOPIC_ALREADY_EXISTS)

    def _delete(self, name: str) -> Change:
        kinds = m.DeleteTopicsRequest
        # Versions before 6 read the names, later ones the states.
        request = kinds(
            topics=[kinds.DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_TIMEOUT_MS
        )
        return Change("DeleteTopics", name, request, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _add_partitions(self, name: str) -> Change:
        before = self.topics[name]
        if before.partitions >= _PARTITIONS_MAX:
            return self._alter_config(name)
        count = before.partitions + self._rng.randint(1, 2)
        kinds = m.CreatePartitionsRequest
        # Null: the cluster assigns. An empty list would be an assignment, and a wrong one.
        topic = kinds.CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = kinds(topics=[topic], timeout_ms=_TIMEOUT_MS)
        after = TopicState(count, dict(before.configs))
        return Change("CreatePartitions", name, request, after, ErrorCode.INVALID_PARTITIONS)

    def _alter_config(self, name: str) -> Change:
        before = self.topics[name]
        key = self._rng.choice(sorted(_CONFIGS))
        value = self._rng.choice(_CONFIGS[key])
        kinds = m.IncrementalAlterConfigsRequest
        setting = kinds.AlterableConfig(name=key, config_operation=_SET, value=value)
        resource = kinds.AlterConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=name, configs=[setting]
        )
        after = TopicState(before.partitions, before.configs | {key: value})
        return Change("IncrementalAlterConfigs", name, kinds(resources=[resource]), after, None)


def error_of(api: str, response: Any) -> ErrorCode:
    """The error of the one topic of a response; UNKNOWN_SERVER_ERROR if it has not exactly one."""
    results = getattr(response, _KINDS[api].answers)
    return (
        error_code(results[0].error_code) if len(results) == 1 else ErrorCode.UNKNOWN_SERVER_ERROR
    )


def error_code(number: int) -> ErrorCode:
    """The error of a number; UNKNOWN_SERVER_ERROR if no release has it."""
    return ErrorCode(number) if number in _NUMBERS else ErrorCode.UNKNOWN_SERVER_ERROR


_NUMBERS: Final = frozenset(map(int, ErrorCode))
