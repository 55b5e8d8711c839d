"""What several programs do: make a topic, read it back, wait until something is so."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.conformance.case import (
    Again,
    Ask,
    NotOffered,
    Program,
    Stage,
    Violation,
    Where,
    code,
    only,
    printed,
)
from wire import messages as m
from wire.schema import ZERO_UUID

TIMEOUT_MS: Final = 20_000
ON_TOPIC: Final = 3_576
"""One bit for each operation: AclEntry.supportedOperations(TOPIC)."""

Creatable = m.CreateTopicsRequest.CreatableTopic
Assignment = m.CreateTopicsRequest.CreatableReplicaAssignment
TopicConfig = m.CreateTopicsRequest.CreatableTopicConfig


def new(
    name: str,
    partitions: int = 1,
    replication: int = 1,
    assignments: Sequence[Sequence[int]] = (),
    configs: dict[str, str | None] | None = None,
) -> Any:
    """A topic to create; with assignments, in order of the partitions, the numbers are -1."""
    return Creatable(
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else replication,
        assignments=[
            Assignment(partition_index=index, broker_ids=tuple(ids))
            for index, ids in enumerate(assignments)
        ],
        configs=[TopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def creation(*topics: Any, validate_only: bool = False) -> Any:
    """A CreateTopics request."""
    return m.CreateTopicsRequest(
        topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )


def created(stage: Stage, **how: Any) -> Program:
    """Make a topic of a new name, and wait until it is shown; returns (name, id).

    The id is that of version 7, else zeros.
    """
    name = stage.name()
    answer = yield Ask(creation(new(name, **how)))
    result = only("results of CreateTopics", answer.message.topics)
    code(f"CreateTopics of {name}", result.error_code, 0)
    yield from shown(stage, name)
    if stage.here is Where.CONTROLLER and stage.facts.offers(stage.here, m.DescribeConfigsRequest):
        # What a controller shows follows what it has decided.
        kind = m.DescribeConfigsRequest
        one = kind.DescribeConfigsResource(
            resource_type=2, resource_name=name, configuration_keys=None
        )
        yield from eventually(
            f"DescribeConfigs of {name}",
            kind(resources=[one]),
            lambda message: only("results", message.results).error_code == 0,
        )
    return name, result.topic_id


def several(stage: Stage, count: int, **how: Any) -> Program:
    """Make topics; returns their names."""
    names = []
    for _ in range(count):
        name, _ = yield from created(stage, **how)
        names.append(name)
    return names


def shared(stage: Stage) -> Program:
    """A topic that several cases look at: two partitions, of one replica; (name, id)."""
    if "topic" not in stage.shared:
        stage.shared["topic"] = yield from created(stage, partitions=2)
    return stage.shared["topic"]


def reads(stage: Stage) -> bool:
    """Whether topics can be read back: a broker is named."""
    return Where.BROKER in stage.facts.ranges


def metadata(*names: str) -> Any:
    """A Metadata request for topics by name, which creates none."""
    kind = m.MetadataRequest
    topics = [kind.MetadataRequestTopic(name=name) for name in names]
    return kind(topics=topics, allow_auto_topic_creation=False)


def shown(stage: Stage, name: str, done: Callable[[Any], bool] | None = None) -> Program:
    """The topic as Metadata shows it, when it is shown with leaders, and as wanted.

    None if no broker is named.
    """
    if not reads(stage):
        return None

    def ready(message: Any) -> bool:
        topic = only("topics of Metadata", message.topics)
        led = all(part.error_code == 0 for part in topic.partitions)
        whole = topic.error_code == 0 and led
        return bool(whole and (done is None or done(topic)))

    message = yield from eventually(
        f"Metadata of {name}", metadata(name), ready, lowest=4, at=Where.BROKER
    )
    return message.topics[0]


def absent(stage: Stage, name: str) -> Program:
    """Wait until Metadata says UNKNOWN_TOPIC_OR_PARTITION; nothing if no broker is named."""
    if reads(stage):
        yield from eventually(
            f"Metadata of {name}: UNKNOWN_TOPIC_OR_PARTITION",
            metadata(name),
            lambda message: message.topics[0].error_code == 3,
            lowest=4,
            at=Where.BROKER,
        )


def eventually(
    what: str,
    request: Any,
    done: Callable[[Any], bool],
    *,
    lowest: int = 0,
    at: Where | None = None,
    line: str = "main",
) -> Program:
    """Ask until the answer is as wanted; returns the message.

    Raises:
        Violation: it never is.
    """
    for number in itertools.count():
        message = (yield Ask(request, lowest=lowest, at=at, line=line)).message
        if done(message):
            return message
        if given_s := (yield Again(number)):
            raise Violation(what, f"within {given_s:g} s", printed(message))
    raise AssertionError("it counts for ever")


def by_name(what: str, results: Sequence[Any], attribute: str = "name") -> dict[str, Any]:
    """Results by a name.

    Raises:
        Violation: one is there twice.
    """
    found = {getattr(one, attribute): one for one in results}
    if len(found) != len(results):
        raise Violation(what, "each once", [getattr(one, attribute) for one in results])
    return found


def broker_pairs(stage: Stage, count: int) -> list[int]:
    """Some live brokers, drawn.

    Raises:
        NotOffered: there are fewer.
    """
    if len(stage.facts.brokers) < count:
        raise NotOffered(f"{count} live brokers are needed")
    return stage.rng.sample(stage.facts.brokers, count)


def unknown_broker(stage: Stage) -> int:
    """An id that no broker has."""
    return max(stage.facts.brokers, default=0) + 7_001


def is_zero(topic_id: bytes) -> bool:
    """Whether a topic id is none."""
    return topic_id == ZERO_UUID
